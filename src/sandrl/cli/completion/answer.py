"""Computes the completions at the cursor from the words so far and the tree of commands, for every shell.

The first line of an answer states what the shell should offer in addition (`files`, `directories` or `nothing`). Every
further line is a value, followed by a tab and its meaning if the shell can show meanings. After an error the answer is
empty, so that no message appears in the middle of a command line.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandrl.cli.completion import values

TREE = Path(__file__).with_name("tree.json")
Node = dict[str, Any]
# More than anybody reads, and than a shell sorts at once.
_MOST_VALUES = 1000
_HELP_CHARACTERS = 72


@dataclass(frozen=True)
class Answer:
    """What fits.

    Attributes:
        values: Words, each with what it means (may be empty).
        paths: `files`, `directories` or `nothing`: what the shell offers of its own.
    """

    values: list[tuple[str, str]] = field(default_factory=list)
    paths: str = "nothing"


def answer(shell: str) -> int:
    """Prints the answer to a shell, whose words after `sandrl` are this process's arguments; returns the exit code."""
    try:
        words = [_unquoted(word) for word in _whole(sys.argv[1:]) or [""]]
        found = complete(words, read_tree())
        sys.stdout.write("\n".join(_lines(shell, words[-1], found)) + "\n")
        sys.stdout.flush()
    except Exception:  # noqa: BLE001 - broken files, a closed pipe: a command line is no place to complain in
        return 1
    return 0


def read_tree() -> Node:
    """The tree of commands."""
    tree: Node = json.loads(TREE.read_bytes())
    return tree


def complete(words: Sequence[str], tree: Node) -> Answer:
    """Finds what fits the words after `sandrl`, of which the last one is being typed and perhaps empty."""
    *before, typed = words
    node, position, waiting, only_arguments, given = tree, 0, None, False, set[str]()
    for word in before:
        if waiting is not None:
            waiting = None
        elif word == "--" and not only_arguments:
            only_arguments = True
        elif word.startswith("-") and len(word) > 1 and not only_arguments:
            name, separator, _ = word.partition("=")
            option = _option(node, name)
            if option is not None:
                given.update(option["names"])
                waiting = option if option.get("value") and not separator else None
        elif node["commands"]:
            if word not in node["commands"]:
                return Answer()
            node = node["commands"][word]
        else:
            position += 1
    if waiting is not None:
        return _fitting(waiting, typed)
    name, separator, value = typed.partition("=")
    if not only_arguments and separator and name.startswith("--"):
        option = _option(node, name)
        found = Answer() if option is None or not option.get("value") else _fitting(option, value)
        return Answer([(f"{name}={text}", help_) for text, help_ in found.values], found.paths)
    if typed.startswith("-") and not only_arguments:
        return Answer(_options(node, typed, given))
    if node["commands"]:
        return Answer(
            [(name, short(each["help"])) for name, each in node["commands"].items() if name.startswith(typed)]
        )
    arguments = node["arguments"]
    if position < len(arguments) or (arguments and arguments[-1].get("many")):
        return _fitting(arguments[min(position, len(arguments) - 1)], typed)
    return Answer([] if only_arguments or typed else _options(node, typed, given))


def _option(node: Node, name: str) -> Node | None:
    return next((option for option in node["options"] if name in option["names"]), None)


def _options(node: Node, typed: str, given: set[str]) -> list[tuple[str, str]]:
    return [
        (name, option["help"])
        for option in node["options"]
        if option.get("many") or not given.intersection(option["names"])
        for name in option["names"]
        # `-c` beside `--concurrency` is noise, unless it was asked for.
        if name.startswith(typed) and (name.startswith("--") or typed == name)
    ]


def _fitting(parameter: Node, typed: str) -> Answer:
    choices = [(name, help_) for name, help_ in parameter.get("choices", ())]
    if "live" in parameter:
        choices += values.SOURCES[parameter["live"]]()
    fitting = {text: help_ for text, help_ in choices if text.startswith(typed) and values.is_plain(text)}
    return Answer(list(fitting.items())[:_MOST_VALUES], parameter.get("paths", "nothing"))


def _whole(words: Sequence[str]) -> list[str]:
    # Puts together what bash takes apart at `=` and `:`; the other shells leave words whole.
    breaks = set(os.environ.get("_SANDRL_COMPLETE_BREAKS", "")) & set("=:")
    whole: list[str] = []
    glue = False
    for word in words:
        is_break = bool(word) and set(word) <= breaks
        if whole and (glue or is_break):
            whole[-1] += word
        else:
            whole.append(word)
        glue = is_break
    return whole


def _unquoted(word: str) -> str:
    for end in ("", "'", '"'):
        try:
            return "".join(shlex.split(word + end)) if word else ""
        except ValueError:  # the quote is still open
            continue
    return word


def _lines(shell: str, typed: str, found: Answer) -> list[str]:
    if shell != "bash":
        return [found.paths, *(f"{text}\t{help_}" if help_ else text for text, help_ in found.values)]
    # Bash replaces only what follows the last character it breaks words at.
    breaks = os.environ.get("_SANDRL_COMPLETE_BREAKS", "")
    cut = max((typed.rfind(character) + 1 for character in "=:" if character in breaks), default=0)
    return [found.paths, *(text[cut:] for text, _ in found.values)]


def short(text: str | None) -> str:
    """The first sentence, without marks, cut to what fits beside a word on a terminal."""
    line = " ".join((text or "").replace("`", "").split())
    line = re.split(r"(?<=[^.])[.;:] ", line)[0].rstrip(".")
    return line if len(line) <= _HELP_CHARACTERS else line[: _HELP_CHARACTERS - 1].rstrip() + "…"
