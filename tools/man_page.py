"""Makes the man page `man/sandrl.1` from the command line's help and from two pages of the documentation.

Environment variables and exit codes are described once, in `docs/reference`, and their tables are read from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from sandrl import __version__
from sandrl.cli.app import application

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path("man/sandrl.1")
# Variables that a user sets; the others are described in the documentation.
_SECTIONS = ("Directories", "Runtimes", "Service, models and trackers", "Terminal and command line")
_FILES = (
    ("runs/NAME/", "the directory of a run: configuration, metrics, results and the ledger of its sandboxes"),
    (
        "~/.local/state/sandrl/",
        "the private directory of the local runtime: socket, log, token files and the index of runs",
    ),
    ("~/.cache/sandrl/", "files that can be created again, such as tiny policies"),
    ("~/.config/sandrl/prices.toml", "prices of a sandbox-hour; see `sandrl prices`"),
)


def text() -> str:
    """Returns the page as roff, in the macros of man(7)."""
    command = get_command(application())
    lines = [
        '.\\" Generated: `make generate`.',
        f'.TH SANDRL 1 "" "sandrl {__version__}" "User Commands"',
        # Names of options and files are neither hyphenated nor spread over a line.
        ".nh",
        ".ad l",
        ".SH NAME",
        f"sandrl \\- {_text(_sentence(command.help).rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B sandrl",
        "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]",
        ".SH DESCRIPTION",
        *_paragraphs(command.help),
        ".PP",
        _text(
            "Without credentials of a sandbox service, commands run sandboxes on this machine."
            " `sandrl reward` without arguments scores a demo; `sandrl doctor` checks this machine."
        ),
        ".SH OPTIONS",
        *_options(command),
        ".SH COMMANDS",
        *_commands(command, ("sandrl",)),
        ".SH EXIT STATUS",
        *_entries(_table("exit-codes.md")),
        ".SH ENVIRONMENT",
        *_entries(_variables()),
        ".SH FILES",
        *_entries((f"`{name}`", meaning) for name, meaning in _FILES),
        ".SH SEE ALSO",
        _text(
            "`sandrl COMMAND --help` prints the options of a command that most people need, and"
            " `sandrl COMMAND --help-all` all of them, in groups."
        ),
        ".PP",
        ".BR bwrap (1),",
        ".BR namespaces (7),",
        ".BR seccomp (2)",
    ]
    return "\n".join(lines) + "\n"


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[str]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        words = (*path, name)
        yield f".SS {_bold(' '.join(words))}{_usage(command)}"
        yield from _paragraphs(command.help)
        if hasattr(command, "commands"):
            yield from _commands(command, words)
            continue
        arguments = [param for param in command.params if param.param_type_name == "argument" and not param.hidden]
        for param in arguments:
            yield from (".TP", f"\\fI{_escape(_metavar(param))}\\fR", _text(param.help or ""))
        yield from _options(command)


def _usage(command: Any) -> str:
    if hasattr(command, "commands"):
        return " \\fICOMMAND\\fR"
    words = ["[\\fIOPTIONS\\fR]"]
    for param in command.params:
        if param.param_type_name == "argument" and not param.hidden:
            word = f"\\fI{_escape(_metavar(param))}\\fR" + (" ..." if param.nargs == -1 else "")
            words.append(word if param.required else f"[{word}]")
    return "".join(f" {word}" for word in words)


def _metavar(param: Any) -> str:
    return str(param.metavar or (param.name or "").upper()).split(" ")[0].strip("[].")


def _options(command: Any) -> Iterator[str]:
    context = _context(command)
    for param in command.params:
        if param.param_type_name != "option" or param.hidden:
            continue
        record = param.get_help_record(context)
        if record is None:
            continue
        names, meaning = record
        yield from (".TP", _names(names), _text(meaning) or "\\&")


def _context(command: Any) -> Any:
    return command.context_class(command, info_name="sandrl")


def _names(text: str) -> str:
    """Options in bold, their values in italics."""
    words = []
    for word in re.split(r"(\s+|/|,\s)", text):
        style = "B" if word.startswith("-") else "I"
        words.append(f"\\f{style}{_escape(word)}\\fR" if word.strip(" ,/") else word)
    return "".join(words)


def _variables() -> Iterator[tuple[str, str]]:
    for row in _table("environment.md", _SECTIONS):
        names, meaning, default, *_ = (*row, "")
        about = f"{meaning[:1].upper()}{meaning[1:].rstrip('.')}."
        yield names, f"{about} Default: {default}." if default else about


def _table(name: str, sections: Iterable[str] = ()) -> Iterator[tuple[str, ...]]:
    """The rows of a page's tables, without their heads: those of some sections, or of the first table."""
    wanted, section, is_first = set(sections), "", True
    text = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    found = 0
    for block in re.split(r"\n\s*\n", text):
        if block.startswith("#"):
            section = block.lstrip("# ").splitlines()[0]
        rows = [line for line in block.splitlines() if line.startswith("|")]
        if len(rows) > 2 and (section in wanted if wanted else is_first):
            is_first = False
            found += 1
            for row in rows[2:]:
                yield tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip()[1:-1]))
    if found < (len(wanted) or 1):
        raise ValueError(f"docs/reference/{name}: a table that the man page contains is not there")


def _entries(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for term, meaning, *_ in rows:
        yield from (".TP", _text(term) if "`" in term else _bold(term), _text(meaning))


def _paragraphs(help_: str | None) -> Iterator[str]:
    for place, paragraph in enumerate(re.split(r"\n\s*\n", (help_ or "").strip())):
        if place:
            yield ".PP"
        yield _text(paragraph)


def _sentence(help_: str | None) -> str:
    return re.split(r"(?<=\.)\s", " ".join((help_ or "").split()))[0]


def _text(markdown: str) -> str:
    """One paragraph: code in bold, links as their words."""
    plain = re.sub(r"\[([^\]]+)\]\([^)\s]+\)", r"\1", " ".join(markdown.split())).replace("**", "")
    parts = re.split(r"`([^`]+)`", plain)
    text = "".join(_bold(part) if place % 2 else _escape(part, hyphens=False) for place, part in enumerate(parts))
    return f"\\&{text}" if text[:1] in {".", "'"} else text


def _bold(text: str) -> str:
    return f"\\fB{_escape(text)}\\fR"


def _escape(text: str, *, hyphens: bool = True) -> str:
    """Text for roff: a hyphen that a reader may copy is a minus sign there."""
    # Long words, such as lists of values, may be broken after these characters.
    text = re.sub(r"\S{40,}", lambda word: re.sub(r"([,|/=])(?=\w)", "\\1\0", word[0]), text)
    escaped = (
        text.replace("\\", "\\e").replace("\0", "\\:").replace("~", "\\(ti").replace("^", "\\(ha").replace("`", "\\(ga")
    )
    return escaped.replace("-", "\\-") if hyphens or "--" in text else escaped
