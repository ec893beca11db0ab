"""A completion: the output of a model for a problem."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandrl.events.results import is_cut_off
from sandrl.problems.fields import check_text


@dataclass(frozen=True, slots=True)
class Completion:
    """The output of a model for a problem: text from which the code is extracted, or the code itself.

    Attributes:
        id: Its name, unique among the completions that are scored together; `score` replaces an empty one with the name
            of the problem.
        task_id: The `task_id` of its problem.
        completion: The model's text; None if there is only `code`.
        code: The code, used unchanged; None if it must be extracted from `completion`.
        loss: The reason why the completion cannot be scored, if a failure of the infrastructure ended it; else empty.
        finish_reason: Why the answer ended, in the endpoint's word; None if it is not known.
        tokens: How many tokens the answer has; None if it is not known.
        reasoning: The reasoning that the endpoint returned beside the text; no code is taken from it.
        states: Files of the final states that a task's agent left, one for each step; such an answer has no text.

    Raises:
        InputError: If a field is not a string; `field` of the error names it.
    """

    id: str
    task_id: str
    completion: str | None = None
    code: str | None = None
    loss: str = ""
    finish_reason: str | None = None
    tokens: int | None = None
    reasoning: str = field(default="", repr=False)
    states: tuple[str, ...] = ()

    @property
    def shortcoming(self) -> str:
        """What is missing from the answer, as a clause without its full stop; empty if nothing is known to be."""
        is_empty = self.code is None and not (self.completion or "").strip()
        if is_cut_off(self.finish_reason):
            where = "at the token limit" if self.tokens is None else f"at {self.tokens} token{'s' * (self.tokens != 1)}"
            what = (
                "the answer was cut off within its reasoning"
                if is_empty and self.reasoning
                else "the answer was cut off"
            )
            return f"{what} {where}"
        return "the answer has only reasoning, and no text" if is_empty and self.reasoning else ""

    def __post_init__(self) -> None:
        for name in ("id", "task_id"):
            check_text(name, getattr(self, name))
        for name in ("completion", "code"):
            check_text(name, getattr(self, name), is_optional=True)
