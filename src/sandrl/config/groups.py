"""The completions of a step of training: groups, each of one problem, whose rewards are compared."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from sandrl.config.fields import TRAINING, Option

Samples: TypeAlias = Annotated[
    int, Field(ge=2, lt=2**63), Option("Completions, or episodes, per problem: a group.", TRAINING, metavar="N")
]


def check_groups(batch_size: int, samples: int) -> None:
    """Makes sure that the completions of a step are whole groups.

    Raises:
        ValueError: If they are not; its message begins with the field.
    """
    if batch_size % samples:
        raise ValueError(
            f"batch_size: {batch_size} is no multiple of {samples}, the samples of a problem: every group must be whole"
        )
