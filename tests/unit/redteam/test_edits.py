"""Small changes to contents: what they are for each kind of file, and that content of strangers does no harm."""

from __future__ import annotations

import json

import pytest

from sandrl.redteam.edits import MOST_TEXT_BYTES, edits_of, rotated, shown

SEED = "of the task"


def _by_operation(path: str, content: str | bytes) -> dict[str, dict[str, bytes]]:
    data = content.encode() if isinstance(content, str) else content
    found: dict[str, dict[str, bytes]] = {}
    for each in edits_of(path, data, SEED):
        found.setdefault(each.operation, {})[each.name] = each.applied(data)
    return found


def _names(path: str, content: str | bytes) -> set[str]:
    return {name for names in _by_operation(path, content).values() for name in names}


def test_each_value_of_json_is_changed_where_it_stands() -> None:
    text = '{"id": 41, "name": "a\\n\\u00e9z9", "ok": true, "rate": -0.5, "none": null, "empty": ""}\n'
    found = _by_operation("/out", text)
    assert found["value"] == {
        "a value in PATH: name: a\\n\\u00e9z9 -> b\\n\\u00e9a0": text.replace("\\n\\u00e9z9", "\\n\\u00e9a0")
        .replace('"a\\', '"b\\')
        .encode()
    }
    assert found["boolean"] == {"a boolean in PATH: ok: true -> false": text.replace("true", "false").encode()}
    assert set(found["number"]) == {"a number in PATH: id: 41 -> 42", "a number in PATH: rate: -0.5 -> 0.5"}
    for changes in (found["value"], found["boolean"], found["number"]):
        for content in changes.values():
            assert json.loads(content).keys() == json.loads(text).keys()
            assert json.loads(content) != json.loads(text)


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("/a", "done\n", {"a value in PATH: done -> epof", "PATH cut in the middle", "PATH emptied"}),
        ("/a", "42", {"a number in PATH: 42 -> 43", "PATH cut in the middle", "PATH emptied"}),
        ("/a", "7\n", {"a number in PATH: 7 -> 8", "PATH emptied"}),
        ("/a", "\n", {"PATH emptied"}),
        ("/a", "", set()),
        ("/a", "-1", {"a number in PATH: -1 -> 0", "PATH cut in the middle", "PATH emptied"}),
        ("/a", "009", {"a number in PATH: 009 -> 010", "PATH cut in the middle", "PATH emptied"}),
    ],
)
def test_a_small_text_has_all_of_its_changes(path: str, text: str, names: set[str]) -> None:
    assert _names(path, text) == names


def test_settings_are_changed_and_not_their_comments() -> None:
    text = "# port 1, off\nport: 8080\nlevel = high\n; mode = low\ndebug: on\n"
    found = _by_operation("/etc/app.yaml", text)
    assert set(found["number"]) == {"a number in PATH, line 2: 8080 -> 8081"}
    assert set(found["value"]) == {"a value in PATH, line 3: high -> ijhi"}
    assert set(found["boolean"]) == {"a boolean in PATH, line 5: on -> off"}
    assert all(content.startswith(b"# port 1, off\n") for content in found["line"].values())


def test_numbers_of_sentences_and_times_stay() -> None:
    text = "saved = 7\nreason = a run of 3 steps was enough for all of it\nat = 2024-01-15 14:37:22\n"
    assert set(_by_operation("/report.txt", text)["number"]) == {"a number in PATH, line 1: 7 -> 8"}


def test_settings_without_a_text_have_no_other_changes_than_their_numbers() -> None:
    found = _by_operation("/out.txt", "low=1.5\nhigh=2\n")
    assert found.keys() == {"number", "line", "truncated", "emptied"}


def test_items_of_a_list_are_changed_and_swapped() -> None:
    found = _by_operation("/out.txt", "ab\ncd\n")
    assert set(found["value"]) == {"a value in PATH, line 1: ab -> bc", "a value in PATH, line 2: cd -> de"}
    assert list(found["swapped"].values()) == [b"cd\nab\n"]


def test_rows_are_changed_and_the_names_of_columns_stay() -> None:
    found = _by_operation("/out.csv", "name,count\nab,1\ncd,2\n")
    assert set(found["value"]) == {"a value in PATH, line 2: ab -> bc", "a value in PATH, line 3: cd -> de"}
    assert set(found["number"]) == {"a number in PATH, line 2: 1 -> 2", "a number in PATH, line 3: 2 -> 3"}
    assert found["swapped"] == {
        "two lines swapped in PATH, line 2: ab,1\\ncd,2 -> cd,2\\nab,1": b"name,count\ncd,2\nab,1\n"
    }
    assert len(found["line"]) == 3


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        (
            "/a.py",
            '"""Adds 1 + 2."""\nimport x\ndef f(a):  # a == 3\n    return a + 1 if a == "4 < 5" else False\n',
            {
                "an operator in PATH, line 4: + -> -",
                "an operator in PATH, line 4: == -> !=",
                "a number in PATH, line 4: 1 -> 2",
                "a boolean in PATH, line 4: False -> True",
                "a line removed from PATH, line 3: def f(a):  # a == 3",
                'a line removed from PATH, line 4: return a + 1 if a == "4 < 5" else False',
            },
        ),
        (
            "/a.c",
            "#define N 9\n/* 1 < 2 */\nint f(int a) { return a <= 3; } // 4\n",
            {
                "an operator in PATH, line 3: <= -> <",
                "a number in PATH, line 3: 3 -> 4",
                "a line removed from PATH, line 3: int f(int a) { return a <= 3; } // 4",
            },
        ),
        (
            "/run",
            "#!/bin/bash\nset -e\n[ $1 -gt 2 ] && cat < in > out\n",
            {
                "an operator in PATH, line 3: -gt -> -ge",
                "an operator in PATH, line 3: && -> ||",
                "a number in PATH, line 3: 2 -> 3",
                "a line removed from PATH, line 3: [ $1 -gt 2 ] && cat < in > out",
            },
        ),
    ],
)
def test_programs_are_changed_outside_of_comments_and_texts(path: str, text: str, names: set[str]) -> None:
    assert _names(path, text) - {"PATH cut in the middle", "PATH emptied"} == names


def test_a_byte_of_data_is_changed_and_none_of_a_program() -> None:
    data = bytes([0, 1, 2, 3])
    found = _by_operation("/a.db", data)
    assert found["byte"] == {"byte 2 of PATH: 0x02 -> 0xfd": bytes([0, 1, 0xFD, 3])}
    assert found["truncated"] == {"PATH cut in the middle": bytes([0, 1])}
    assert "byte" not in _by_operation("/a", b"\x7fELF\0\0")


def test_the_same_seed_chooses_the_same_values_and_another_one_others() -> None:
    text = "".join(f"{number}\n" for number in range(1000)).encode()
    assert edits_of("/a", text, SEED) == edits_of("/a", text, SEED)
    assert edits_of("/a", text, SEED) != edits_of("/a", text, "of another task")


def test_nothing_is_unchanged_and_no_name_has_more_than_a_line() -> None:
    text = 'key: "\x1b[2J\u202e\r\n\x07 line"\nnumber: 99999999999999999999999\nother: a\u2028b\x0cc\n' * 50
    for path in ("/a.txt", "/a.json", "/a.py", "/a.c", "/a.sql", "/a.md", "/a.yaml", "/a"):
        found = edits_of(path, text.encode(), SEED)
        assert found
        for each in found:
            assert each.name.isprintable()
            assert len(each.name) < 300
            assert each.applied(text.encode()) != text.encode()


@pytest.mark.parametrize(
    "unit",
    [
        '"\\',
        "/*",
        '"""',
        "'''",
        "# ",
        " ",
        "\t:",
        "a: ",
        "1.",
        "-",
        "{[",
        "true ",
        "é",
        "\n",
        "\r\n",
        ",;|",
        "\\u00",
        "()",
    ],
)
@pytest.mark.parametrize("path", ["/a.json", "/a.py", "/a.c", "/a.lua", "/a.csv"])
def test_no_text_makes_a_search_slow(path: str, unit: str) -> None:
    text = unit * (2 * MOST_TEXT_BYTES // len(unit.encode()))
    found = {each.operation for each in edits_of(path, text.encode(), SEED)}
    assert "emptied" in found


def test_a_character_at_the_end_of_what_is_searched_stays_whole() -> None:
    content = b"1" + "é".encode() * MOST_TEXT_BYTES
    (number,) = (each for each in edits_of("/a", b"1 " + content[1:], SEED) if each.operation == "number")
    assert number.applied(b"1 " + content[1:]) == b"2 " + content[1:]
    (cut,) = (each for each in edits_of("/a", content, SEED) if each.operation == "truncated")
    cut.applied(content).decode()


def test_texts_are_shown_in_one_line() -> None:
    assert shown("a\nb\x1b[1m") == "a\\nb\\x1b[1m"
    assert shown("x" * 50, 10) == "xxxxxxxxx…"
    assert rotated("Zebra-99 \\n \\u00e9") == "Afcsb-00 \\n \\u00e9"
