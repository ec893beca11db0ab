"""Parses the structure of a model's text: fenced blocks, tags, reasoning, and the tokens that end a text.

Everything here is linear in the length of the text. Only `Sources`, which has a bound of its own, compiles anything:
a fence or a tag inside a string of code that compiles is part of that code.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from sandrl.problems.languages import PYTHON, find_language
from sandrl.rewards.sources import Sources

_PYTHON_NAMES = frozenset({"python2", "ipython", "sage"})

MAX_BLOCKS = 64
"""How many of the last blocks of a text are looked at."""

_MAX_MARKS = 8 * MAX_BLOCKS
_MAX_CLOSINGS = 6
_MAX_NESTING = 3

_END_TOKEN = (
    r"(?:<[|｜][\w▁ /-]{1,40}[|｜]>|</?s>|<(?:eos|bos|pad|end_of_turn|EOT|EOS)>|\[(?:EOS|/?INST|end of text)\])"
)
# A line that is `[DONE]` does nothing as code; prompts of MBPP end answers with it.
_END = re.compile(rf"(?:\s*(?:{_END_TOKEN}|^\[DONE\]))+\s*\Z", re.MULTILINE)
_MARK = re.compile(r"^((?:</?\w[^<>\n]{0,80}>)?[ \t>*+\-\d.)]{0,100}?)(`{3,}|~{3,})(.*)$", re.MULTILINE)
_PREFIX = re.compile(r"(?:</?\w[^<>\n]{0,80}>)?((?:[ \t]*>)*)([ \t]*)((?:[-*+]|\d{1,4}[.)])[ \t]+)?")
_AFTER_CLOSING = re.compile(rf"(?:\s|{_END_TOKEN}|</?\w[^<>]{{0,80}}>)*\Z")
_GLUED_CLOSING = re.compile(rf"(`{{3,}}|~{{3,}})[ \t]*(?:{_END_TOKEN}[ \t]*)*$", re.MULTILINE)
_LANGUAGE = re.compile(r"[ \t]*\{?[ \t]*\.?([\w+#-]*)")
_QUOTED = re.compile(r"^[ \t]*(?:>[ \t]?)", re.MULTILINE)

_REASONING = re.compile(
    r"<(?P<slash>/?)(?:think|thinking|thought|reasoning|reason|scratchpad)>"
    r"|<\|(?P<word>begin|end)_of_thought\|>|\[(?P<square>/?)THINK\]|◁(?P<triangle>/?)think▷",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Fence:
    """One fenced block of a Markdown text.

    Attributes:
        language: The first word of its info string, in lower case.
        code: What is in it.
        closed: Whether it has an end.
        start: Where it begins in the text.
        end: Where it ends.
    """

    language: str
    code: str
    closed: bool
    start: int = 0
    end: int = 0

    def is_in(self, language: str) -> bool:
        """Whether its info string names a language of `sandrl.problems.languages`."""
        found = find_language(self.language)
        return (found is not None and found.name == language) or (language == PYTHON and self.language in _PYTHON_NAMES)


@dataclass(frozen=True, slots=True)
class Tagged:
    """What stands between two tags.

    Attributes:
        content: The text between them.
        closed: Whether there is a closing tag.
        start: Where the opening tag begins.
        end: Where the closing tag ends.
    """

    content: str
    closed: bool
    start: int
    end: int


def without_end_tokens(text: str) -> str:
    """A text without the end-of-text tokens of chat templates behind it."""
    tail = max(len(text) - 400, 0)
    found = _END.search(text, tail)
    return text if found is None else text[: found.start()]


def tidy(code: str) -> str:
    """Drops empty lines around the code and the indentation that all of its lines share."""
    return textwrap.dedent(re.sub(r"\A(?:[ \t]*\n)+", "", code)).rstrip()


def fences(text: str, sources: Sources | None = None, nesting: int = 0) -> list[Fence]:
    """The fenced blocks of a text, in order; the last one may be open. Of very many, only the last are read.

    Args:
        text: The text.
        sources: Decides which of several closing fences ends a block: the first one that makes it compile. Without it
            the first one ends it.
        nesting: How many blocks this text is inside of.
    """
    marks = list(_MARK.finditer(text))
    blocks: list[Fence] = []
    position = 0
    while position < len(marks):
        opening = marks[position]
        position += 1
        if not _can_open(opening):
            continue
        is_early = len(marks) - position > _MAX_MARKS
        place = _closing(text, marks, position, opening, None if is_early else sources)
        if is_early and place is not None:
            position = place + 1
            continue
        block = _block(text, opening, None if place is None else marks[place])
        position = len(marks) if place is None else place + 1
        inner = (
            []
            if block.is_in(PYTHON if sources is None else sources.language) or nesting >= _MAX_NESTING
            else fences(block.code, sources, nesting + 1)
        )
        blocks += [
            Fence(each.language, each.code, each.closed or block.closed, block.start, block.end) for each in inner
        ] or [block]
    return blocks


def _can_open(mark: re.Match[str]) -> bool:
    info = mark.group(3)
    return _PREFIX.fullmatch(mark.group(1)) is not None and "`" not in info and not info.lstrip().startswith("<")


def _can_close(mark: re.Match[str], opening: re.Match[str]) -> bool:
    kind = opening.group(2)
    if not mark.group(2).startswith(kind) or mark.group(1).strip(" \t>"):
        return False
    return _AFTER_CLOSING.match(mark.group(3)) is not None


def _closing(
    text: str, marks: list[re.Match[str]], first: int, opening: re.Match[str], sources: Sources | None
) -> int | None:
    """Which mark ends a block; None if it is open."""
    places = []
    for place in range(first, len(marks)):
        if _can_close(marks[place], opening):
            places.append(place)
            if sources is None or len(places) == _MAX_CLOSINGS:
                break
    if not places:
        return None
    if sources is not None and len(places) > 1:
        for place in places:
            if sources.compiles(_block(text, opening, marks[place]).code):
                return place
    return places[0]


def _block(text: str, opening: re.Match[str], closing: re.Match[str] | None) -> Fence:
    end = len(text) if closing is None else closing.start()
    body = text[min(opening.end() + 1, end) : end].removesuffix("\n")
    last = end if closing is None else closing.end(2)
    is_closed = closing is not None
    if closing is None:
        glued = _GLUED_CLOSING.search(body)
        if glued is not None:
            body, is_closed = body[: glued.start()], True
    prefix = _PREFIX.fullmatch(opening.group(1))
    for _ in range(min(prefix.group(1).count(">"), 10) if prefix is not None else 0):
        body = _QUOTED.sub("", body)
    language = _LANGUAGE.match(opening.group(3))
    name = language.group(1).lower() if language is not None else ""
    return Fence(name, tidy(body), is_closed, opening.start(2), last)


def tagged(text: str, name: str, sources: Sources, blocks: Sequence[Fence] = ()) -> list[Tagged]:
    """What stands between tags of a name, in order; the last may be open.

    A tag in quotes or backticks is a mention of the tag, and a tag within a block of code that compiles is code. The
    content ends at the first closing tag that makes it compile, else at the first.
    """
    pattern = _tag_pattern(name)
    spans = [(each.start, each.end) for each in blocks if pattern.search(each.code) and sources.compiles(each.code)]
    tags = [tag for tag in pattern.finditer(text) if not _is_mention(text, tag) and not _within(tag, spans)]
    found: list[Tagged] = []
    openings = [tag for tag in tags if not tag.group(1)][-MAX_BLOCKS:]
    closings = [tag for tag in tags if tag.group(1)][-4 * MAX_BLOCKS :]
    code_end = 0
    for opening in openings:
        if opening.start() < code_end:
            continue
        after = [tag for tag in closings if tag.start() >= opening.end()][:_MAX_CLOSINGS]
        closing = after[0] if after else None
        if len(after) > 1:
            for each in after:
                if sources.compiles(tidy(text[opening.end() : each.start()])):
                    closing, code_end = each, each.end()
                    break
        end = len(text) if closing is None else closing.start()
        last = end if closing is None else closing.end()
        found.append(Tagged(text[opening.end() : end], closing is not None, opening.start(), last))
    return found


def _tag_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"<(/?){name}(?:[ \t][^<>\n]{{0,200}})?>", re.IGNORECASE)


def _within(tag: re.Match[str], spans: Sequence[tuple[int, int]]) -> bool:
    return any(start <= tag.start() < end for start, end in spans)


def _is_mention(text: str, tag: re.Match[str]) -> bool:
    before, after = text[max(tag.start() - 1, 0) : tag.start()], text[tag.end() : tag.end() + 1]
    return before != "" and before == after and before in "`\"'"


def without_reasoning(text: str, sources: Sources) -> str:
    """A text without the reasoning in it.

    Reasoning ends with a closing tag. It begins with the opening tag before it, or with the text, because the chat
    templates of reasoning models open it in the prompt. A tag that opens reasoning and is never closed changes nothing.
    """
    tags = [tag for tag in _REASONING.finditer(text) if not _is_mention(text, tag)]
    if not any(map(_is_end, tags)):
        return text
    tags = tags[-4 * MAX_BLOCKS :]
    spans = _code_spans(text, sources)
    kept: list[str] = []
    position, opened = 0, None
    for tag in tags:
        if _within(tag, spans):
            continue
        if not _is_end(tag):
            opened = tag.start() if opened is None else opened
            continue
        if opened is None:
            kept.clear()
        else:
            kept.append(text[position:opened])
        position, opened = tag.end(), None
        if tag is not tags[-1] and sources.compiles(tidy(text[position:])):
            break
    kept.append(text[position:])
    return "\n".join(kept)


def _is_end(tag: re.Match[str]) -> bool:
    return bool(tag["slash"] or tag["square"] or tag["triangle"] or tag["word"] == "end")


def _code_spans(text: str, sources: Sources) -> list[tuple[int, int]]:
    """Where code that compiles has a tag of reasoning in it: there it is part of a string or a comment."""
    blocks = fences(text, sources)
    pieces = [(block.start, block.end, block.code) for block in blocks]
    pieces += [(each.start, each.end, tidy(each.content)) for each in tagged(text, "answer", sources, blocks)]
    pieces = pieces or [(0, len(text), text)]
    return [
        (start, end)
        for start, end, code in pieces[-2 * MAX_BLOCKS :]
        if _REASONING.search(code) is not None and sources.compiles(code)
    ]
