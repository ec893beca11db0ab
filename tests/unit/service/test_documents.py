"""A client makes results of the documents of a service, and of nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandrl.events.results import CheckStatus, CheckVerdict, Isolation, ScoredCompletion, Status, Trust
from sandrl.scoring.document import result_document, result_of_document

RESULT = ScoredCompletion(
    index=3,
    id="a#1",
    task_id="a",
    reward=0.5,
    status=Status.FAILED,
    trust=Trust.ISOLATED,
    passed=1,
    total=2,
    duration_seconds=0.25,
    sandbox_id="box",
    detail="check 2 of 2: AssertionError",
    sandboxes=1,
    cells=1,
    isolation=Isolation.CELL,
    checks=(
        CheckVerdict(CheckStatus.PASSED),
        CheckVerdict(CheckStatus.FAILED, "AssertionError", "second", got="1", expected="2", line=4),
    ),
    components={"correctness": 0.5},
    finish_reason="stop",
)


def test_a_document_stands_for_its_result() -> None:
    assert result_of_document(result_document(RESULT), 3) == RESULT


@pytest.mark.parametrize("missing", ["reward", "trust", "checks", "detail"])
def test_a_document_that_lacks_what_the_contract_has_is_refused(missing: str) -> None:
    document = result_document(RESULT)
    del document[missing]
    with pytest.raises(ValueError, match=f"is not a result of a completion: no '{missing}'"):
        result_of_document(document, 3)


def test_what_the_contract_does_not_have_is_not_taken() -> None:
    document = {**result_document(RESULT), "code": "raise SystemExit", "retries": 7, "canaries": 1}
    assert result_of_document(document, 3) == RESULT


def test_the_field_that_is_wrong_is_named() -> None:
    document = result_document(replace(RESULT, components={}))
    document["checks"][1]["status"] = "perhaps"
    with pytest.raises(ValueError, match=r"is not a result of a completion: checks\.1\.status: "):
        result_of_document(document, 3)
