"""From a completion to the agent that it is."""

from __future__ import annotations

import pytest

from sandrl.config.words import Extraction
from sandrl.problems import Completion
from sandrl.trials.answers import Patch, Script, answer_of
from sandrl.trials.trial import FinalState

_DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def _answer(text: str, extraction: Extraction = Extraction.AUTO) -> object:
    return answer_of(Completion("c", "t", text), extraction)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<answer>\necho 1 > x\n</answer>", Script("echo 1 > x\n")),
        ("Sure.\n```bash\necho 1\n```\nDone.", Script("echo 1\n")),
        ("First\n```sh\nls\n```\nthen\n```diff\n" + _DIFF + "```", Patch(_DIFF)),
        ("<answer>\n```diff\n" + _DIFF + "```\n</answer>", Patch(_DIFF)),
        (_DIFF, Patch(_DIFF)),
        ("#!/bin/sh\nls\n", Script("#!/bin/sh\nls\n")),
        ("<think>\n```sh\nrm -rf /\n```\n</think>\n<answer>ls</answer>", Script("ls\n")),
    ],
)
def test_a_patch_or_a_script_is_found(text: str, expected: object) -> None:
    assert _answer(text) == expected


@pytest.mark.parametrize("text", ["I cannot do this.", "", "<answer></answer>", "```python\nprint(1)\n```"])
def test_other_text_is_no_answer(text: str) -> None:
    assert _answer(text) is None


def test_the_extraction_decides_where_an_answer_is() -> None:
    assert _answer("ls", Extraction.RAW) == Script("ls")
    assert _answer("Well, <answer>ls</answer>", Extraction.EXACT) is None
    assert _answer(" <answer>ls</answer>\n", Extraction.EXACT) == Script("ls\n")
    assert _answer("```sh\nls\n```", Extraction.ANSWER) is None
    assert _answer("<answer>ls</answer>\n```sh\npwd\n```", Extraction.FENCE) == Script("pwd\n")


def test_code_and_states_are_taken_as_they_are() -> None:
    assert answer_of(Completion("c", "t", code=_DIFF)) == Patch(_DIFF)
    assert answer_of(Completion("c", "t", code=" ")) is None
    assert answer_of(Completion("c", "t", states=("s.tar.gz",))) == FinalState(("s.tar.gz",))
