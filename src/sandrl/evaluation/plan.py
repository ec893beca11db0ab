"""Turns the options of a command line into an evaluation, or into the error that says why it cannot run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandrl.config.eval import EvalConfig
from sandrl.config.layers import resolve
from sandrl.config.words import TINY
from sandrl.errors import UsageError
from sandrl.evaluation.request import EvalRequest
from sandrl.evaluation.resume import resumed_config
from sandrl.runs import find_run
from sandrl.settings import Settings

_TINY_PROBLEMS = f"{TINY}:test"
# It has no other limit than its context, and its answers have fewer than 48.
_TINY_TOKENS = 512


def make_request(
    given: Mapping[str, Any],
    settings: Settings,
    *,
    file: Mapping[str, Any] | None = None,
    resume: str | None = None,
) -> EvalRequest:
    """Makes a request of what was given.

    Args:
        resume: The evaluation to go on with: a run's name, its directory, or `latest`.

    Raises:
        UsageError: If something does not fit, or an evaluation that goes on would change.
    """
    file = file or {}
    asked = {**file, **given}
    if resume is None:
        defaults: dict[str, Any] = {} if asked.get("base_url") else {"model": TINY}
        if {**defaults, **asked}.get("model") == TINY and not asked.get("base_url"):
            defaults |= {"problems": _TINY_PROBLEMS, "max_tokens": _TINY_TOKENS}
        return EvalRequest(resolve(EvalConfig, defaults, file, given))
    if "run_name" in given:
        message = "run_name: a resumed run already has a name; leave this option out"
        raise UsageError(message, fields=("run_name",))
    path = find_run(resume, settings.state_dir, asked.get("runs_dir") or settings.runs_dir)
    return EvalRequest(resumed_config(path, file, given), path)
