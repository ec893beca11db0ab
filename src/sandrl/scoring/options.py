"""Options of scoring, without the completions and the runtime."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self

from pydantic import BaseModel

from sandrl.answers.extraction import Extraction
from sandrl.config.parts import ScoringPart
from sandrl.errors import UsageError
from sandrl.judge.limits import Limits
from sandrl.problems import Problem
from sandrl.scoring.grading import Grading
from sandrl.scoring.policies import Components, RewardPolicy, binary, load_policy
from sandrl.trials.trial import TrialOptions


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """Which failed completions to judge again in plain Python, in one process.

    Attributes:
        rate: The share of failed isolated verdicts, from 0 to 1.
        patience_seconds: How long to wait for opinions after the last result of a batch; `None` waits for all of them.
            With a limit, verdicts `timeout` are left out, because an opinion on one may take the whole time limit
            again.
    """

    rate: float = 0.0
    patience_seconds: float | None = None

    def check(self) -> None:
        """Checks the rate.

        Raises:
            UsageError: If it is not a number from 0 to 1.
        """
        if not 0 <= self.rate <= 1:
            raise UsageError(
                f"second_opinion must be a number from 0 to 1, not {self.rate:g}", fields=("second_opinion",)
            )


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """Options of scoring.

    Attributes:
        extraction: How the code is found in a completion.
        limits: Limits of time, output and files.
        concurrency: How many completions run at once; `None` chooses a number that suits the runtime.
        retries: How often a completion is retried after its sandbox failed.
        backoff_seconds: Wait before the first retry; each next wait is twice as long.
        policy: Computes the reward from the verdict.
        components: Rewards in addition to correctness; never part of the reward itself.
        caching: Judge identical completions once.
        tags: Tags of these sandboxes, in addition to those of their job.
        second_opinion: Which failed completions to judge again in one process; this changes no result.
        hash_seeds: Under how many hash seeds to judge each completion, `limits.hash_seed` and those after it. The
            reward is that of the first.
        all_checks: Continue with the cases and calls of a completion after one of them failed, also if the reward does
            not depend on them. The commands set this to false; `score` sets it to true, because its caller may read the
            checks.
        trial: How trials of tasks go.
        grading: The model that grades answers, but for tasks; its grade is the component `judge`. `None` if none does.
        ranking: The model that ranks the answers of each group, for those who know the groups (`GroupRanking`).
    """

    extraction: Extraction = Extraction.AUTO
    limits: Limits = field(default_factory=lambda: Limits(is_extended=True))
    concurrency: int | None = None
    retries: int = 2
    backoff_seconds: float = 0.5
    policy: RewardPolicy = binary
    components: Components = field(default_factory=Components)
    caching: bool = True
    tags: tuple[str, ...] = ()
    second_opinion: SecondOpinion = field(default_factory=SecondOpinion)
    hash_seeds: int = 1
    all_checks: bool = True
    trial: TrialOptions = field(default_factory=TrialOptions)
    grading: Grading | None = None
    ranking: Grading | None = None

    @property
    def judged_limits(self) -> Limits:
        """The limits that completions are judged with.

        Nothing is run after a check that fails where nothing of it can change what is rewarded: the reward is binary,
        and nothing is taken off for a timeout.
        """
        is_decided = self.policy is binary and not self.components.timeout_penalty
        return replace(self.limits, stops_at_failure=is_decided and not self.all_checks)

    @classmethod
    def of(cls, config: ScoringPart, concurrency: int | None = None) -> Self:
        """The options that a command's configuration asks for.

        Raises:
            UsageError: If there is no such reward, or the rubric cannot be read.
        """
        try:
            policy = load_policy(config.reward)
        except UsageError as error:
            error.fields = ("reward",)
            raise
        grading, is_ranking = Grading.of(config), getattr(config, "judge_ranking", False)
        return cls(
            extraction=config.extract,
            limits=Limits(
                timeout_seconds=config.timeout_seconds or Limits().timeout_seconds,
                check_timeout_seconds=config.check_timeout_seconds,
                compile_timeout_seconds=config.compile_timeout_seconds,
                max_output_bytes=config.max_output_bytes,
                max_file_bytes=config.max_file_bytes,
                is_extended=config.timeout_seconds is None,
                hash_seed=config.hash_seed,
            ),
            concurrency=concurrency,
            retries=config.retries,
            policy=policy,
            components=Components(config.format_reward, config.length_penalty, config.timeout_penalty),
            caching=config.caching,
            second_opinion=SecondOpinion(config.second_opinion),
            hash_seeds=config.hash_seeds,
            all_checks=config.all_checks,
            trial=trial_options(config),
            grading=None if is_ranking else grading,
            ranking=grading if is_ranking else None,
        )


_OF_CODE = (
    *("check_timeout_seconds", "compile_timeout_seconds", "hash_seed", "hash_seeds", "second_opinion", "image"),
    *("packages", "sandbox_memory_bytes", "fresh_sandboxes", "fresh_networks", "judge_base_url"),
)


def check_use(config: BaseModel, problems: Iterable[Problem]) -> None:
    """Refuses options that have no effect on tasks where all problems are tasks.

    Raises:
        UsageError: If there is one.
    """
    problems = list(problems)
    if not problems or any(problem.task is None for problem in problems):
        return
    known = type(config).model_fields
    if used := [name for name in _OF_CODE if name in known and getattr(config, name) != known[name].default]:
        raise UsageError(
            f"{', '.join(used)}: all problems are tasks, which say this themselves, or have nothing of the kind",
            hint="leave it out",
            fields=tuple(used),
        )


def trial_options(config: ScoringPart) -> TrialOptions:
    """How trials of tasks go, as a configuration says; the variables that it permits are read from the environment."""
    named = any(getattr(config, name, None) for name in ("network", "allow_hosts"))
    return TrialOptions(
        mode=config.verifier,
        passed_variables={name: os.environ[name] for name in config.pass_env if name in os.environ},
        has_own_network=not named,
        private_hosts=tuple(getattr(config, "private_hosts", ())),
        output_bytes=config.max_output_bytes,
        at_once=getattr(config, "concurrency", None),
    )
