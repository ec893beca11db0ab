"""Rows as SandboxFusion has them in its own tests: `content` is the prompt, and `test` is in the form of the set.

The form is found in the text: JSON of inputs and outputs (CodeContests), the packed tests of LiveCodeBench, a file of
unittest with a solution that continues the prompt (BigCodeBench).
"""

from __future__ import annotations

from typing import Any

from sandrl.errors import InputError
from sandrl.problems.formats.bigcodebench import continued
from sandrl.problems.formats.inputs_outputs import by_words, checks_of_pairs, pairs_of, promised_names
from sandrl.problems.formats.languages import in_language, named_language
from sandrl.problems.formats.live_code_bench import as_graded, packed_or_json
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.texts import is_packed, json_value
from sandrl.problems.preludes import STANDARD
from sandrl.problems.problem import Problem

_LANGUAGE = "labels.programming_language"


class SandboxFusionRow(FormatRow):
    content: str
    test: str | list[Any] | dict[str, Any]
    labels: str | dict[str, Any] | None = None
    canonical_solution: str | None = None

    def to_problem(self, name: str) -> Problem:
        labels = json_value(self.labels or {}, "labels")
        if not isinstance(labels, dict):
            raise InputError("must be an object, or JSON text of one", field="labels")
        language = named_language(labels.get("programming_language"), _LANGUAGE)
        if (entry_point := labels.get("entry_point")) is not None and isinstance(self.test, str):
            if not isinstance(entry_point, str) or not entry_point:
                raise InputError("must be the name of a function", field="labels.entry_point")
            problem = continued(
                name, self.content, self.test, entry_point, self.canonical_solution, prelude=self.prelude
            )
            return in_language(problem, language, _LANGUAGE)
        is_of_live_code_bench = is_packed(self.test)
        tests = packed_or_json(self.test, "test")
        if isinstance(tests, dict) and "code" in tests:
            raise InputError(
                "is a program into which the answer is inserted (aider's exercises), which is not supported",
                field="test",
            )
        checks = checks_of_pairs(pairs_of(tests, "test"), "test", code=self.content)
        problem = Problem(
            task_id=name,
            prompt=self.content,
            # Its `canonical_solution` is filled in with anything where the set has none.
            prelude=self.prelude or (STANDARD if is_of_live_code_bench else promised_names(checks, self.content)),
            **(as_graded(checks) if is_of_live_code_bench else by_words(checks)),
        )
        return in_language(problem, language, _LANGUAGE)


SANDBOX_FUSION = Format(
    "SandboxFusion",
    (("content",), ("test",)),
    SandboxFusionRow,
    language_path=("labels", "programming_language"),
)
