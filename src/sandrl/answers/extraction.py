"""Extracts the code from a completion.

The last block that is an answer counts. Reasoning is left out. Of the rest, the last block is used that compiles and
defines the names that the problem requires, alone or with the blocks that it needs (`selection.py`). If there is no
such block, the last block is the code, and its error is the verdict. The text is hostile: it is compiled, never
executed, and only up to a bounded length (`sources.py`). In languages other than Python nothing is compiled here:
blocks in the problem's language come first, and names and braces decide between them (`text_sources.py`).
"""

from __future__ import annotations

import re

from sandrl.answers.continuation import continues, join_to_starter
from sandrl.answers.markup import MAX_BLOCKS, Element, Fence, fences, lone_closings, tagged
from sandrl.answers.requirements import Requirement, requirement_of
from sandrl.answers.selection import select
from sandrl.answers.sources import MAX_LENGTH, tidy
from sandrl.answers.text_sources import sources_of
from sandrl.answers.turns import first_reply, without_end_tokens, without_reasoning, without_start_tokens
from sandrl.config.words import Extraction
from sandrl.problems import Completion, Problem
from sandrl.problems.languages import PYTHON
from sandrl.problems.math_answers import stated

__all__ = ["Extraction", "extract", "extract_code", "join_to_starter"]


_ANSWER_OPENS = re.compile(r"<answer(?:[ \t][^<>\n]{0,200})?>", re.IGNORECASE)
_ANSWER_TAG = re.compile(r"</?answer(?:[ \t][^<>\n]{0,200})?>", re.IGNORECASE)
_CLOSES = "</answer>"
_SQUARE_TAG = re.compile(r"\[(/?)PYTHON\]")
# As in the prompts of MBPP.
_BEGIN_TAG, _DONE_TAG = re.compile(r"^[ \t]*\[BEGIN\]", re.MULTILINE), re.compile(r"^[ \t]*\[DONE\]", re.MULTILINE)
_LONE_TAG = re.compile(r"</(?:answer|code|python|solution)>|\[/PYTHON\]|^[ \t]*\[DONE\]", re.IGNORECASE | re.MULTILINE)
_FIRST_WORD = re.compile(r"\s*([\w+#.-]{1,20})[ \t]*\n")
_DEFINITION = re.compile(r"^[ \t]*(?:(?:async[ \t]+)?def|class|import|from)[ \t]+\w+", re.MULTILINE)
_LINE_END = re.compile(r"\r\n?")
_ORDER_MARK = re.compile(r"^[\ufeff\u200b]+", re.MULTILINE)
# Code of Markdown without fences.
_INDENTED = re.compile(r"^(?:(?: {4}|\t)[^\n]*+\n?|[ \t]*+\n)++", re.MULTILINE)


def extract(text: str, how: Extraction = Extraction.AUTO, problem: Problem | None = None) -> str | None:
    """Extracts the code from the text of a model; `None` if there is none.

    Without the problem that it answers, the last block that compiles is taken.
    """
    if how is Extraction.RAW:
        code: str | None = text
    else:
        text = without_end_tokens(_ORDER_MARK.sub("", _LINE_END.sub("\n", text)))
        language = PYTHON if problem is None else problem.language
        is_exact = how is Extraction.EXACT
        if problem is not None and problem.answer is not None and not is_exact:
            return _stated(text, how)
        code = _whole_answer(text, language) if is_exact else _Search(how, problem, language).find(text)
    return code if code is not None and code.strip() else None


def extract_code(completion: Completion, problem: Problem, how: Extraction = Extraction.AUTO) -> str | None:
    """Extracts the code of a completion and joins it to the code that the problem gives; `None` if there is none."""
    if completion.code is not None:
        code: str | None = completion.code.removeprefix("\ufeff") if completion.code.strip() else None
    else:
        code = extract(completion.completion or "", how, problem)
    if code is None or problem.answer is None:
        return None if code is None else join_to_starter(problem, code)
    return stated(code)


def _stated(text: str, how: Extraction) -> str | None:
    # The part of a text in which the answer of a mathematical problem is found, where it is given.
    sources = sources_of(PYTHON)
    text = without_reasoning(without_start_tokens(text), sources)
    opening = next(reversed(list(_ANSWER_OPENS.finditer(text))), None)
    if how is Extraction.FENCE:
        blocks = fences(text, sources)
        return blocks[-1].code.strip() or None if blocks else None
    if opening is None:
        return (text.strip() or None) if how is Extraction.AUTO else None
    return re.split(_CLOSES, text[opening.end() :], maxsplit=1, flags=re.IGNORECASE)[0].strip() or None


def _whole_answer(text: str, language: str) -> str | None:
    content = text.strip()
    opening = _ANSWER_OPENS.match(content)
    if opening is None or content[-len(_CLOSES) :].lower() != _CLOSES:
        return None
    content = content[opening.end() : -len(_CLOSES)]
    if _ANSWER_TAG.search(content) and not sources_of(language).compiles(tidy(content)):
        return None
    blocks = fences(content, sources_of(language))
    return _default(blocks, language) if blocks else tidy(content)


class _Search:
    def __init__(self, how: Extraction, problem: Problem | None, language: str) -> None:
        self._how = how
        self._problem = problem
        self._language = language
        self._required = Requirement() if problem is None else requirement_of(problem)
        self._sources = sources_of(language)

    def find(self, text: str) -> str | None:
        """The code in a text, outside of its reasoning if there is anything else."""
        text = without_reasoning(first_reply(text, self._sources), self._sources)
        text = self._opened(without_start_tokens(text))
        is_auto = self._how is Extraction.AUTO
        if is_auto and self._sources.begins_like_code(text) and (code := self._plain(text)) is not None:
            return code
        blocks = fences(text, self._sources)[-MAX_BLOCKS:]
        default = None
        if self._how is not Extraction.FENCE:
            answers = _real(text, tagged(text, "answer", self._sources, blocks))
            if answers:
                is_final, default = self._answer(answers, blocks)
                if is_final or not is_auto:
                    return default
            elif not is_auto:
                return None
        if all("\n" not in text[block.start : block.end] for block in blocks):
            # Code within a line may be a mention.
            blocks = blocks if self._select([block.code for block in blocks]) is not None else []
        if blocks:
            return self._before(text, blocks) or self._fenced(blocks)
        if default is not None or not is_auto:
            return default
        marked = _DONE_TAG.sub("</code>", _BEGIN_TAG.sub("<code>", _SQUARE_TAG.sub(r"<\1python>", text)))
        codes = tagged(marked, "(?:code|python|solution)", self._sources, blocks)
        if codes:
            contents = [tidy(code.content) for code in codes]
            return self._choose(contents) or contents[-1]
        return (
            self._plain(text) or self._embedded(text) or self._choose([tidy(code) for code in _INDENTED.findall(text)])
        )

    def _before(self, text: str, blocks: list[Fence]) -> str | None:
        # Code before the first block, if the blocks are no attempts at an answer, but its output or its usage.
        is_other = all(self._sources.compiles(block.code) or not block.is_in(self._language) for block in blocks)
        before = text[: blocks[0].start]
        if not is_other or not before.strip() or self._select([block.code for block in blocks]) is not None:
            return None
        return self._plain(before) or self._embedded(before)

    def _opened(self, text: str) -> str:
        # A text with the fence or tag that its prompt has opened, if the text ends a block that it does not begin.
        first = _FIRST_WORD.match(text)
        if first is not None and Fence(first.group(1).lower(), "", closed=True).is_in(self._language):
            return f"```{text.lstrip()}"
        ends = lone_closings(text)
        tag = _LONE_TAG.search(text)
        if (ends or tag) and self._sources.compiles(tidy(text)):
            # In other languages, a text with a tag at its end may pass for code.
            ends, tag = [], _LONE_TAG.search(self._sources.shown(text))
        for end, fence in ends:
            if self._is_block(text[:end]):
                return f"{fence}{self._language}\n{text}"
        if tag is None or not self._is_block(text[: tag.start()]):
            return text
        # Where the answer ends, a model that goes on writes the next example of its prompt.
        return f"<answer>{text}" if tag.group(0).lower() == _CLOSES else text[: tag.start()]

    def _is_block(self, text: str) -> bool:
        if len(text) > MAX_LENGTH:
            return False
        source = self._sources.read(tidy(text)) if self._sources.begins_like_code(text) else None
        return bool(source.binds or source.acts) if source is not None else self._continues(text)

    def _answer(self, answers: list[Element], blocks: list[Fence]) -> tuple[bool, str | None]:
        # Whether an answer is code, right or wrong, and the code of the answers.
        if not answers[-1].content.strip():
            return True, None
        contents = [block for answer in answers for block in self._unwrapped(answer.content)]
        inside = [(answer.start, answer.end) for answer in answers]
        outside = [block.code for block in blocks if not any(a <= block.start < b for a, b in inside)]
        chosen = self._select([block.code for block in contents], outside) or self._embedded(answers[-1].content)
        if chosen is not None:
            return True, chosen
        last = self._sources.unescaped(_default(self._unwrapped(answers[-1].content), self._language) or "")
        return self._is_code(last), last

    def _is_code(self, text: str) -> bool:
        if self._sources.compiles(text):
            return self._sources.is_code(text)
        is_python = self._language == PYTHON
        return _DEFINITION.search(text) is not None if is_python else self._sources.begins_like_code(text)

    def _unwrapped(self, content: str) -> list[Fence]:
        code = tidy(content)
        inner = fences(content, self._sources)
        if not inner or self._sources.compiles(code):
            return [Fence(self._language, code, closed=True)]
        return inner

    def _fenced(self, blocks: list[Fence]) -> str | None:
        if len(blocks) == 1:
            code = self._sources.unescaped(blocks[0].code)
            # Without its closing fence, a block has the sentences after it in it.
            is_whole = blocks[0].closed or self._sources.compiles(code)
            return code if is_whole else self._embedded(code) or code
        groups = [
            [block.code for block in blocks if block.is_in(self._language)],
            [block.code for block in blocks if block.is_in(self._language) or not block.language],
            [block.code for block in blocks],
        ]
        for codes in groups if self._required.is_program or self._language != PYTHON else groups[1:]:
            chosen = self._select(codes) if codes else None
            if chosen is not None:
                return chosen
        return self._sources.unescaped(_default(blocks, self._language) or "")

    def _choose(self, codes: list[str], helpers: list[str] | None = None) -> str | None:
        return select(codes, self._required, self._sources, helpers or ())

    def _select(self, codes: list[str], helpers: list[str] | None = None) -> str | None:
        chosen = self._choose(codes, helpers)
        if chosen is not None or self._problem is None:
            return chosen
        # A body for the prompt's function does not compile by itself.
        bodies = (code for code in reversed(codes) if not self._sources.compiles(code))
        return next((code for code in bodies if self._continues(code)), None)

    def _continues(self, code: str) -> bool:
        return self._problem is not None and continues(self._problem, code)

    def _plain(self, text: str) -> str | None:
        # A text that is nothing but code.
        if self._problem is None:
            return None
        chosen = self._choose([self._sources.whole(text)])
        is_body = chosen is None and not self._sources.is_value(tidy(text)) and self._continues(text)
        return text if is_body else chosen

    def _embedded(self, text: str) -> str | None:
        # Code between sentences before and after it.
        if self._problem is None:
            return None
        found = (self._choose([code]) for code in self._sources.pieces(text))
        return next((code for code in found if code is not None), None)


def _real(text: str, answers: list[Element]) -> list[Element]:
    # The answers without empty ones in the middle of a sentence, which only name the tag.
    real: list[Element] = []
    end_before = 0
    for answer in answers:
        before = text[max(text.rfind("\n", 0, answer.start) + 1, end_before) : answer.start]
        after = text[answer.end :].partition("\n")[0] if answer.closed else ""
        is_empty = not answer.content.strip()
        if not (is_empty and (before.strip() or after.strip() or not answer.closed)):
            real.append(answer)
        end_before = answer.end
    return real


def _default(blocks: list[Fence], language: str) -> str | None:
    if not blocks:
        return None
    best = max(range(len(blocks)), key=lambda place: (blocks[place].is_in(language), blocks[place].closed, place))
    return blocks[best].code
