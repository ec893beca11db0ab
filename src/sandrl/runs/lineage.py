"""Which weights a run began with, where these are the weights of another run."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from sandrl.runs.rows import Text

ORIGIN = "origin"
"""The option of a run that says so."""


class Origin(BaseModel):
    """The checkpoint that a run began with.

    Attributes:
        run_id: The run that saved it; None where that is not known.
        step: How many steps the policy in it has had.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: Text | None = None
    step: int
    checkpoint: Text

    def __str__(self) -> str:
        """The checkpoint in a few words."""
        of = "" if self.run_id is None else f"run {self.run_id} "
        return f"{of}after {self.step} steps ({self.checkpoint})"


def origin_of(options: Mapping[str, JsonValue]) -> Origin | None:
    """The checkpoint that a run with these options began with; None if it was not one of another run."""
    try:
        return None if options.get(ORIGIN) is None else Origin.model_validate(options[ORIGIN])
    except ValidationError:
        return None
