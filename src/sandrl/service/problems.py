"""The problems of a service: the sets that it was started with, and those that requests contain.

The same row is parsed once, for any number of requests that contain it (`sandrl.problems.store`), so a trainer that
sends its problems with every request pays for them once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandrl.config.serve import RequestOptions, ServeConfig
from sandrl.errors import InputError, UsageError
from sandrl.events import Emit, Warned, ignore
from sandrl.problems import Completion, Problem, as_completions, load_problems
from sandrl.problems.completions import CompletionsLike
from sandrl.problems.loading import problem_of_row, reading_of, with_options
from sandrl.problems.preludes import prelude_of
from sandrl.problems.quality import QualityFilter
from sandrl.problems.store import MOST_BYTES, InternedProblems, joined


def load_sets(config: ServeConfig, emit: Emit = ignore, quality: QualityFilter | None = None) -> Mapping[str, Problem]:
    """The problems that requests may name; what `quality` does not accept is none of them.

    Raises:
        InputError: If a set cannot be used, or two have different problems of one name.
    """
    found: dict[str, tuple[str, Mapping[str, Problem]]] = {}
    sets: list[Mapping[str, Problem]] = []
    for source in config.problems:
        loaded = load_problems(source, skip_bad_rows=config.skip_bad_rows, quality=quality, **reading_of(config))
        if loaded.skipped:
            emit(Warned(f"{len(loaded.skipped)} rows of {source} skipped; the first: {loaded.skipped[0].message}"))
        for name in loaded.problems:
            other, problems = found.setdefault(name, (source, loaded.problems))
            if problems is not loaded.problems and problems[name] != loaded.problems[name]:
                message = f"{name!r} names different problems in {other} and in {source}"
                raise InputError(message, hint="start a separate service for each set", fields=("problems",))
        sets.append(loaded.problems)
    if quality is not None:
        quality.tell(" ".join(config.problems), emit)
    return joined(*sets)


class ProblemBook:
    """Finds the problems of requests; several threads may ask."""

    def __init__(
        self,
        loaded: Mapping[str, Problem],
        *,
        quality: QualityFilter | None = None,
        max_bytes: int = MOST_BYTES,
    ) -> None:
        self.loaded = loaded
        self._quality = quality
        self._interned = InternedProblems(max_bytes=max_bytes)

    def of_request(self, rows: Sequence[Any] | None, options: RequestOptions) -> Mapping[str, Problem]:
        """The problems that the completions of a request may name: those of its rows, or those loaded if it has none.

        Raises:
            InputError: If a row is no problem, or two have one name.
        """
        if rows is None:
            return self.loaded
        problems: dict[str, Problem] = {}
        for position, row in enumerate(rows):
            place = f"problems[{position}]"
            problem = self.inline(row, place, options)
            if problem.task_id in problems:
                message = f"{problem.task_id!r} is already used by an earlier problem; it must be unique"
                raise InputError(message, path=place, field="task_id")
            problems[problem.task_id] = problem
        return problems

    def completions(self, given: CompletionsLike, problems: Mapping[str, Problem]) -> Sequence[Completion]:
        """The completions of a request, each of which answers one of these problems.

        Raises:
            InputError: If one is none, or names no problem.
        """
        if self._quality is None or problems is not self.loaded:
            return as_completions(given, problems)
        # Some formats name problems by their position in the whole set.
        completions = as_completions(given, self._quality.names)
        for completion in completions:
            if (why := self.why_left_out(completion.task_id)) is not None:
                raise InputError(f"the problem {completion.task_id!r:.80} is left out by the service: {why}")
        return completions

    def why_left_out(self, task_id: str) -> str | None:
        """Why a problem of the sets is none of the service; None if it is one, or there is none of that name."""
        return None if self._quality is None else self._quality.why_left_out(task_id)

    def inline(self, row: Any, place: str, options: RequestOptions) -> Problem:
        """The problem of a row.

        Raises:
            InputError: If it is none, is a task, or names an image: clients choose none for this machine.
        """
        reading = reading_of(options)

        def read() -> Problem:
            problem = problem_of_row(row, place, has_tasks=False, **reading)
            if problem.image is not None or problem.task is not None:
                field = "image" if problem.image is not None else None
                what = "" if field else f"the task {problem.task_id!r:.80} "
                message = f"{what}is accepted in problems that the service has loaded, not in those of requests"
                raise InputError(message, path=place, field=field)
            return problem

        return self._interned.of(
            [row, reading["prelude"], reading["fields"], reading["max_cases"], reading["language"]],
            read,
        )

    def named(self, task_id: str, problems: Mapping[str, Problem], options: RequestOptions) -> Problem:
        problem = problems[task_id]
        if problems is not self.loaded or (options.prelude is None and options.max_cases is None):
            return problem
        try:
            prelude = prelude_of(options.prelude)
        except ValueError as error:
            raise UsageError(f"prelude {error}", fields=("prelude",)) from error
        return self._interned.of(
            ["loaded", task_id, options.prelude, options.max_cases],
            lambda: with_options(problem, prelude=prelude, max_cases=options.max_cases),
        )
