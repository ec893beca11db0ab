"""An environment for OpenEnv (0.10 and newer): an episode shows a problem, and ends with the reward of the answer.

The reward of an observation is optional in OpenEnv, so the observation of an unscorable completion has no reward and
states the reason. The classes (`sandrl.integrations.classes.openenv`) are created on use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandrl import extras
from sandrl.integrations.backend import Scoring, backend_for
from sandrl.integrations.problems import problem_set

PACKAGE = "openenv>=0.10"
_CLASSES = ("CodeAction", "CodeEnvironment", "CodeObservation", "CodeState")


def create_app(
    problems: str = "bundled",
    *,
    service: str | None = None,
    token: str | None = None,
    sandboxes: Mapping[str, Any] | None = None,
    max_concurrent_envs: int = 256,
    **options: Any,
) -> Any:
    """The HTTP server of the environment, as a FastAPI application: `uvicorn --factory …:create_app`.

    Args:
        problems: The set, as `--problems` takes it.
        service: Address of a `sandrl serve` that scores, instead of sandboxes of this process.
        token: Its token.
        sandboxes: Fields of a `SandboxRequest`: which sandboxes of this process.
        max_concurrent_envs: How many episodes at once; each is a connection of a client.
        options: The options of scoring: `reward`, `timeout_seconds`, ….

    Raises:
        MissingExtraError: If `openenv` is not installed.
        InputError: If the set cannot be used.
        UsageError: If an option is impossible.
    """
    classes = _classes()
    problem_set(problems)
    Scoring.of(options)
    backend_for(service, token, sandboxes=sandboxes)

    def make() -> Any:
        return classes.CodeEnvironment(problems, service=service, token=token, sandboxes=sandboxes, **options)

    return classes.create_app(
        make,
        classes.CodeAction,
        classes.CodeObservation,
        env_name="sandrl",
        max_concurrent_envs=max_concurrent_envs,
    )


def _classes() -> Any:
    return extras.require("sandrl.integrations.classes.openenv", package=PACKAGE)


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_classes(), name)
