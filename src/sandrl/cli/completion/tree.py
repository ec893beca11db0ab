"""Builds the tree of commands as plain data from the command line itself.

Only `make generate` and a test build it. The package contains its text, `tree.json`, so shell completion does not
depend on Typer's internals.
"""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from typer.main import get_command

from sandrl.cli.completion import values
from sandrl.cli.completion.answer import short

_HELP = [
    {"names": ["--help"], "help": "Show the most used options and exit"},
    {"names": ["--help-all"], "help": "Show all options and exit"},
]


def tree_text() -> str:
    """The tree as `tree.json` has it: one line per option, argument and command, so that a change shows as a line."""
    from sandrl.cli.app import application

    return _rendered(_node(get_command(application())), "") + "\n"


def _rendered(node: dict[str, Any], margin: str) -> str:
    def block(items: list[str], marks: str) -> str:
        inner = ",\n".join(f"{margin}  {item}" for item in items)
        return f"{marks[0]}\n{inner}\n{margin} {marks[1]}" if items else marks

    rows = {name: [json.dumps(row, ensure_ascii=False) for row in node[name]] for name in ("options", "arguments")}
    below = [f"{json.dumps(name)}: {_rendered(each, margin + '  ')}" for name, each in node["commands"].items()]
    parts = [f'"help": {json.dumps(node["help"], ensure_ascii=False)}']
    parts += [f'"{name}": {block(lines, "[]")}' for name, lines in rows.items()]
    parts.append(f'"commands": {block(below, "{}")}')
    return "{" + f",\n{margin} ".join(parts) + "}"


def _node(command: Any) -> dict[str, Any]:
    params = [param for param in command.params if not param.hidden]
    subcommands = getattr(command, "commands", {})
    return {
        # Whole: the help of the command line shows it, too.
        "help": " ".join((command.help or "").partition("\n\n")[0].split()),
        "options": [_option(param) for param in params if param.param_type_name == "option"] + _HELP,
        "arguments": [
            _said(many=param.nargs == -1, **_values(param)) for param in params if param.param_type_name == "argument"
        ],
        "commands": {name: _node(each) for name, each in subcommands.items() if not each.hidden},
    }


def _option(param: Any) -> dict[str, Any]:
    return _said(
        names=[*param.opts, *param.secondary_opts],
        help=short(param.help),
        value=not param.is_flag and not param.count,
        many=bool(param.multiple or param.count),
        **_values(param),
    )


def _said(**fields: Any) -> dict[str, Any]:
    # What there is to say: fields that are empty or false are left out.
    return {name: value for name, value in fields.items() if value}


def _values(param: Any) -> dict[str, Any]:
    declared = param.type_descriptor
    # Of an option that can be repeated, what one value is.
    kind = next(iter(get_args(declared.annotation)), declared.annotation)
    source = declared.parameter_info.autocompletion
    live = source.__name__ if source is not None and source.__name__ in values.SOURCES else ""
    choices: list[tuple[str, str]] = []
    if get_origin(declared.annotation) is Literal:
        choices = [(str(word), "") for word in get_args(declared.annotation)]
    elif isinstance(kind, type) and issubclass(kind, Enum):
        choices = [(str(member.value), "") for member in kind]
    elif source is not None and not live:
        choices = [(name, short(help_)) for name, help_ in source()]
    return {"choices": choices, "live": live, "paths": _paths(kind, param.metavar or "")}


def _paths(kind: Any, metavar: str) -> str:
    if "DIR" in metavar:
        return "directories"
    is_path = isinstance(kind, type) and issubclass(kind, Path)
    return "files" if is_path or "FILE" in metavar or metavar == "COMPLETIONS" else ""
