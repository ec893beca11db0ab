"""Joining code to a prompt that is code itself and begins the asked-for function, as HumanEval's prompts do."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from sandrl.rewards.selection import join
from sandrl.rewards.sources import read_source

_DOES_SOMETHING = re.compile(r"\b(?:return|yield|raise|pass|for|while|if|with|assert)\b|[=(]")


def join_to_prompt(prompt: str, entry_point: str | None, code: str) -> str:
    """Joins code to a prompt that is code itself, as HumanEval's are.

    Args:
        prompt: The problem's prompt.
        entry_point: The function that the prompt begins.
        code: What was extracted.

    Returns:
        The code as it is, unless the prompt begins the function. Then prompt and code, where the code is the
        function's body; and what the prompt says before the function (imports, helpers) and the code, where it
        defines the function itself.
    """
    beginning = _definition(prompt, entry_point)
    if beginning is None:
        return code
    if entry_point is not None and defines(code, entry_point):
        preamble = prompt[: beginning.start()].strip()
        return join([preamble, code]) if preamble else code
    whole = continued(prompt, entry_point, code)
    if whole is not None:
        return whole
    first = next((line for line in code.split("\n") if line.strip()), "")
    body = code if first[:1] in (" ", "\t") else textwrap.indent(code, "    ")
    return prompt.rstrip(" \t\n") + "\n" + body


def defines(code: str, name: str) -> bool:
    """Whether a module's code defines a name at its top level."""
    if _definition(code, name) is not None:
        return True
    source = read_source(code) if name in code else None
    return source is not None and name in source.binds


def continued(prompt: str, entry_point: str | None, code: str) -> str | None:
    """A prompt with code as the body of the function that it begins.

    The indentation that generation loses is put back: of all lines, or of the first. Where the whole does not compile,
    what follows the body is left out.

    Returns:
        The whole; None if the prompt begins no function, or the code is not its body.
    """
    if _definition(prompt, entry_point) is None or _DOES_SOMETHING.search(code) is None:
        return None
    beginning = prompt.rstrip(" \t\n")
    last = beginning.rpartition("\n")[2]
    indentation = last[: len(last) - len(last.lstrip())] or "    "
    for body in _bodies(code.strip("\n").rstrip(), indentation):
        whole = f"{beginning}\n{body}"
        if read_source(whole) is not None:
            return whole
    return None


def _bodies(code: str, indentation: str) -> Iterator[str]:
    first, _, rest = code.partition("\n")
    is_indented = first[:1] in (" ", "\t")
    if is_indented:
        yield code
    yield textwrap.indent(textwrap.dedent(code), indentation)
    mended = f"{indentation}{first.lstrip()}\n{rest}"
    if rest:
        yield mended
    end = re.search(r"^\S", rest, re.MULTILINE)
    if end is not None:
        if is_indented:
            yield f"{first}\n{rest[: end.start()]}"
        if rest[:1] in (" ", "\t"):
            yield f"{indentation}{first.lstrip()}\n{rest[: end.start()]}"


def _definition(code: str, name: str | None) -> re.Match[str] | None:
    """Where a module's code defines a name at its top level."""
    if name is None:
        return None
    word = re.escape(name)
    return re.search(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{word}\b|^{word}[ \t]*=", code, re.MULTILINE)
