"""Trials of Harbor as it keeps them: `JOB/TRIAL` with `result.json`, trajectories in ATIF, and collected artifacts.

Whose failure an exception of a trial is, is decided as Harbor decides it (`harbor/models/trial/error_policy.py`): a
reward counts if the agent alone has ended its work. Names and files of a trial are those of a stranger.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from sandrl.errors import InputError
from sandrl.files import read_regular
from sandrl.runs.atif import first_error
from sandrl.trials.entries import MOST_BYTES, Entry
from sandrl.trials.reports import MOST_BYTES as LARGEST_REPORT

LARGEST_DOCUMENT = 256 << 20
"""A result or a trajectory that is larger is refused."""

_RESULT = "result.json"
_AGENT_ENDED = frozenset(
    {
        "AgentTimeoutError",
        "ContextWindowExceededError",
        "OutputTokenExceededError",
        "ContextLengthExceededError",
        "OutputLengthExceededError",
        "AgentSafetyRefusalError",
        "ContentPolicyViolationError",
    }
)
_LONGEST_REASON = 1000


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class TimingInfo(_Read):
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def seconds(self) -> float | None:
        if self.started_at is None or self.finished_at is None:
            return None
        return max((self.finished_at - self.started_at).total_seconds(), 0.0)


class ExceptionInfo(_Read):
    exception_type: str
    exception_message: str = ""

    @property
    def is_end_of_agent(self) -> bool:
        """Whether the agent, and nothing around it, has ended the trial."""
        return self.exception_type in _AGENT_ENDED

    def __str__(self) -> str:
        lines = self.exception_message.strip().splitlines()
        return f"{self.exception_type}: {lines[0]}"[:_LONGEST_REASON] if lines else self.exception_type


class VerifierResult(_Read):
    rewards: dict[str, float] | None = None


class RolloutDetail(_Read):
    prompt_token_ids: list[list[int]] = []
    completion_token_ids: list[list[int]] = []
    logprobs: list[list[float]] = []


class AgentContext(_Read):
    n_input_tokens: int | None = None
    n_output_tokens: int | None = None
    rollout_details: list[RolloutDetail] | None = None


class ModelInfo(_Read):
    name: str


class AgentInfo(_Read):
    name: str
    version: str = ""
    model_info: ModelInfo | None = None


class StepResult(_Read):
    step_name: str
    agent_result: AgentContext | None = None
    exception_info: ExceptionInfo | None = None
    agent_execution: TimingInfo | None = None
    verifier: TimingInfo | None = None


class TrialResult(_Read):
    """What Harbor writes about a trial, as far as it is used here."""

    trial_name: str
    task_name: str
    task_id: dict[str, Any] = {}
    agent_info: AgentInfo
    agent_result: AgentContext | None = None
    verifier_result: VerifierResult | None = None
    exception_info: ExceptionInfo | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    environment_setup: TimingInfo | None = None
    agent_setup: TimingInfo | None = None
    agent_execution: TimingInfo | None = None
    verifier: TimingInfo | None = None
    step_results: list[StepResult] | None = None

    @property
    def loss(self) -> str:
        """Why the reward says nothing about the agent; empty if it does."""
        steps = [each.exception_info for each in self.step_results or ()]
        found = [each for each in (self.exception_info, *steps) if each is not None]
        return next((str(each) for each in found if not each.is_end_of_agent), "")

    @property
    def end(self) -> str:
        """What ended the agent; empty if it ended by itself."""
        return "" if self.exception_info is None else self.exception_info.exception_type

    @property
    def contexts(self) -> list[AgentContext]:
        if self.agent_result is not None:
            return [self.agent_result]
        return [each.agent_result for each in self.step_results or () if each.agent_result is not None]


class _ManifestEntry(_Read):
    source: str
    destination: str
    status: str
    service: str | None = None


class Trial:
    """A trial's directory.

    Raises:
        InputError: If its result cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.result = _read(path / _RESULT, TrialResult)

    @property
    def parts(self) -> list[Path]:
        """The directories of its steps, in order; the trial's own if it has one step without a name."""
        steps = [self.path / "steps" / _checked_name(each.step_name) for each in self.result.step_results or ()]
        return [each for each in steps if each.is_dir()] or [self.path]

    @property
    def trajectories(self) -> list[Path]:
        """The trajectories of its steps, as far as the agent has written them."""
        return [each for part in self.parts if (each := part / "agent" / "trajectory.json").is_file()]

    def verifier_files(self) -> dict[str, bytes]:
        """What the last verifier wrote, by name, without files that are too large."""
        found: dict[str, bytes] = {}
        directory = self.parts[-1] / "verifier"
        for each in sorted(directory.iterdir()) if directory.is_dir() else ():
            try:
                found[each.name] = read_regular(each, LARGEST_REPORT, follow=False)
            except OSError:
                continue
        return found

    def artifacts(self) -> list[list[Entry]] | None:
        """For each step, the files that were collected of the machine, by their paths there; None if one has none.

        Raises:
            InputError: If they are too large.
        """
        found = [_artifacts(part / "artifacts") for part in self.parts]
        return None if None in found else [each for each in found if each is not None]


def find_trials(directory: Path) -> list[Path]:
    """The directories of trials in one of a trial, of a job, or of jobs; empty if there are none."""
    if _is_trial(directory):
        return [directory]
    found = [each for each in sorted(directory.iterdir()) if each.is_dir() and not each.is_symlink()]
    trials = [each for each in found if _is_trial(each)]
    return trials or [each for job in found for each in sorted(job.iterdir()) if each.is_dir() and _is_trial(each)]


def _is_trial(directory: Path) -> bool:
    # A job has a result as well.
    return (directory / _RESULT).is_file() and ((directory / "agent").is_dir() or (directory / "steps").is_dir())


def _read(path: Path, model: type[TrialResult]) -> TrialResult:
    try:
        return model.model_validate_json(read_regular(path, LARGEST_DOCUMENT))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
    except ValidationError as error:
        raise InputError(f"is not a result of a trial of Harbor: {first_error(error)}", path=path) from error


def _checked_name(name: str) -> str:
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise InputError(f"names the step {name[:100]!r}, which is not a name of a directory")
    return name


def _artifacts(directory: Path) -> list[Entry] | None:
    try:
        entries = json.loads(read_regular(directory / "manifest.json", LARGEST_REPORT))
        manifest = [_ManifestEntry.model_validate(each) for each in entries]
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    found: dict[str, Entry] = {}
    left = MOST_BYTES
    for entry in manifest:
        # Those of other containers are no part of this machine.
        if entry.status not in ("ok", "empty") or entry.service not in (None, "main"):
            continue
        parts = [part for part in entry.destination.split("/") if part not in ("", ".", "..")]
        source = posixpath.normpath(entry.source).lstrip("/")
        if parts[:1] != ["artifacts"] or source.startswith("..") or "\0" in source:
            continue
        for each in _entries(directory.joinpath(*parts[1:]), "" if source == "." else source, left):
            left -= len(each.content or b"")
            found[each.name] = each
    return list(found.values())


def _entries(path: Path, name: str, left: int) -> Iterator[Entry]:
    if path.is_symlink():
        yield Entry(name, 0o777, target=os.readlink(path))
    elif path.is_dir():
        if name:
            yield Entry(name, 0o755)
        for each in sorted(path.iterdir()):
            # The list of the artifacts is Harbor's own.
            if name or each.name != "manifest.json":
                for found in _entries(each, f"{name}/{each.name}" if name else each.name, left):
                    left -= len(found.content or b"")
                    yield found
    elif path.is_file():
        try:
            yield Entry(name, path.stat().st_mode & 0o777, read_regular(path, left, follow=False))
        except OSError as error:
            raise InputError(f"cannot be read, or is too large: {error.strerror or error}", path=path) from error


def turns_of(details: Sequence[AgentContext]) -> list[tuple[list[int], list[float]]]:
    """The tokens and logprobs of each turn of the agent itself, where Harbor has kept them."""
    found: list[tuple[list[int], list[float]]] = []
    for each in details:
        # The first is the agent's own conversation, by Harbor's convention.
        for detail in (each.rollout_details or ())[:1]:
            if len(detail.completion_token_ids) == len(detail.logprobs):
                found += zip(detail.completion_token_ids, detail.logprobs, strict=True)
    return found
