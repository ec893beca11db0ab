"""The completions of a training step: groups of completions of one problem, whose rewards are compared."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from sandrl.config.fields import TRAINING, Option

Samples: TypeAlias = Annotated[
    int,
    Field(ge=2, lt=2**63),
    Option("Completions (or episodes) per problem in a step: the size of a group.", TRAINING, metavar="N"),
]


def check_groups(batch_size: int, samples: int) -> None:
    """Makes sure that the completions of a step are whole groups.

    Raises:
        ValueError: If they are not; its message begins with the field.
    """
    if batch_size % samples:
        raise ValueError(
            f"batch_size: {batch_size} is not a multiple of samples, which is {samples}; every group must be complete"
        )
