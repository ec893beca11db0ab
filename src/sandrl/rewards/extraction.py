"""Finding the code in what a model wrote.

The design decision: the model's last word counts. A model that corrects itself writes the better answer later, and a
model cut off by its token limit leaves its last tag open; so tags and fences are searched from the end, and an open one
reaches to the end of the text. The text is hostile: everything here is one pass over it, and nothing of it is parsed as
Python.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from enum import StrEnum

from sandrl.problems import Completion, Problem


class Extraction(StrEnum):
    """Where in a completion its code is.

    Attributes:
        AUTO: The last `<answer>`, else the last fenced block (Python ones first), else the last `<code>`.
        ANSWER: The last `<answer>`; an open one counts.
        EXACT: The whole text must be one `<answer>…</answer>`.
        FENCE: The last fenced block, Python ones first.
        RAW: The text as it is.
    """

    AUTO = "auto"
    ANSWER = "answer"
    EXACT = "exact"
    FENCE = "fence"
    RAW = "raw"


@dataclass(frozen=True, slots=True)
class Fence:
    """One fenced block of a Markdown text."""

    language: str
    code: str
    closed: bool


_PYTHON_NAMES = frozenset({"python", "py", "python3", "py3"})
_OPENING = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*([^\s`{]*)[^`]*$")


def extract(text: str, how: Extraction = Extraction.AUTO) -> str | None:
    """The code in a completion.

    Args:
        text: What the model wrote.
        how: Where to look.

    Returns:
        The code, or None if there is none.
    """
    match how:
        case Extraction.RAW:
            code: str | None = text
        case Extraction.EXACT:
            code = _whole_answer(text)
        case Extraction.ANSWER:
            code = _last_answer(text)
        case Extraction.FENCE:
            code = last_fence(text)
        case Extraction.AUTO:
            code = next((found for find in _SEARCHES if (found := find(text)) is not None), None)
    return code if code is not None and code.strip() else None


def _whole_answer(text: str) -> str | None:
    content = text.strip()
    if not (content.startswith("<answer>") and content.endswith("</answer>")):
        return None
    content = content.removeprefix("<answer>").removesuffix("</answer>")
    if "<answer>" in content or "</answer>" in content:
        return None
    return _unwrapped(content)


def _last_answer(text: str) -> str | None:
    content = _last_tag(text, "answer")
    return None if content is None else _unwrapped(content)


def _last_code(text: str) -> str | None:
    content = _last_tag(text, "code")
    return None if content is None else _tidy(content)


def _last_tag(text: str, name: str) -> str | None:
    start = text.rfind(f"<{name}>")
    if start < 0:
        return None
    start += len(name) + 2
    end = text.find(f"</{name}>", start)
    return text[start:] if end < 0 else text[start:end]


def _unwrapped(answer: str) -> str:
    fenced = last_fence(answer)
    return _tidy(answer) if fenced is None else fenced


def _tidy(code: str) -> str:
    """Drops empty lines around the code and the indentation that all of its lines share."""
    return textwrap.dedent(re.sub(r"\A(?:[ \t]*\n)+", "", code)).rstrip()


def last_fence(text: str) -> str | None:
    """The code of the last fenced block: Python ones before others, closed ones before an open one."""
    blocks = fences(text)
    if not blocks:
        return None
    best = max(range(len(blocks)), key=lambda i: (blocks[i].language in _PYTHON_NAMES, blocks[i].closed, i))
    return _tidy(blocks[best].code)


def fences(text: str) -> list[Fence]:
    """All fenced blocks of a text, in order; the last one may be open."""
    blocks: list[Fence] = []
    body: list[str] = []
    opening: re.Match[str] | None = None
    for line in text.split("\n"):
        if opening is None:
            opening = _OPENING.match(line.rstrip("\r"))
            body = []
        elif _closes(opening.group(2), line):
            blocks.append(Fence(opening.group(3).lower(), "\n".join(body), closed=True))
            opening = None
        else:
            body.append(line)
    if opening is not None:
        blocks.append(Fence(opening.group(3).lower(), "\n".join(body), closed=False))
    return blocks


def _closes(mark: str, line: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(mark) and not stripped.strip(mark[0])


_SEARCHES = (_last_answer, last_fence, _last_code)


def continues(prompt: str, entry_point: str | None, text: str) -> bool:
    """Whether a text without any tag or fence is the body of the function that its prompt begins.

    The sign is that its first line that is not empty is indented, which no answer in prose and no program is.
    """
    if _definition(prompt, entry_point) is None:
        return False
    first = next((line for line in text.split("\n") if line.strip()), "")
    return first[:1] in (" ", "\t")


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
    if _definition(code, entry_point) is not None:
        preamble = prompt[: beginning.start()].strip()
        # Nothing may stand before a `from __future__`.
        return f"{preamble}\n\n{code}" if preamble and "from __future__" not in code else code
    first = next((line for line in code.split("\n") if line.strip()), "")
    body = code if first[:1] in (" ", "\t") else textwrap.indent(code, "    ")
    return prompt.rstrip(" \t\n") + "\n" + body


def _definition(code: str, name: str | None) -> re.Match[str] | None:
    """Where a module's code defines a name at its top level."""
    if name is None:
        return None
    word = re.escape(name)
    return re.search(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{word}\b|^{word}[ \t]*=", code, re.MULTILINE)


def extract_code(completion: Completion, problem: Problem, how: Extraction = Extraction.AUTO) -> str | None:
    """The code of a completion, joined to the problem's prompt where it continues it; None if there is none."""
    if completion.code is not None:
        code: str | None = completion.code if completion.code.strip() else None
    else:
        text = completion.text or ""
        code = extract(text, how)
        if code is None and how is Extraction.AUTO and continues(problem.prompt, problem.entry_point, text):
            code = text
    return None if code is None else join_to_prompt(problem.prompt, problem.entry_point, code)
