"""Rows of NeMo-Gym for code: the request for a model, and `unit_tests` of its verifier, as inputs and outputs."""

from __future__ import annotations

from typing import Any

from sandrl.problems.fields import InputRow
from sandrl.problems.formats.inputs_outputs import problem_of_pairs
from sandrl.problems.formats.messages import Prompt
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.texts import json_value
from sandrl.problems.problem import Problem

_METADATA = "verifier_metadata"


class RequestRow(InputRow):
    input: Prompt


class MetadataRow(InputRow):
    unit_tests: Any


class NemoGymRow(FormatRow):
    responses_create_params: RequestRow
    verifier_metadata: MetadataRow

    def to_problem(self, name: str) -> Problem:
        prompt, tests = self.responses_create_params.input, self.verifier_metadata.unit_tests
        return problem_of_pairs(name, prompt, tests, f"{_METADATA}.unit_tests", code=prompt, prelude=self.prelude)


NEMO_GYM = Format(
    "NeMo-Gym",
    (("responses_create_params",), (_METADATA,)),
    NemoGymRow,
    accepts=lambda value: "unit_tests" in (json_value(value[_METADATA], _METADATA) or {}),
)
