"""Writes the files that are generated from the code: the reference of commands and options, and shell completion.

The same program writes the files and checks them (`--check`), so CI uses the generator that a developer uses.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from sandrl.cli.app import application
from sandrl.cli.completion import scripts, values
from sandrl.cli.completion.answer import TREE, short
from sandrl.config.commands import CONFIGS
from sandrl.config.fields import PANELS, Option, flag, options
from sandrl.runtime.server import fields
from sandrl.sandboxes.conformance import CHECKS, State
from sandrl.settings import RuntimeKind

ROOT = Path(__file__).resolve().parents[1]
_RESULTS = ROOT / "tests" / "conformance" / "results"
_TREE = TREE.relative_to(ROOT)
_HELP = [
    {"names": ["--help"], "help": "Show the most used options and exit"},
    {"names": ["--help-all"], "help": "Show all options and exit"},
]
_COMMANDS_HEAD = """\
# Command line

This page lists the commands of `sandrl` with their arguments and options; `sandrl COMMAND --help-all`
prints the same text, and `--help` the options that most people need.
Options that several commands share are also in the [table of options](options.md), with their keys in configuration
files. [Exit codes and errors](exit-codes.md) has the meaning of each exit code.

A switch that has an opposite is shown with both spellings: `--caching` / `--no-cache`. This page is generated from the
code by `make generate`.
"""
_OPTIONS_HEAD = """\
# Options

This page lists the options of the commands that have a configuration, with the key of each option in a configuration
file.

- `--config FILE.toml` reads options from a TOML file with these keys. The command line overrides the
  file, and the file overrides the defaults.
- `--print-config` prints the resolved configuration in the same format.
- A run saves its configuration in `config.json`, under `options`; `sandrl runs regrade` starts from it.
- A switch has two spellings on the command line, such as `--require-isolated` and `--no-require-isolated`, and is
  `true` or `false` in a file.
- A time (`SECONDS|2m`) is a number of seconds, or a number with a unit: `500ms`, `30s`, `2m`, `1h30m`. A size
  (`BYTES|1G`) is a number of bytes, or a number with a unit: `64k`, `512MiB` and `1G` are powers of 1024, `2GB` is
  2 · 10⁹ bytes. In a file, a value with a unit is a string: `timeout_seconds = "30s"`. Bodies of requests to a
  [service](http-api.md) take the same values.
- A list is a repeated option (`--tag a --tag b`) or one word with commas (`--packages a,b`), and an array in a file.

The [reference of the command line](cli.md) has the defaults and bounds of each command. This page is generated from the
code by `make generate`.
"""
_PROTOCOL_HEAD = """\
# Protocol of sandboxes

This page lists what the [local runtime](runtime.md) does with each call and each field of the protocol of the sandbox
service, for programs that use the SDK (`cwsandbox`).

- A *served* field has the meaning that the SDK gives it.
- A *refused* field is an error of the SDK that names the field, if its value asks for what a local machine does not
  have. A field that is not set is never refused.
- A field *without effect* is accepted, and nothing follows from it, for the reason that is given here.

This page is generated from the code by `make generate`; a test compares it with the descriptors of the SDK.
"""
_CONFORMANCE_HEAD = """\
# Conformance of runtimes

This page lists the behaviours that sandrl relies on in every runtime, and which runtimes have them. `sandrl runtime
check` tests them, also for a [runtime of your own](../guides/providers.md):

```sh
sandrl runtime check local
sandrl runtime check local --only time-limit --only orphans --json
```

Each check tries one behaviour in sandboxes of its own. Its result is `passed`, `failed` with the expected and the
found value, or `does not apply` with the reason: the runtime refuses what the check tests (a terminal, for example),
or does not report it. The command exits with 1 if a check failed, and with 2 or 3 if the runtime cannot be used
([exit codes](exit-codes.md)). A check takes a second on average, and fails after 60 s without an answer.

The image must have `sh`, small programs such as `cat` and `sleep`, and `python`; `--image` names one. Sandboxes of
others are not touched. Those of the checks have the tag `conformance` and a lifetime of five minutes, and none is
left at the end, also after Ctrl-C. If the command is killed, `sandrl sandboxes cleanup --orphans` stops what it left.
For `orphans` and `lease`, a second process owns a sandbox and is killed.

The table has the results of real runs, which the tests of sandrl compare with new ones: Docker with runc and Podman
with crun as root. `remote` is the SDK with the local daemon, and `kubernetes` is a stand-in for the API of a cluster
whose pods are local sandboxes, because the tests have neither an account of the service nor a cluster. This page is
generated from the code and these results by `make generate`.
"""
_CODE = re.compile(r"(`[^`]+`)")
# Outside of code: options, environment variables, and assignments.
_LITERAL = re.compile(r"(?<![\w-])(?:--[a-z]+(?:-[a-z]+)*|[A-Z]+(?:_[A-Z]+)+)\b")
# Bounds beyond this only protect arithmetic.
_LARGEST_BOUND = 1 << 32


def contents() -> dict[Path, str]:
    """Returns every generated file's path and text."""
    files = {ROOT / "completions" / name: scripts.SCRIPTS[shell] for shell, name in scripts.FILES.items()}
    reference = ROOT / "docs" / "reference"
    return {
        reference / "cli.md": _commands(),
        reference / "options.md": _options(),
        reference / "protocol.md": _protocol(),
        reference / "conformance.md": _conformance(),
        ROOT / _TREE: _tree_text(),
        **files,
    }


def _commands() -> str:
    """The page of commands: a table of all of them, then a section for each."""
    root = typer.main.get_command(application())
    found = [*_walk("sandrl", root)]
    lines = [_COMMANDS_HEAD, "## Commands", "", "| command | purpose |", "|---|---|"]
    for name, command in found:
        if not getattr(command, "commands", None):
            lines.append(f"| [`{name}`](#{name.replace(' ', '-')}) | {_prose(_summary(command))} |")
    lines += [
        "",
        "## Global options",
        "",
        "These options stand before the name of a command: `sandrl --debug COMMAND`.",
        "",
    ]
    lines += _parameters(root)
    for name, command in found:
        lines += ["", f"{'#' * len(name.split())} {name}", "", _prose(" ".join((command.help or "").split())), ""]
        subcommands = getattr(command, "commands", {})
        if subcommands:
            lines += [f"- [`{name} {each}`](#{name.replace(' ', '-')}-{each})" for each in subcommands]
        if not subcommands or (command.invoke_without_command and command.params):
            lines += ["```text", " ".join([name, *_usage(command)]), "```", "", *_parameters(command)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    for each, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield f"{name} {each}", below
            yield from _walk(f"{name} {each}", below)


def _summary(command: Any) -> str:
    """The first sentence of a help."""
    text = " ".join((command.help or "").split())
    return re.split(r"(?<=\.) (?=[A-Z])", text)[0].rstrip(".")


def _usage(command: Any) -> list[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    return ["[OPTIONS]", *(f"{_metavar(each)}{'...' * (each.nargs == -1)}" for each in arguments)]


def _parameters(command: Any) -> list[str]:
    """The arguments of a command, then its options by panel."""
    shown = [each for each in command.params if not each.hidden]
    lines: list[str] = []
    for panel, parameters in groupby(sorted(shown, key=_panel_place), key=_panel):
        lines += [f"**{panel}**", "", *map(_item, parameters), ""]
    return lines


def _panel(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    return parameter.rich_help_panel or "Options"


def _panel_place(parameter: Any) -> int:
    """Arguments first, and what has no panel last."""
    if parameter.param_type_name == "argument":
        return -1
    return PANELS.index(parameter.rich_help_panel) if parameter.rich_help_panel else len(PANELS)


def _item(parameter: Any) -> str:
    metavar = _metavar(parameter)
    if parameter.param_type_name == "argument":
        spelled = f"`{metavar}`"
    else:
        value = "" if parameter.is_flag else f" {metavar}"
        first, *others = sorted(parameter.opts, key=len, reverse=True)
        names = ", ".join([f"`{first}{value}`", *(f"`{name}`" for name in others)])
        spelled = " / ".join([names, *(f"`{name}`" for name in parameter.secondary_opts)])
    return f"- {spelled}: {' '.join([_sentence(_prose(parameter.help or '')), *_limits(parameter)])}"


def _metavar(parameter: Any) -> str:
    """What stands for the value of an option, or for an argument."""
    if parameter.metavar:
        optional = parameter.param_type_name == "argument" and not parameter.required
        plain = parameter.metavar.strip("[]").removesuffix("...")
        return f"[{plain}]" if optional else plain if parameter.param_type_name == "argument" else parameter.metavar
    annotation = parameter.type_descriptor.annotation
    annotation = next(iter(get_args(annotation)), annotation) if get_origin(annotation) is list else annotation
    if get_origin(annotation) is Literal:
        return "|".join(map(str, get_args(annotation)))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "|".join(str(each.value) for each in annotation)
    return str(parameter.name).upper()


def _limits(parameter: Any) -> list[str]:
    """The default of a parameter, and the bounds of its value."""
    said = []
    default = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    if parameter.show_default and default is not None and default is not False:
        said.append(f"Default: `{parameter.opts[0] if default is True else _number(default)}`.")
    low, high = parameter.min, parameter.max
    if high is not None and high > _LARGEST_BOUND:
        high = None
    if low is not None and high is not None:
        said.append(f"From {_number(low)} to {_number(high)}.")
    elif low is not None or high is not None:
        said.append(f"At most {_number(high)}." if low is None else f"At least {_number(low)}.")
    return said


def _number(value: object) -> str:
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _prose(text: str) -> str:
    """A help text as Markdown: options and variables as code.

    Raises:
        ValueError: If the text has characters outside of code that Markdown reads as markup.
    """
    parts = _CODE.split(text)
    for place, part in enumerate(parts):
        if not part.startswith("`"):
            if re.search(r"[<>*|\\]|\[[^\]]*\]\(", part):
                raise ValueError(f"put into backticks what Markdown reads as markup: {text}")
            parts[place] = _LITERAL.sub(lambda found: f"`{found[0]}`", part)
    return "".join(parts)


def _options() -> str:
    """The page of options: each meaning of a field once, with its flag and the commands that have it."""
    commands: dict[tuple[str, str, str], list[str]] = {}
    words: dict[tuple[str, str, str], Option] = {}
    for command, model in CONFIGS.items():
        for name, option in options(model):
            key = name, flag(name, option), option.help
            words.setdefault(key, option)
            commands.setdefault(key, []).append(command)
    first = {name: place for place, (name, *_) in reversed([*enumerate(words)])}
    ordered = sorted(words.items(), key=lambda item: first[item[0][0]])
    lines = [_OPTIONS_HEAD]
    for panel in PANELS:
        lines += [f"## {panel}", "", "| option | key | meaning | commands |", "|---|---|---|---|"]
        for (name, spelled, help_), option in ordered:
            if option.panel == panel:
                value = f" {option.metavar}" if option.metavar and not option.is_argument else ""
                cells = [
                    _spelled(f"{spelled}{value}"),
                    f"`{name}`",
                    _prose(help_),
                    _among(commands[name, spelled, help_]),
                ]
                lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _protocol() -> str:
    """The page of the fields that the local runtime serves, refuses, or accepts without effect."""
    by_message = {
        message: ", ".join(f"`{name.partition('.')[2]}`" for name in names)
        for message, names in groupby(sorted(fields.SERVED), lambda name: name.partition(".")[0])
    }
    refused = [(f"`{name}`", rule.what, rule.condition or "") for name, rule in sorted(fields.REFUSED.items())]
    tables: dict[str, tuple[list[str], Iterable[tuple[str, ...]]]] = {
        "Calls that are refused": (["call", "it asks for"], _coded(fields.REFUSED_CALLS)),
        "Fields that are refused": (["field", "it asks for", "value that is accepted"], refused),
        "Fields without effect": (["field", "reason"], _coded(fields.WITHOUT_EFFECT)),
        "Fields that are served": (["message", "fields"], _coded(by_message)),
        "Notes on served fields": (["field", "note"], _coded(fields.NOTES)),
    }
    lines = [_PROTOCOL_HEAD]
    for title, (names, rows) in tables.items():
        lines += [f"## {title}", "", f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
        lines += [*(f"| {' | '.join(row)} |" for row in rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def _conformance() -> str:
    """The page of checks of providers, with what `sandrl runtime check --json` found on each runtime."""
    found = {path.stem: json.loads(path.read_text("utf-8"))["checks"] for path in _RESULTS.glob("*.json")}
    runtimes = [name for name in RuntimeKind if name in found]
    by_name = {name: {row["name"]: row for row in found[name]} for name in runtimes}
    names = ["check", "what must hold", *(f"`{name}`" for name in runtimes)]
    lines = [_CONFORMANCE_HEAD, f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    reasons = []
    for check in CHECKS:
        cells = [f"`{check.name}`", _prose(check.what)]
        for name in runtimes:
            row = by_name[name][check.name]
            cells.append({State.PASSED: "yes", State.ABSENT: "–"}.get(row["state"], "**no**"))
            if row["state"] != State.PASSED:
                reasons.append((f"`{check.name}`", f"`{name}`", _prose(row["reason"].replace("|", ", "))))
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Where a check does not apply", "", "| check | runtime | reason |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in reasons)]) + "\n"


def _coded(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((f"`{name}`", texts[name]) for name in sorted(texts))


def _spelled(option: str) -> str:
    """An option as code, without the bars that would divide a cell."""
    *words, last = option.split("|")
    return f"{', '.join(f'`{word}`' for word in words)} or `{last}`" if words else f"`{last}`"


def _among(commands: list[str]) -> str:
    missing = [name for name in CONFIGS if name not in commands]
    if len(missing) > 3:
        return ", ".join(commands)
    return f"all except {', '.join(missing)}" if missing else "all"


def _tree_text() -> str:
    """The tree of commands for shell completion, one line for each option, so that a change shows as a line."""
    return _rendered(_node(typer.main.get_command(application())), "") + "\n"


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


def main() -> int:
    """Writes the files, or with `--check` compares them; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if a file is not up to date")
    check = parser.parse_args().check
    files = contents()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text]
    names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
    if check and stale:
        print(f"generated: not up to date: {names}; run make generate", file=sys.stderr)
        return 1
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8")
    if not check:
        print(f"generate: wrote {names}" if stale else "generate: everything is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
