"""The files made from the code are those in the repository, and one that is not is noticed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.command_line import all_commands

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "generate.py"
REFERENCE = ROOT / "docs" / "reference"


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


COMMANDS = {" ".join(["sandrl", *words]): command for words, command in all_commands()}


def test_they_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_stale_one_is_named_with_the_line_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = load_tool()
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["generate.py"])
    assert tool.main() == 0
    (tmp_path / "completions" / "_sandrl").write_text("an older one")
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert tool.main() == 1
    assert capsys.readouterr().err == "generated: not up to date: completions/_sandrl; run make generate\n"


def test_the_page_of_commands_has_every_command_with_every_option() -> None:
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^#+ (sandrl .*)$", page, re.MULTILINE) == list(COMMANDS)
    sections = dict(zip(COMMANDS, re.split(r"^#+ sandrl .*$", page, flags=re.MULTILINE)[1:], strict=True))
    for name, command in COMMANDS.items():
        if not hasattr(command, "commands"):
            named = set(re.findall(r"`(--?[a-z][a-z-]*)", sections[name]))
            flags = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
            assert {flag for flag in flags if flag.startswith("-")} <= named, name


def test_the_table_of_commands_leads_to_their_sections_with_whole_sentences() -> None:
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`(sandrl [^`]+)`\]\(#([\w-]+)\) \| (.+) \|$", page, re.MULTILINE)
    assert [name for name, _, _ in rows] == [name for name, each in COMMANDS.items() if not hasattr(each, "commands")]
    for name, anchor, purpose in rows:
        assert anchor == name.replace(" ", "-")
        whole = " ".join(str(COMMANDS[name].help).split())
        assert whole == purpose or whole.startswith(f"{purpose}.")


@pytest.mark.parametrize("name", ["cli.md", "options.md"])
def test_a_generated_page_is_markdown_that_every_reader_renders(name: str) -> None:
    page = (REFERENCE / name).read_text(encoding="utf-8")
    assert re.findall(r"^# .*$", page, re.MULTILINE) == [page.splitlines()[0]]
    assert not re.findall(r"&\w+;|&#\w+;", page), "entities stay as they are in code"
    text = re.sub(r"^```text\n.*?^```$|`[^`\n]*`", "", page, flags=re.DOTALL | re.MULTILINE)
    assert not re.findall(r"[<>\\]", text), "a tag would be hidden"
    assert not re.findall(r"(?<![\w-])--[a-z]", text), "options are code"
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert rows
    bars = [code for row in rows for code in re.findall(r"`[^`]+`", row) if "|" in code]
    assert not bars, "GitHub divides a cell at a bar, also in code"


def test_markup_in_a_help_is_refused_outside_of_code() -> None:
    prose = load_tool()._prose
    assert prose("one `<answer>…</answer>`, with --extract, or FOO_BAR") == (
        "one `<answer>…</answer>`, with `--extract`, or `FOO_BAR`"
    )
    for text in ("one <answer>", "aviato/*", "a|b", "[text](link)"):
        with pytest.raises(ValueError, match="put into backticks"):
            prose(text)
