"""Finds duplicates of problems: a policy that is evaluated on a problem it was trained on shows its memory.

Two problems are duplicates if their prompts, or their checks, are equal after the removal of everything that cannot
change the task: case, white space, Unicode's several forms of a character, punctuation at the end of words, Markdown
markup, and the order and layout of checks. Quoted text stays unchanged, because its case and its blanks may be part of
the task. Similar wording is not evidence: "the 2nd largest" and "the 3rd largest" differ in one character.
"""

from __future__ import annotations

import ast
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping

from sandrl.problems.problem import Problem
from sandrl.problems.store import select
from sandrl.syntax import parse

_QUOTES = str.maketrans({"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'})
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*\w*[ \t]*$", re.MULTILINE)
_LINE_MARK = re.compile(r"^[ \t]*(?:#{1,6}|>|[-*+])[ \t]+", re.MULTILINE)
_STRONG = re.compile(r"(?<![\w*])(\*{1,3})(?=\w)([^*\n]*[^\s*])\1(?![\w*])")
# A sign after a word ends a part of a sentence; after a blank it is what the sentence is about.
_AFTER_WORD = re.compile(r"(?<=[\w)\]}'\"])[.,;:?]+(?=\s|$)")
_QUOTED = re.compile(r"""(?<!\w)(?P<quote>['"])(?P<text>[^'"\n]*)(?P=quote)(?!\w)""")


def without_duplicates(candidates: Mapping[str, Problem], of: Mapping[str, Problem]) -> Mapping[str, Problem]:
    prompts: set[bytes] = set()
    checks: set[bytes] = set()
    if candidates:
        for problem in of.values():
            prompts.add(_prompt_digest(problem))
            checks.add(_checks_digest(problem))
        checks.discard(_digest(()))
    names = (
        name
        for name, problem in candidates.items()
        if _prompt_digest(problem) not in prompts and _checks_digest(problem) not in checks
    )
    return select(candidates, names)


def _prompt_digest(problem: Problem) -> bytes:
    return _digest([normal_prompt(problem.prompt)])


def _checks_digest(problem: Problem) -> bytes:
    return _digest(sorted(map(repr, normal_checks(problem))))


# Stands for texts: a large set has gigabytes of them.
def _digest(texts: Iterable[str]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        digest.update(repr(text).encode("utf-8", "surrogatepass"))
    return digest.digest()


def normal_prompt(prompt: str) -> str:
    """A prompt without what cannot change its task: equal for prompts that ask for the same."""
    text = prompt if prompt.isascii() else "".join(_plain(character) for character in prompt).translate(_QUOTES)
    text = _LINE_MARK.sub("", _FENCE.sub("", text)).replace("`", "")
    text = _AFTER_WORD.sub("", _STRONG.sub(r"\2", text))
    parts, end = [], 0
    for quoted in _QUOTED.finditer(text):
        # Whichever quotes stand around it, the text between them is the same.
        parts += [text[end : quoted.start()].casefold().split(), [f'"{quoted["text"]}"']]
        end = quoted.end()
    parts.append(text[end:].casefold().split())
    return " ".join(word for part in parts for word in part)


# Unicode's usual form of a character (NFKC); a raised or lowered one keeps its place: 2² is not 22.
def _plain(character: str) -> str:
    usual = unicodedata.normalize("NFKC", character)
    kind = unicodedata.decomposition(character).partition(">")[0]
    return {"<super": "^", "<sub": "_"}.get(kind, "") + usual


def normal_checks(problem: Problem) -> frozenset[object]:
    """The checks of a problem without their order and layout; empty where the exit status is the only check."""
    cases = [(case.stdin.rstrip(), case.stdout.rstrip()) for case in problem.cases]
    calls = [(problem.fn, call.arguments, call.expected) for call in problem.calls]
    return frozenset([*map(_normal_test, problem.tests), *cases, *calls])


def _normal_test(test: str) -> str:
    try:
        tree = parse(test.strip())
    except SyntaxError:
        return test.strip()
    for statement in tree.body:
        if isinstance(statement, ast.Assert):
            # What a failure would say checks nothing.
            statement.msg = None
    return ast.dump(tree)
