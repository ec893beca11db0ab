"""The rows of a request to a service, made from completions and problems in every form that `sandrl.score` accepts.

Objects become rows of sandrl's own format, which has all of their fields, so a service judges them as this process
would. Dictionaries are sent unchanged: the service checks them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sandrl.errors import InputError
from sandrl.problems import Completion, Problem, own_row
from sandrl.problems.loading import entries


def completion_rows(given: Iterable[Completion | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of completions, with `task_id`, and `completion` or `code`.

    Raises:
        UsageError: If it is not a list.
        InputError: If an entry is neither a completion nor a row, or cannot be scored; its place is named.
    """
    return [
        _completion_row(f"completions[{position}]", each) for position, each in enumerate(entries("completions", given))
    ]


def problem_rows(
    given: Mapping[str, Problem | Mapping[str, Any]] | Iterable[Problem | Mapping[str, Any]], task_ids: Collection[str]
) -> list[dict[str, Any]]:
    """The rows of problems, in any format of a file.

    Of a mapping, which may be a large set on the disk, only those are taken that `task_ids` name, unless it has none of
    them.

    Raises:
        UsageError: If it is neither a mapping nor a list.
        InputError: If an entry is neither a problem nor a row; its place is named.
    """
    if not isinstance(given, Mapping):
        return [_problem_row(f"problems[{position}]", each) for position, each in enumerate(entries("problems", given))]
    names = [name for name in dict.fromkeys(task_ids) if name in given] or list(given)
    return [{**_problem_row(f"problems[{name!r}]", given[name]), "task_id": name} for name in names]


def _completion_row(place: str, given: object) -> dict[str, Any]:
    if not isinstance(given, Completion):
        return _row(place, given)
    if given.loss:
        raise InputError(f"cannot be scored: {given.loss}", path=place, field="loss")
    text = {"completion": given.completion} if given.code is None else {"code": given.code}
    # Without a name, the result is named by the problem and the position.
    return {"task_id": given.task_id, **({"id": given.id} if given.id else {}), **text}


def _problem_row(place: str, given: object) -> dict[str, Any]:
    return own_row(given) if isinstance(given, Problem) else _row(place, given)


def _row(place: str, given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError(f"must be a dictionary, or a Problem or Completion of sandrl, not {given!r:.60}", path=place)
    return dict(given)
