"""Parses the structure of a model's text: fenced blocks and tags.

Everything here is linear in the length of the text. Only `Sources`, which has a bound of its own, compiles anything:
a fence or a tag inside a string of code that compiles is part of that code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sandrl.answers.sources import MAX_LENGTH, Sources, tidy
from sandrl.problems.languages import PYTHON, find_language

_PYTHON_NAMES = frozenset({"python2", "ipython", "sage"})

MAX_BLOCKS = 64
"""How many of the last blocks of a text are looked at."""

_MAX_MARKS = 8 * MAX_BLOCKS
_MAX_CLOSINGS = 6
_MAX_NESTING = 3
_MAX_LINES_BETWEEN = 3

END_TOKEN = (
    r"(?:<[|｜][\w▁ /-]{1,40}[|｜]?>|<[\w▁/-]{1,40}[|｜]>|</?s>"
    r"|<(?:[Ee][Oo][SsTtDdMm]|bos|pad|(?:start|end)_of_\w{1,20})>"
    r"|\[(?:EOS|/?INST|end of text|\|[\w ]{1,40}\||e~)[\[\]])"
)
"""A token of a chat template: between turns, at their ends, or around roles and channels."""

# A fence that begins its line, or the last run of backticks within a line.
_MARK = re.compile(
    r"(?:^((?:</?\w[^<>\n]{0,80}>)?[ \t>*+\-\d.)]{0,100}?)(`{3,}|~{3,})(.*)|(?<![`~])(`{3,}+|~{3,}+)([^`~\n]*+))$",
    re.MULTILINE,
)
_AGAIN = re.compile(r"\A([^`]*+)(`{3,}+)([^`]*+)\Z")
_SPAN = re.compile(r"(?<!`)(`{3,}+)[ \t]*+([\w+#.-]++)[ \t]++([^`\n]++)`{3,}")
_RUN = re.compile(r"`{3,}")
_WORD = re.compile(r"[a-z]\w*[ \t]*")
_PREFIX = re.compile(r"(?:</?\w[^<>\n]{0,80}>)?((?:[ \t]*>)*)([ \t]*)((?:[-*+]|\d{1,4}[.)])[ \t]+)?")
_AFTER_CLOSING = re.compile(rf"(?:\s|</?\w[^<>]{{0,80}}>)*+(?:\Z|{END_TOKEN})")
_ATTRIBUTES = re.compile(r"""(?:[\w.:-]++(?:=(?:"[^"]*+"|'[^']*+'|[\w.:/-]++))?[ \t,]*+)++|\{.*\}|\[.*\]""")
_ONE_WORD = re.compile(r"[ \t]*+(?:[\w+#.-]{0,40}|\{[^{}]{0,80}\})[ \t]*")
_GLUED_CLOSING = re.compile(rf"(`{{3,}}|~{{3,}})[ \t]*(?:{END_TOKEN}[ \t]*)*$", re.MULTILINE)
_LANGUAGE = re.compile(r"[ \t]*\{?[ \t]*\.?([\w+#-]*)")
_QUOTED = re.compile(r"^[ \t]*(?:>[ \t]?)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Fence:
    """One fenced block of a Markdown text; its language is the first word of its info string, in lower case."""

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
class Element:
    """What stands between two tags, from the beginning of the first to the end of the second, if there is one."""

    content: str
    closed: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Mark:
    # A fence: what is before and after it in its line, whether only blanks and marks of quotes and lists are before it,
    # and whether it is not the end of code in backticks within its line.
    is_first: bool
    head: str
    fence: str
    rest: str
    is_outside: bool
    start: int
    end: int

    @property
    def line(self) -> int:  # where it begins
        return self.start - len(self.head)

    @property
    def language(self) -> str:
        found = _LANGUAGE.match(self.rest)
        return found.group(1).lower() if found is not None else ""

    @property
    def can_open(self) -> bool:
        # Within a line, no more than a word may follow.
        if self.is_first:
            is_info = "`" not in self.rest and not self.rest.lstrip().startswith("<")
            return is_info and _PREFIX.fullmatch(self.head) is not None
        is_meant = self.fence.startswith("`") or self.names_language
        return self.is_outside and is_meant and _ONE_WORD.fullmatch(self.rest) is not None

    @property
    def names_language(self) -> bool:
        is_word = self.is_first and _WORD.fullmatch(self.rest) is not None
        return is_word or find_language(self.language) is not None or self.language in _PYTHON_NAMES

    @property
    def begins_another(self) -> bool:
        return self.can_open and self.names_language

    def can_close(self, fence: str) -> bool:
        is_alone = self.is_first and not self.head.strip(" \t>") and _AFTER_CLOSING.match(self.rest) is not None
        return is_alone and self.fence.startswith(fence)

    def may_close(self, fence: str) -> bool:
        # Behind code, before a sentence, or where another block begins.
        return self.fence.startswith(fence) or self.begins_another


def _marks(text: str) -> list[_Mark]:
    marks = []
    for found in _MARK.finditer(text):
        head, fence, rest, inner, inner_rest = found.groups()
        if inner is not None:
            head, start = text[text.rfind("\n", 0, found.start()) + 1 : found.start()], found.start()
            is_outside = len(_RUN.findall(head)) % 2 == 0
            marks.append(_Mark(False, head, inner, inner_rest, is_outside, start, found.end()))
            continue
        marks.append(_Mark(True, head, fence, rest, True, found.start(2), found.end()))
        if (again := _AGAIN.search(rest)) is not None:
            # A block ends, and after a few words the next one begins.
            start = found.end(2) + again.start(2)
            marks.append(_Mark(False, again.group(1), again.group(2), again.group(3), True, start, found.end()))
    return marks


def fences(text: str, sources: Sources | None = None, nesting: int = 0) -> list[Fence]:
    """The fenced blocks of a text, in order; the last one may be open. Of very many, only the last are read.

    A fence need not begin its line: words or tokens of a chat template may stand before it. Whether a fence that is
    not alone in its line ends a block, or is code, depends on whether the code as far as there compiles.

    Args:
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
    if sources is not None and nesting == 0:
        blocks = sorted([*blocks, *_spans(text, blocks, sources)], key=lambda block: block.start)
    return blocks


def _spans(text: str, blocks: Sequence[Fence], sources: Sources) -> list[Fence]:
    spans = [
        Fence(found.group(2).lower(), found.group(3).strip(), True, found.start(), found.end())
        for found in list(_SPAN.finditer(text))[-MAX_BLOCKS:]
        if not any(block.start <= found.start() < block.end for block in blocks[-_MAX_MARKS:])
    ]
    return [span for span in spans if span.is_in(sources.language) and sources.is_code(span.code)]


def lone_closings(text: str) -> list[tuple[int, str]]:
    """Where fences are that may end a block which begins before the text, and these fences; only the first ones."""
    ends: list[tuple[int, str]] = []
    for mark in _marks(text):
        if mark.begins_another:
            if not mark.head or not mark.head.isspace():
                break  # unless it is in a docstring, the text begins its blocks itself
        elif len(ends) < _MAX_CLOSINGS:
            ends.append((mark.start, mark.fence))
    return ends


def _closing(text: str, marks: list[_Mark], first: int, opening: _Mark, sources: Sources | None) -> int | None:
    places: list[int] = []
    others: list[int] = []
    for place in range(first, len(marks)):
        if marks[place].can_close(opening.fence):
            places.append(place)
            if sources is None or len(places) == _MAX_CLOSINGS:
                break
        elif sources is None or places or len(others) == _MAX_CLOSINGS:
            continue
        elif marks[place].may_close(opening.fence):
            others.append(place)
    if sources is not None and (others or len(places) > 1):
        for place in (*places[:2], *others, *places[2:]):
            if sources.compiles(_block(text, opening, marks[place], sources).code):
                return place
        end = marks[places[0]].start if places else len(text)
        if end - opening.end <= MAX_LENGTH:
            # It is not closed before the next block begins, or it is a body, which does not compile.
            places = [place for place in others if marks[place].begins_another] or places or others
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
        first = opening.rest.strip().partition(" ")[2].strip()
        if first and _ATTRIBUTES.fullmatch(first) is None and sources.is_code(f"{first}\n{body}"):
            code = f"{first}\n{body}"
        if closing is not None and not is_whole:
            code = _without_sentences(code, sources)
    return Fence(opening.language, code, is_whole, opening.start, last)


def _without_sentences(code: str, sources: Sources) -> str:
    # Code without the few lines after it that lead to the next block; as it is, if it does not compile even so.
    shorter = code
    for _ in range(_MAX_LINES_BETWEEN):
        if sources.compiles(shorter):
            return shorter
        shorter = shorter.rpartition("\n")[0].rstrip()
    return shorter if sources.compiles(shorter) else code


def tagged(text: str, name: str, sources: Sources, blocks: Sequence[Fence] = ()) -> list[Element]:
    """What stands between tags of a name, in order; the last may be open.

    A tag in quotes or backticks is a mention of the tag, and a tag within a block of code that compiles is code. The
    content ends at the first closing tag that makes it compile, else at the first.
    """
    pattern = re.compile(rf"<(/?){name}(?:[ \t][^<>\n]{{0,200}})?>", re.IGNORECASE)
    spans = [(each.start, each.end) for each in blocks if pattern.search(each.code) and sources.compiles(each.code)]
    tags = [tag for tag in pattern.finditer(text) if not is_mention(text, tag) and not is_within(tag, spans)]
    found: list[Element] = []
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
        found.append(Element(text[opening.end() : end], closing is not None, opening.start(), last))
    return found


def is_within(tag: re.Match[str], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a tag begins in one of some parts of its text."""
    return any(start <= tag.start() < end for start, end in spans)


def is_mention(text: str, tag: re.Match[str]) -> bool:
    """Whether a tag stands in quotes or backticks."""
    before, after = text[max(tag.start() - 1, 0) : tag.start()], text[tag.end() : tag.end() + 1]
    return before != "" and before == after and before in "`\"'"
