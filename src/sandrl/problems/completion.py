"""A completion: the output of a model for a problem."""

from __future__ import annotations

from dataclasses import dataclass

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

    Raises:
        InputError: If a field is not a string; `field` of the error names it.
    """

    id: str
    task_id: str
    completion: str | None = None
    code: str | None = None
    loss: str = ""

    def __post_init__(self) -> None:
        for name in ("id", "task_id"):
            check_text(name, getattr(self, name))
        for name in ("completion", "code"):
            check_text(name, getattr(self, name), is_optional=True)
