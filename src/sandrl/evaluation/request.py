"""The request for an evaluation, and its report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sandrl.config.eval import EvalConfig
from sandrl.errors import InfrastructureError, InterruptedRunError
from sandrl.rewards import RewardRun


@dataclass(frozen=True, slots=True)
class EvalRequest:
    config: EvalConfig
    resume: Path | None = None


@dataclass(frozen=True, slots=True)
class EvalRun:
    """A finished evaluation; `max_tokens` is None if no limit was set here."""

    model: str
    problems: int
    config: EvalConfig
    run: RewardRun
    max_tokens: int | None = None

    def raise_for_outcome(self) -> None:
        """Raises what `RewardRun` raises, with the command that asks for the rest, where there is a rest."""
        try:
            self.run.raise_for_outcome()
        except (InterruptedRunError, InfrastructureError) as error:
            is_cleanup = self.run.cleanup_error is not None and isinstance(error, InterruptedRunError)
            error.hint = error.hint if is_cleanup else resume_hint(self.run.run_dir.name)
            raise


def resume_hint(run_id: str) -> str:
    return f"sandrl eval --resume {run_id} requests the missing answers and scores them"
