"""Events: typed records of what happens while sandrl works.

Library code never prints. It calls an `Emit` with one of these frozen records, and the caller decides what to do with
it: the command line draws it, a trainer logs it, a test collects it. Records hold plain values only, so this package
depends on nothing. The modules group them by subject, and all of them are imported from here.
"""

from __future__ import annotations

from sandrl.events.event import Emit, Event, LogLevel, all_of, ignore
from sandrl.events.policies import (
    EndpointLimited,
    ModelSettingsFound,
    PolicyAsked,
    PolicyBuilding,
    PolicyReady,
    TokenLimitFound,
)
from sandrl.events.results import CheckStatus, CheckVerdict, Opinion, ScoredCompletion, Status, Trust
from sandrl.events.rollouts import RolloutStarted, RolloutStepFinished
from sandrl.events.runs import ReportingStarted, RunOpened, StopRequested, Warned
from sandrl.events.sandboxes import (
    BudgetReached,
    CleaningUp,
    CreationSlowed,
    JobStarted,
    PackagesInstalling,
    RuntimeChosen,
    RuntimeStarting,
    RuntimeWaitedFor,
    SandboxCreated,
    SandboxesHeld,
    SandboxStopped,
    StopFinished,
)
from sandrl.events.scoring import (
    CanaryFinished,
    CompletionFinished,
    CompletionStarted,
    ExecutionFinished,
    OpinionFinished,
    OpinionsAwaited,
    RetryScheduled,
)
from sandrl.events.service import ServiceAsked, ServiceLogged, ServiceStarted, ServiceStopping, TinkerServed
from sandrl.events.sets import MemberFinished, MemberStarted, MemberTold
from sandrl.events.training import (
    BackendChosen,
    CheckpointSaved,
    EvaluationFinished,
    EvaluationStarted,
    FlagRaised,
    ModelChosen,
    ProblemPlayed,
    RewardCallFinished,
    StepFinished,
    StepStarted,
    TrainingStarted,
    TrainingStopping,
    TrajectoriesCollected,
)

__all__ = [
    "BackendChosen",
    "BudgetReached",
    "CanaryFinished",
    "CheckStatus",
    "CheckVerdict",
    "CheckpointSaved",
    "CleaningUp",
    "CompletionFinished",
    "CompletionStarted",
    "CreationSlowed",
    "Emit",
    "EndpointLimited",
    "EvaluationFinished",
    "EvaluationStarted",
    "Event",
    "ExecutionFinished",
    "FlagRaised",
    "JobStarted",
    "LogLevel",
    "MemberFinished",
    "MemberStarted",
    "MemberTold",
    "ModelChosen",
    "ModelSettingsFound",
    "Opinion",
    "OpinionFinished",
    "OpinionsAwaited",
    "PackagesInstalling",
    "PolicyAsked",
    "PolicyBuilding",
    "PolicyReady",
    "ProblemPlayed",
    "ReportingStarted",
    "RetryScheduled",
    "RewardCallFinished",
    "RolloutStarted",
    "RolloutStepFinished",
    "RunOpened",
    "RuntimeChosen",
    "RuntimeStarting",
    "RuntimeWaitedFor",
    "SandboxCreated",
    "SandboxStopped",
    "SandboxesHeld",
    "ScoredCompletion",
    "ServiceAsked",
    "ServiceLogged",
    "ServiceStarted",
    "ServiceStopping",
    "Status",
    "StepFinished",
    "StepStarted",
    "StopFinished",
    "StopRequested",
    "TinkerServed",
    "TokenLimitFound",
    "TrainingStarted",
    "TrainingStopping",
    "TrajectoriesCollected",
    "Trust",
    "Warned",
    "all_of",
    "ignore",
]
