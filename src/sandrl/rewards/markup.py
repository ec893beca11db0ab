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
from sandrl.rewards.sources import MAX_LENGTH, Sources

_PYTHON_NAMES = frozenset({"python2", "ipython", "sage"})

MAX_BLOCKS = 64
"""How many of the last blocks of a text are looked at."""

_MAX_MARKS = 8 * MAX_BLOCKS
_MAX_CLOSINGS = 6
_MAX_NESTING = 3
_MAX_LINES_BETWEEN = 3

# Of a chat template: between turns, at their ends, and around roles and channels.
_END_TOKEN = (
    r"(?:<[|｜][\w▁ /-]{1,40}[|｜]?>|<[\w▁/-]{1,40}[|｜]>|</?s>|<(?:[Ee][Oo][SsTtDdMm]|bos|pad|(?:start|end)_of_\w{1,20})>"
    r"|\[(?:EOS|/?INST|end of text|\|[\w ]{1,40}\||e~)[\[\]])"
)
# A line that is `[DONE]` does nothing as code; prompts of MBPP end answers with it.
_END = re.compile(rf"(?:\s*(?:{_END_TOKEN}|^\[DONE\]))+\s*\Z", re.MULTILINE)
# A fence that begins its line, or the last run of backticks within a line.
_MARK = re.compile(
    r"(?:^((?:</?\w[^<>\n]{0,80}>)?[ \t>*+\-\d.)]{0,100}?)(`{3,}|~{3,})(.*)|(?<![`~])(`{3,}+|~{3,}+)([^`~\n]*+))$", re.MULTILINE
)
_RUN = re.compile(r"`{3,}")
_WORD = re.compile(r"[a-z]\w*[ \t]*")
_PREFIX = re.compile(r"(?:</?\w[^<>\n]{0,80}>)?((?:[ \t]*>)*)([ \t]*)((?:[-*+]|\d{1,4}[.)])[ \t]+)?")
_AFTER_CLOSING = re.compile(rf"(?:\s|</?\w[^<>]{{0,80}}>)*+(?:\Z|{_END_TOKEN})")
_ONE_WORD = re.compile(r"[ \t]*(?:[\w+#.-]{0,40}|\{[^{}]{0,80}\})[ \t]*")
_GLUED_CLOSING = re.compile(rf"(`{{3,}}|~{{3,}})[ \t]*(?:{_END_TOKEN}[ \t]*)*$", re.MULTILINE)
_LANGUAGE = re.compile(r"[ \t]*\{?[ \t]*\.?([\w+#-]*)")
_QUOTED = re.compile(r"^[ \t]*(?:>[ \t]?)", re.MULTILINE)

_THOUGHT = r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|scratchpad|analysis)"
# As the templates of chat models write it: in tags, in tokens, or in a channel that is not the final one.
_REASONING = re.compile(
    rf"<(?P<slash>/?)(?:\w{{1,20}}[:_])?{_THOUGHT}(?:[ \t][^<>\n]{{0,200}})?>"
    rf"|<\|(?:(?:begin|start)_(?:of_)?|(?P<word>end_(?:of_)?|/))?{_THOUGHT}\|>"
    r"|\[(?P<square>/?)THINK\]|◁(?P<triangle>/?)think▷|<unused(?:94>(?:thought\b)?|(?P<unused>95>))"
    r"|(?:<\|start\|>assistant)?<\|channel\|>(?:(?P<final>final)|(?:analysis|commentary))\b[^<>\n]{0,80}"
    r"(?:<\|constrain\|>[^<>\n]{0,40})?<\|message\|>"
    r"|<\|channel>(?:thought|analysis)\b|(?P<channel><channel\|>)"
    r"|\A(?:assistant)?analysis(?=[A-Z])|(?P<bare>assistantfinal)",
    re.IGNORECASE,
)
_ENDS = ("slash", "word", "square", "triangle", "unused", "final", "channel", "bare")
_NOTHING = re.compile(rf"(?:\s|{_END_TOKEN}|</\w[^<>\n]{{0,80}}>)*+\Z")


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


@dataclass(frozen=True, slots=True)
class _Mark:
    """A fence in a text.

    Attributes:
        is_first: Whether it begins its line, but for blanks, quote marks and list marks.
        head: What stands before it in its line.
        fence: Its characters.
        rest: What stands after it in its line.
        start: Where it begins.
        end: Where its line ends.
    """

    is_first: bool
    head: str
    fence: str
    rest: str
    start: int
    end: int

    @property
    def line(self) -> int:
        """Where its line begins."""
        return self.start - len(self.head)

    @property
    def language(self) -> str:
        """The first word after it, in lower case."""
        found = _LANGUAGE.match(self.rest)
        return found.group(1).lower() if found is not None else ""

    @property
    def can_open(self) -> bool:
        """Whether it may begin a block. Within a line, no more than a word may follow."""
        if self.is_first:
            is_info = "`" not in self.rest and not self.rest.lstrip().startswith("<")
            return is_info and _PREFIX.fullmatch(self.head) is not None
        is_outside = len(_RUN.findall(self.head)) % 2 == 0
        is_meant = self.fence.startswith("`") or self.names_language
        return is_outside and is_meant and _ONE_WORD.fullmatch(self.rest) is not None

    @property
    def names_language(self) -> bool:
        """Whether a language or, right after a fence at the beginning of a line, a word follows."""
        is_word = self.is_first and _WORD.fullmatch(self.rest) is not None
        return is_word or find_language(self.language) is not None or self.language in _PYTHON_NAMES

    @property
    def begins_another(self) -> bool:
        """Whether it begins a block even where the one before it is open."""
        return self.can_open and self.names_language

    def can_close(self, fence: str) -> bool:
        """Whether it ends a block that begins with a fence: it is alone in its line."""
        is_alone = self.is_first and not self.head.strip(" \t>") and _AFTER_CLOSING.match(self.rest) is not None
        return is_alone and self.fence.startswith(fence)

    def may_close(self, fence: str) -> bool:
        """Whether it may be meant as the end: behind code, before a sentence, or where another block begins."""
        return self.begins_another or self.fence.startswith(fence)


def _marks(text: str) -> list[_Mark]:
    marks = []
    for found in _MARK.finditer(text):
        head, fence, rest, inner, inner_rest = found.groups()
        if inner is None:
            marks.append(_Mark(True, head, fence, rest, found.start(2), found.end()))
        else:
            line = text.rfind("\n", 0, found.start()) + 1
            marks.append(_Mark(False, text[line : found.start()], inner, inner_rest, found.start(), found.end()))
    return marks


def fences(text: str, sources: Sources | None = None, nesting: int = 0) -> list[Fence]:
    """The fenced blocks of a text, in order; the last one may be open. Of very many, only the last are read.

    A fence need not begin its line: words or tokens of a chat template may stand before it. Whether a fence that is
    not alone in its line ends a block, or is code, depends on whether the code as far as there compiles.

    Args:
        text: The text.
        sources: Decides which of several closing fences ends a block: the first one that makes it compile. Without it
            the first one ends it.
        nesting: How many blocks this text is inside of.
    """
    marks = _marks(text)
    blocks: list[Fence] = []
    position = 0
    while position < len(marks):
        opening = marks[position]
        position += 1
        if not opening.can_open:
            continue
        is_early = len(marks) - position > _MAX_MARKS
        place = _closing(text, marks, position, opening, None if is_early else sources)
        closing = None if place is None else marks[place]
        position = len(marks) if place is None or closing is None else place + (not closing.begins_another)
        if is_early and closing is not None:
            continue
        block = _block(text, opening, closing, sources)
        inner = (
            []
            if block.is_in(PYTHON if sources is None else sources.language) or nesting >= _MAX_NESTING
            else fences(block.code, sources, nesting + 1)
        )
        blocks += [
            Fence(each.language, each.code, each.closed or block.closed, block.start, block.end) for each in inner
        ] or [block]
    return blocks


def lone_closings(text: str) -> list[tuple[int, str]]:
    """Where fences are that may end a block which begins before the text, and these fences; only the first ones."""
    ends = [(mark.start, mark.fence) for mark in _marks(text) if mark.may_close("") and not mark.begins_another]
    return ends[:_MAX_CLOSINGS]


def _closing(text: str, marks: list[_Mark], first: int, opening: _Mark, sources: Sources | None) -> int | None:
    """Which mark ends a block; None if it is open."""
    places: list[int] = []
    others: list[int] = []
    for place in range(first, len(marks)):
        if marks[place].can_close(opening.fence):
            places.append(place)
            if sources is None or len(places) == _MAX_CLOSINGS:
                break
        elif sources is not None and not places and len(others) < _MAX_CLOSINGS:
            if marks[place].may_close(opening.fence):
                others.append(place)
    if sources is not None and (others or len(places) > 1):
        for place in (*places[:2], *others, *places[2:]):
            if sources.compiles(_block(text, opening, marks[place], sources).code):
                return place
        end = marks[places[0]].start if places else len(text)
        if end - opening.end <= MAX_LENGTH:
            # It is not closed before the next block begins.
            places = [place for place in others if marks[place].begins_another][:1] or places
    return places[0] if places else None


def _block(text: str, opening: _Mark, closing: _Mark | None, sources: Sources | None) -> Fence:
    is_whole = closing is not None and not closing.begins_another
    if closing is None:
        end = last = len(text)
    elif is_whole:
        end = closing.line if closing.is_first else closing.start
        last = closing.start + len(closing.fence)
    else:
        end = last = closing.line
    body = text[min(opening.end + 1, end) : end].removesuffix("\n")
    if not is_whole and (glued := _GLUED_CLOSING.search(body)) is not None:
        body, is_whole = body[: glued.start()], True
    prefix = _PREFIX.match(opening.head)
    for _ in range(min(prefix.group(1).count(">"), 10) if prefix is not None else 0):
        body = _QUOTED.sub("", body)
    code = tidy(body)
    if sources is not None:
        _, _, first = opening.rest.strip().partition(" ")
        if first and not sources.compiles(code) and sources.compiles(f"{first}\n{body}"):
            code = f"{first}\n{body}"
        if closing is not None and not is_whole:
            code = _without_sentences(code, sources)
    return Fence(opening.language, code, is_whole, opening.start, last)


def _without_sentences(code: str, sources: Sources) -> str:
    """Code without the few lines after it that lead to the next block; as it is, if it does not compile even so."""
    shorter = code
    for _ in range(_MAX_LINES_BETWEEN):
        if sources.compiles(shorter):
            return shorter
        shorter = shorter.rpartition("\n")[0].rstrip()
    return shorter if sources.compiles(shorter) else code


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
    """A text without the reasoning in it; the whole text where there is nothing else.

    Reasoning ends with a closing tag. It begins with the opening tag before it, or with the text, because the chat
    templates of reasoning models open it in the prompt. A tag that opens reasoning and is never closed changes nothing:
    many models forget it, and nothing tells where their answer begins.
    """
    tags = [tag for tag in _REASONING.finditer(text) if not _is_mention(text, tag)]
    if not any(map(_is_end, tags)):
        return text
    tags = tags[-4 * MAX_BLOCKS :]
    spans = _code_spans(text, sources)
    kept: list[str] = []
    position, opened, is_closed = 0, None, False
    for tag in tags:
        if _within(tag, spans):
            continue
        if not _is_end(tag):
            opened = tag.start() if opened is None else opened
            continue
        if opened is not None or is_closed:
            # A second closing tag closes nothing.
            kept.append(text[position : tag.start() if opened is None else opened])
        position, opened, is_closed = tag.end(), None, True
        if tag is not tags[-1] and sources.compiles(tidy(text[position:])):
            break
    kept.append(text[position:])
    rest = "\n".join(kept)
    return text if _NOTHING.match(rest) is not None else rest


def _is_end(tag: re.Match[str]) -> bool:
    return any(tag[name] for name in _ENDS)


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
