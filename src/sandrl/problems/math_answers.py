"""Mathematical answers: a problem whose `answer` is compared with the last answer in the text of a completion.

The comparison is that of math-verify, in a sandbox: it evaluates what a model wrote, and a text may ask for numbers
that no machine holds. So the text is the output of a program, and math-verify is the problem's checker, which has a
time limit, a memory limit and no part in the sandbox's reports. The right answer is judged once before any completion:
if math-verify is missing, or cannot read it, no completion has a reward.
"""

from __future__ import annotations

import re

MATH_VERIFY = "math-verify[antlr4_13_2]==0.9.0"
"""What sandboxes need; another version may give other verdicts."""

MATH_CHECKER = r"""
import logging
import resource

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

BYTES, SECONDS = 1 << 30, 3
KINDS = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]


def check(input, expected, output):
    logging.disable(logging.CRITICAL)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES if most == resource.RLIM_INFINITY else min(BYTES, most), most))
    gold = parse(expected if "\\boxed" in expected else "\\boxed{" + expected + "}", KINDS, parsing_timeout=SECONDS)
    if not gold:
        raise ValueError("math-verify cannot read the problem's answer " + repr(expected[:80]))
    return verify(gold, parse(output, KINDS, parsing_timeout=SECONDS), timeout_seconds=SECONDS)
"""
"""What decides, with the answer of `stated` as output: a number that takes longer to evaluate is not the right one."""

MATH_INSTRUCTION = "Solve the problem step by step, and end with the final answer within \\boxed{}."
"""The system message: the form of an answer that is mathematics."""


_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BETWEEN = re.compile(r"(?:[\s$.,;&{}()\\]|\b(?:and|or|text|quad)\b)*")
_LONGEST_BETWEEN = 40
_LONGEST_END = 2000


def stated(text: str) -> str:
    r"""What a text gives as its answer, which is all that is compared, so identical answers are judged once.

    It is the last `\boxed{}` with those right beside it: of two answers, neither is taken for the only one. A text
    without any is its end, of at most 2,000 characters, in which math-verify takes the last answer or number.
    """
    found = _boxes(text)
    if not found:
        return text[-_LONGEST_END:]
    first, end = found[-1]
    for begin, before in reversed(found[:-1]):
        if first - before > _LONGEST_BETWEEN or not _BETWEEN.fullmatch(text[before:first]):
            break
        first = begin
    return _BOX.sub(r"\\boxed{", text[first:end])


def _boxes(text: str) -> list[tuple[int, int]]:
    # Where the outermost boxes begin and end; one that is not closed is none, and neither is what follows it.
    found: list[tuple[int, int]] = []
    end = 0
    for opening in _BOX.finditer(text):
        if opening.start() < end:
            continue
        depth, end = 1, opening.end()
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if depth:
            break
        found.append((opening.start(), end))
    return found


def program_of(text: str) -> str:
    """The program in Python whose output is a text: what is judged of a completion without code."""
    return f"import sys\nsys.stdout.buffer.write({text.encode('utf-8', 'replace')!r})\n"


def boxed(answer: str) -> str:
    """An answer as a completion gives it."""
    return answer if "\\boxed" in answer else f"\\boxed{{{answer}}}"
