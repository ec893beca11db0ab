"""Replaces field names in messages of the library by flags of the command line.

A field has the same flag in every command, so the replacement happens where a message is printed. A command with a
configuration uses its own flags (`sandrl.cli.configured`); this module serves all other commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sandrl.errors import SandrlError

# A name may also be that of a variable, which stays.
_FIELD = re.compile(r"[a-z][a-z_]*")
# Of commands that declare their options themselves.
_DECLARED = {"older_than_seconds": "--older-than", "everything": "--all", "resume": "--resume"}


def spelled(text: str, fields: Iterable[str], flags: Mapping[str, str] | None = None) -> str:
    """A text with flags in place of fields: those of the command, else those that most commands have."""
    for name in fields:
        flag = (_common() if flags is None else flags).get(name)
        if flag is None:
            continue
        text = text.replace(f"`{name}`", flag)
        # A name of one word may be a word of the text, too.
        text = re.sub(rf"(?<![\w'-]){name}(?!\w)" if "_" in name else rf"^{name}\b", flag, text)
    return text


def spell(error: SandrlError, flags: Mapping[str, str] | None = None) -> None:
    """Puts the flags of the command line into an error in place of its fields; those left are for someone else."""
    if flags is None:
        flags = plain_flags(error.fields)
    error.message = spelled(error.message, error.fields, flags)
    error.hint = error.hint and spelled(error.hint, error.fields, flags)
    error.fields = tuple(name for name in error.fields if name not in flags)


def plain_flags(fields: Iterable[str]) -> Mapping[str, str]:
    """The flags of fields where the command is not known: those that most commands have, else made from the name."""
    return {name: f"--{name.replace('_', '-')}" for name in fields if _FIELD.fullmatch(name)} | dict(_common())


def _common() -> Mapping[str, str]:
    from sandrl.config.fields import flags
    from sandrl.config.parts import CachePart, MappingPart, OutputPart, SamplingPart, SandboxesPart, ScoringPart

    parts = (ScoringPart, MappingPart, CachePart, SandboxesPart, OutputPart, SamplingPart)
    return {name: flag for part in parts for name, flag in flags(part).items()} | _DECLARED
