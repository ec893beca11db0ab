"""The pages of the documentation as programs: blocks, files that they show, and commands in their sentences."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# The language of `sandrl` itself and of the shell; everything else is shown, or is a file.
RUN_LANGUAGES = ("sh", "console", "python")
# What a block can need that no test machine has: its commands are parsed, not run.
NEEDS = ("needs-gpu", "needs-key", "needs-hub", "needs-cluster", "needs-download")
# Environments of the trainers, by the extra: slow tests run these blocks there.
EXTRAS = ("extra-grpo", "extra-unsloth", "extra-art-tinker")
# `installs`: run in an environment of its own (`tests/package/test_pages.py`); `fragment`: Python that is no program.
CLASSES = (*NEEDS, *EXTRAS, "background", "installs", "fragment")

_BLOCK = re.compile(
    r"^(?P<indent> *)(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)(?P=fence) *$"
    r"|^<!-- sh\n(?P<hidden>.*?)^-->$",
    re.DOTALL | re.MULTILINE,
)
_INFO = re.compile(r"(?P<language>[\w-]*)(?: \{(?P<classes>[^}]*)\})?(?: title=\"(?P<title>[^\"]+)\")?")
_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1\n.*?^\s*\2$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, or a hidden preparation.

    `classes` are the words in braces, without their dots; `language` is `sh` for a hidden preparation.
    """

    page: str
    line: int
    language: str
    classes: frozenset[str]
    title: str | None
    text: str

    @property
    def place(self) -> str:
        """Where it is."""
        return f"{self.page}:{self.line}"

    @property
    def exit_code(self) -> int:
        """How it is expected to end."""
        return next((int(each[5:]) for each in self.classes if each.startswith("exit-")), 0)

    @property
    def unknown_classes(self) -> list[str]:
        """Words after the fence that mean nothing."""
        return sorted(each for each in self.classes if each not in CLASSES and not re.fullmatch(r"exit-\d+", each))

    @property
    def is_code(self) -> bool:
        """Whether it holds commands, or Python, and is no file."""
        return self.language in RUN_LANGUAGES and self.title is None

    @property
    def is_run_here(self) -> bool:
        """Whether it is run in the directory of its page."""
        return self.is_code and not self.classes & {*NEEDS, "fragment", "installs"}

    @property
    def extra(self) -> str | None:
        """The extra without which it cannot run."""
        return next((each.removeprefix("extra-") for each in EXTRAS if each in self.classes), None)

    @property
    def commands(self) -> list[str]:
        """The shell commands of a `console` block, in their order."""
        return re.findall(r"^\$ (.*)$", self.text, re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    `spans` are the calls of `sandrl` in its sentences, `options` those of whatever program.
    """

    name: str
    blocks: tuple[Block, ...]
    spans: tuple[str, ...]
    options: tuple[str, ...]


def pages() -> list[Page]:
    """All pages that hold commands, the README among them; the changelog has those of earlier versions."""
    paths = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
    return [page_of(path) for path in paths if path.name != "CHANGELOG.md"]


def page_of(path: Path) -> Page:
    """Reads a page."""
    name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    blocks = tuple(_block(name, found, text.count("\n", 0, found.start()) + 1) for found in _BLOCK.finditer(text))
    sentences = _BLOCK.sub("", text)
    codes = _CODE.findall(sentences)
    options = tuple(option for code in codes for option in _OPTION.findall(code))
    return Page(name, blocks, tuple(code for code in codes if code.startswith("sandrl ")), options)


def _block(page: str, found: re.Match[str], line: int) -> Block:
    if found["hidden"] is not None:
        return Block(page, line, "sh", frozenset(), None, found["hidden"])
    info = _INFO.fullmatch(found["info"].strip())
    if info:
        language, classes, title = info.group("language", "classes", "title")
    else:
        (language, _, classes), title = found["info"].strip().partition(" "), None
    names = frozenset(each.removeprefix(".") for each in (classes or "").split())
    text = re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
    return Block(page, line, language, names, title, text)


def calls_of(script: str) -> Iterator[list[str]]:
    """The words after `sandrl` of each of its calls in a shell script; a variable is given the value 1.

    Raises:
        ValueError: If a line is not a line of a shell script.
    """
    for line in _lines_of(_HERE_DOCUMENT.sub("", script).replace("\\\n", " ")):
        call: list[str] | None = None
        for word in [*line, ";"]:
            if call is None:
                call = [] if word == "sandrl" or word.endswith("/sandrl") else None
            elif set(word) <= set("|&;<>()"):
                yield call[:-1] if call and call[-1] in ("1", "2") and word.startswith(">") else call
                call = None
            else:
                call.append(word)


def _lines_of(script: str) -> Iterator[list[str]]:
    text = ""
    for line in script.splitlines():
        text = f"{text}\n{line}" if text else line
        lexer = shlex.shlex(re.sub(r"\$\{?\w+\}?", "1", text), posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        try:
            yield list(lexer)
        except ValueError:
            continue
        text = ""
    if text:
        raise ValueError(f"a quotation is not closed: {text}")


def shell_of(block: Block) -> str:
    """The shell script of a block of commands; empty for other blocks."""
    if block.title is not None:
        return ""
    return {"sh": block.text, "console": "\n".join(block.commands)}.get(block.language, "")
