"""A taskset for verifiers (0.4 and newer), and a reward for other tasksets: `vf-eval sandrl-verifiers`.

verifiers loads plugins by the name of a top-level package, so `sandrl_verifiers` exports the classes
(`sandrl.integrations.classes.verifiers`), which are created on use. The default harness of verifiers gives the model a
shell on the user's machine; the harness here only calls the model, and the code in its answer runs in sandboxes. An
unscorable completion is an error of its rollout, which `vf-eval --resume` runs again.
"""

from __future__ import annotations

from typing import Any

from sandrl import extras
from sandrl.events.results import ScoredCompletion
from sandrl.integrations.backend import Scoring, backend_for, scored
from sandrl.integrations.problems import problem_of
from sandrl.integrations.request import metrics_of, reward_of
from sandrl.problems import Problem

PACKAGE = "verifiers>=0.4"
TASKSET = "sandrl-verifiers"
"""The name by which verifiers finds the taskset."""

_CLASSES = (
    "CodeData",
    "CodeEnv",
    "CodeEnvConfig",
    "CodeHarness",
    "CodeTask",
    "CodeTaskConfig",
    "CodeTaskset",
    "CodeTasksetConfig",
)


async def score_reply(
    problem: Problem | dict[str, Any], trace: Any, *, service: str | None = None, **options: Any
) -> float:
    """The reward of a rollout, for a `@vf.reward` method of a task of one's own.

    Args:
        problem: The problem, or a row in any format of a file.
        trace: The rollout, whose last reply is scored; it gets the metrics `passed`, `checks_passed` and `unscorable`,
            and `info["sandrl"]` with what happened.
        service: Address of a `sandrl serve` that scores, instead of sandboxes of this process.
        options: The options of scoring: `reward`, `timeout_seconds`, ….

    Raises:
        InfrastructureError: If the reply has no reward because sandboxes failed: verifiers then records an error.
        InputError: If it has none because of the problem.
        ServiceError: If there is no runtime, or the service does not answer.
    """
    scoring = Scoring.of(options)
    found = problem if isinstance(problem, Problem) else problem_of(problem, scoring=scoring)
    return record(await scored(backend_for(service), found, trace.last_reply, scoring), trace)


def record(result: ScoredCompletion, trace: Any) -> float:
    """Writes a result into a trace, and gives its reward; see `score_reply`."""
    trace.record_metrics(metrics_of(result))
    trace.info["sandrl"] = {
        "status": result.status.value,
        "detail": result.detail,
        "passed": result.passed,
        "total": result.total,
    }
    return reward_of(result)


def load_environment(
    problems: str = "bundled", num_problems: int | None = None, *, service: str | None = None, **options: Any
) -> Any:
    """The environment with this taskset: `vf.Env`.

    Args:
        problems: The set, as `--problems` takes it.
        num_problems: How many of its problems; all unless given.
        service: Address of a `sandrl serve` that scores, instead of sandboxes of this process.
        options: The options of scoring: `reward`, `timeout_seconds`, ….

    Raises:
        MissingExtraError: If `verifiers` is not installed.
        UsageError: If an option is impossible.
    """
    Scoring.of(options)
    classes = extras.require("sandrl.integrations.classes.verifiers", package=PACKAGE)
    task = {"service": service, "options": options}
    taskset = {"id": TASKSET, "problems": problems, "num_problems": num_problems, "task": task}
    return classes.CodeEnv(classes.CodeEnvConfig.model_validate({"taskset": taskset}))


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(extras.require("sandrl.integrations.classes.verifiers", package=PACKAGE), name)
