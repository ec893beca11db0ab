"""Source in a language other than Python that a model wrote, and which of several blocks of it are the answer.

The rule is the same as for Python (`selection.py`), applied to what can be read without a compiler. The answer is the
last block that defines the name that the problem requires, joined with earlier blocks of imports, and with blocks that
define what it uses and nothing that it defines itself.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Sequence

from sandrl.rewards.asked import Asked
from sandrl.rewards.definitions import MAX_LENGTH, Text, read_text
from sandrl.rewards.sources import Source, Sources
from sandrl.rewards.syntaxes import SYNTAXES, Syntax, masked

_READS = re.compile(
    r"\b(?:cin|scanf|getline|gets|fgets|getchar|get_line|read\w*|stdin|STDIN|Scanner|Scan\w*|System\.in|bufio|ARGF|file|fopen|open"
    r"|lines|mapfile|argv|input|io)\b|<>|/dev/stdin"
)
_PRINTS = re.compile(
    r"(?i:\b(?:cout|\w*print\w*|puts|put\w*|write\w*|echo|console|stdout|cat|say|display|log|exec|system|message|p|pp)\b)"
)
_WORD = re.compile(r"[^\W\d]\w*")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|#\d{1,5}|#x[0-9a-f]{1,5});", re.IGNORECASE)
_FENCE = re.compile(r"`{3}|^~{3}", re.MULTILINE)
_SENTENCE = re.compile(r"[ \t]*+(?:[-*>]++ |\d++\. )?[*_`]*+[A-Z][\w'`*]*+,?(?: ++[^\s;{}]++){2,}[ \t]*+")
_MAIN = "main"


class TextSources(Sources):
    """Reads texts in a language, up to a total length.

    Args:
        language: A name of `sandrl.problems.languages`, other than Python.
    """

    def __init__(self, language: str) -> None:
        super().__init__()
        self.language = language
        self.syntax: Syntax = SYNTAXES[language]

    def shown(self, code: str) -> str:
        """Code with blanks for its strings and comments: a text that reads as code may have other text in it."""
        return masked(code, self.syntax)

    def _source_of(self, code: str) -> Source | None:
        text = read_text(code, self.syntax)
        is_blank = not text.plain.strip() and "#" not in code
        if is_blank or not _is_closed(text) or _FENCE.search(text.plain) is not None:
            return None
        rest = _rest(text)
        names = frozenset(each.name for each in text.definitions)
        names |= {inner.name for each in text.definitions if each.is_class for inner in text.inner(each)}
        acts = _MAIN in names or (self.syntax.is_script and bool(rest.strip()))
        return Source(
            code=code,
            binds=names,
            needs=frozenset(_WORD.findall(text.plain)) - names,
            acts=acts,
            is_open=not names and not acts and self.syntax.imports.search(code) is not None,
            is_setting=False,
            is_expression=not (names or acts or begins_like_code(code, self.syntax)),
        )


def sources_of(language: str) -> Sources:
    """What reads source in a language."""
    return TextSources(language) if language in SYNTAXES else Sources()


def begins_like_code(text: str, syntax: Syntax) -> bool:
    """Whether the first line of a text looks like code, not like a sentence."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    return syntax.begins.match(first.rstrip()) is not None


def code_within(text: str, syntax: Syntax) -> str:
    """The text from the first line that looks like code to the first sentence after a blank line; empty for none."""
    if len(text) > MAX_LENGTH:
        return text
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if line.strip() and syntax.begins.match(line.rstrip())), None)
    if first is None:
        return ""
    code = lines[first:]
    depth, is_after_blank = 0, False
    for number, plain in enumerate(masked("\n".join(code), syntax).split("\n")):
        is_sentence = is_after_blank and _SENTENCE.fullmatch(plain) is not None
        if _FENCE.match(plain) is not None or (is_sentence and depth <= 0):
            return "\n".join(code[:number]).rstrip()
        depth += plain.count("{") - plain.count("}")
        is_after_blank = not plain.strip()
    return "\n".join(code).rstrip()


def select_text(blocks: Sequence[str], asked: Asked, sources: Sources, helpers: Collection[str] = ()) -> str | None:
    """The code of the answer, in another language than Python.

    Args:
        blocks: Blocks of code, in order.
        asked: What the problem asks for.
        sources: Reads them.
        helpers: More blocks, before these: they are joined where a name of theirs is needed, and are no answers.

    Returns:
        The block, or several joined; None if no block is one.
    """
    before = [source for code in helpers if (source := sources.read(code)) is not None]
    after = [source for code in blocks if (source := sources.read(plain_entities(code, sources))) is not None]
    chosen = _program(after, asked) if asked.is_program else _defining(after, asked)
    if chosen is None:
        return None
    units = before + after[:chosen]
    wanted = after[chosen]
    needed = set(wanted.needs)
    joined: list[Source] = []
    bound = set(wanted.binds)
    for unit in reversed(units):
        if unit.is_open or (unit.binds & needed and not unit.binds & bound and not unit.acts):
            joined.insert(0, unit)
            needed |= unit.needs
            bound |= unit.binds
    return "\n\n".join([*(unit.code for unit in joined), wanted.code])


def plain_entities(code: str, sources: Sources) -> str:
    """Code with its HTML entities replaced, if it has them outside of comments and strings."""
    if _ENTITY.search(code) is None or not isinstance(sources, TextSources) or len(code) > MAX_LENGTH:
        return code
    return html.unescape(code) if _ENTITY.search(read_text(code, sources.syntax).plain) is not None else code


def _defining(units: Sequence[Source], asked: Asked) -> int | None:
    """The last block that defines what is asked for."""
    places = range(len(units) - 1, -1, -1)
    if asked.entry_point is not None:
        return next((place for place in places if asked.entry_point in units[place].binds), None)
    return next((place for place in places if asked.names & units[place].binds), None)


def _program(units: Sequence[Source], asked: Asked) -> int | None:
    """The last program that reads where there is input, and prints where output is expected."""
    places = [place for place in range(len(units) - 1, -1, -1) if units[place].acts]
    fitting = [place for place in places if _fits(units[place].code, asked)]
    return next(iter([*fitting, *places]), None)


def _fits(code: str, asked: Asked) -> bool:
    reads = not asked.reads or _READS.search(code) is not None
    return reads and (not asked.prints or _PRINTS.search(code) is not None)


def _is_closed(text: Text) -> bool:
    return text.depth == 0 and all(each.is_whole for each in text.definitions)


def _rest(text: Text) -> str:
    """What stands outside of definitions and imports."""
    parts, last = [], 0
    for each in text.definitions:
        parts.append(text.plain[last : each.start])
        last = max(each.end, last)
    return text.syntax.imports.sub("", "".join([*parts, text.plain[last:]])).replace("<?php", "").replace("?>", "")
