"""Reads source in a language other than Python, without a compiler: which names it defines, and whether it acts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from sandrl.answers.definitions import MAX_LENGTH, Text, read_text, without
from sandrl.answers.sources import Source, Sources
from sandrl.answers.syntaxes import SYNTAXES, Syntax, masked

_WORD = re.compile(r"[^\W\d]\w*")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|#\d{1,5}|#x[0-9a-f]{1,5});", re.IGNORECASE)
_FENCE = re.compile(r"`{3}|^~{3}", re.MULTILINE)
_SENTENCE = re.compile(r"[ \t]*+(?:[-*>]++ |\d++\. )?[*_`]*+[A-Z][\w'`*]*+,?(?: ++[^\s;{}]++){2,}[ \t]*+")
_MAIN = "main"


class TextSources(Sources):
    """Reads texts in a language of `sandrl.problems.languages` other than Python, up to a total length."""

    reading = re.compile(
        r"\b(?:cin|scanf|getline|gets|fgets|getchar|get_line|read\w*|stdin|STDIN|Scanner|Scan\w*|System\.in|bufio|ARGF|file|fopen|open"
        r"|lines|mapfile|argv|input|io)\b|<>|/dev/stdin"
    )
    printing = re.compile(
        r"(?i:\b(?:cout|\w*print\w*|puts|put\w*|write\w*|echo|console|stdout|cat|say|display|log|exec|system|message|p|pp)\b)"
    )

    def __init__(self, language: str) -> None:
        super().__init__()
        self.language = language
        self.syntax: Syntax = SYNTAXES[language]

    def shown(self, code: str) -> str:  # code may have other text in its strings and comments
        return masked(code, self.syntax)

    def begins_like_code(self, text: str) -> bool:
        first = next((line for line in text.split("\n") if line.strip()), "")
        return self.syntax.begins.match(first.rstrip()) is not None

    def unescaped(self, code: str) -> str:
        # Only where an entity stands outside of comments and strings.
        if _ENTITY.search(code) is None or len(code) > MAX_LENGTH:
            return code
        return html.unescape(code) if _ENTITY.search(self.shown(code)) is not None else code

    def is_value(self, text: str) -> bool:
        return False  # a body may read like one

    def whole(self, text: str) -> str:
        # From the first line that looks like code to the first sentence after a blank line; empty for none.
        if len(text) > MAX_LENGTH:
            return text
        lines = text.split("\n")
        first = next(
            (n for n, line in enumerate(lines) if line.strip() and self.syntax.begins.match(line.rstrip())), None
        )
        if first is None:
            return ""
        code = lines[first:]
        depth, is_after_blank = 0, False
        for number, plain in enumerate(masked("\n".join(code), self.syntax).split("\n")):
            is_sentence = is_after_blank and _SENTENCE.fullmatch(plain) is not None
            if _FENCE.match(plain) is not None or (is_sentence and depth <= 0):
                return "\n".join(code[:number]).rstrip()
            depth += plain.count("{") - plain.count("}")
            is_after_blank = not plain.strip()
        return "\n".join(code).rstrip()

    def pieces(self, text: str) -> Iterator[str]:
        yield self.whole(text)

    def _source_of(self, code: str) -> Source | None:
        text = read_text(code, self.syntax)
        is_blank = not text.plain.strip() and "#" not in code
        if is_blank or not _is_closed(text) or _FENCE.search(text.plain) is not None:
            return None
        rest = _outside_of_definitions(text)
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
            is_expression=not (names or acts or self.begins_like_code(code)),
        )


def sources_of(language: str) -> Sources:
    """What reads source in a language."""
    return TextSources(language) if language in SYNTAXES else Sources()


def _is_closed(text: Text) -> bool:
    return text.depth == 0 and all(each.is_whole for each in text.definitions)


def _outside_of_definitions(text: Text) -> str:
    rest = without(text.plain, [(each.start, each.end) for each in text.definitions])
    return text.syntax.imports.sub("", rest).replace("<?php", "").replace("?>", "")
