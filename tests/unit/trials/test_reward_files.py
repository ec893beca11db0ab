"""Which texts of a verifier are a reward, and which are a failure of it."""

from __future__ import annotations

import pytest

from sandrl.trials.reward_files import MOST_BYTES, InvalidRewardError, read_rewards, score_of

_NUMBERS: dict[bytes, dict[str, float]] = {
    b"1": {"reward": 1.0},
    b"0.25": {"reward": 0.25},
    b"-1e3": {"reward": -1000.0},
    b"true": {"reward": 1.0},
    b'{"a": 1, "b": 0.5}': {"a": 1.0, "b": 0.5},
    b'{"reward": false}': {"reward": 0.0},
    b' \r\n{"reward": 1}\r\n': {"reward": 1.0},
    b'{"": 1}': {"": 1.0},
}
_TEXTS: dict[bytes, float] = {b"1": 1.0, b" 0.5 \r\n": 0.5, b"1e-3": 0.001, b"-2": -2.0, b"1_000": 1000.0}
_NO_JSON = (
    b"",
    b" \n",
    b"{}",
    b"[1]",
    b"null",
    b'"1"',
    b"nan",
    b"NaN",
    b"Infinity",
    b"1e309",
    b"1" + b"0" * 400,
    b"1" * 5000,
    b'{"a": "1"}',
    b'{"a": null}',
    b'{"a": {"b": 1}}',
    b'{"a": NaN}',
    b'{"a": 1, "a": 0}',
    b"\xef\xbb\xbf1",
    '{"a": 1}'.encode("utf-16"),
    b"\xff",
    b"[" * 10_000,
    b"1 " + b" " * MOST_BYTES,
    b"{" + b",".join(b'"%d": 1' % number for number in range(300)) + b"}",
)
_NO_TEXT = (
    b"",
    b"\n",
    b"done",
    b"1 0",
    b"0x1",
    b"true",
    b"nan",
    b"-inf",
    b"1e309",
    b"\xef\xbb\xbf1",
    b"\xff\xfe1\0",
    b"1,5",
)


@pytest.mark.parametrize("text", _NUMBERS)
def test_json_has_a_number_or_numbers_by_name(text: bytes) -> None:
    assert read_rewards(text, None) == _NUMBERS[text]


@pytest.mark.parametrize("text", _TEXTS)
def test_a_text_is_one_number(text: bytes) -> None:
    assert read_rewards(None, text) == {"reward": _TEXTS[text]}


@pytest.mark.parametrize("text", _NO_JSON, ids=lambda text: repr(text[:20]))
def test_other_json_is_no_reward_also_beside_a_valid_text(text: bytes) -> None:
    with pytest.raises(InvalidRewardError, match=r"reward\.json") as raised:
        read_rewards(text, b"1")
    assert len(str(raised.value)) < 200
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", _NO_TEXT, ids=repr)
def test_another_text_is_no_reward(text: bytes) -> None:
    with pytest.raises(InvalidRewardError, match=r"reward\.txt"):
        read_rewards(None, text)


def test_no_file_is_no_reward() -> None:
    with pytest.raises(InvalidRewardError, match="neither"):
        read_rewards(None, None)


def test_a_reward_comes_before_the_mean_of_other_names() -> None:
    assert score_of({"reward": 0.5, "style": 1.0}) == 0.5
    assert score_of({"right": 1.0, "style": 0.0}) == 0.5
    assert score_of({"only": 0.25}) == 0.25
