"""Joins an answer in a language other than Python to the code and the tests of its problem.

An answer may be the body of a function, with or without its closing lines, the whole function, or a whole program with
examples and a `main` of its own. The tests of MultiPL-E begin with the closing lines of that function, and may end with
those of its class. The answer is therefore made a whole program, without definitions that the tests repeat; then an
empty function, or the class that the tests close, is left open for them. In scripts, where the examples of an answer
run, definitions of the tests get another name instead. Nothing else in an answer is changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sandrl.problems import Problem
from sandrl.rewards.definitions import MAX_LENGTH, Definition, Text, read_text
from sandrl.rewards.go_files import go_file
from sandrl.rewards.openings import Opening, asked_name, opening_of
from sandrl.rewards.syntaxes import SYNTAXES, Syntax, masked

_ENDS = re.compile(r"\s*+(?:\}|end\b)")
_PUBLIC_CLASS = re.compile(
    r"^[ \t]*public[ \t]+(?=(?:(?:final|abstract)[ \t]+)*(?:class|interface|enum|record)\b)", re.MULTILINE
)
_EXPORT = re.compile(
    r"^[ \t]*export[ \t]+(?:default[ \t]+)?(?=(?:async[ \t]+)?(?:function|class|const|let|var)\b)"
    r"|^[ \t]*export[ \t]*(?:default\b[^\n]*|\{[^{}]*\}[ \t]*;?)$",
    re.MULTILINE,
)
_DATA = re.compile(r"^__(?:END|DATA)__$(?s:.*)", re.MULTILINE)
_PHP_END = re.compile(r"\?>[^?]*\Z")


def join_to_tests(problem: Problem, code: str) -> str:
    """Joins code in another language than Python to what its problem gives to begin with, and readies it for tests.

    Args:
        problem: The problem.
        code: What was extracted.

    Returns:
        The code that a test can be appended to; as it is, where the problem gives nothing and has no tests.
    """
    syntax = SYNTAXES.get(problem.language)
    if syntax is None or len(code) > MAX_LENGTH:
        return code
    opening, name = opening_of(problem), asked_name(problem)
    code = code.replace("\r\n", "\n")
    text = read_text(code, syntax)
    if name is not None and not defines(text, name) and opening is not None:
        code = _continued(opening, code, syntax)
    elif name is not None and opening is not None:
        code = _with_preamble(opening, name, text)
    if not problem.tests:
        return code
    return _before_tests(problem, code, name, opening, syntax)


def continues(problem: Problem, code: str) -> bool:
    """Whether code is what the problem leaves open: it begins like code, and ends the function, or nothing else."""
    syntax, opening = SYNTAXES.get(problem.language), opening_of(problem)
    first = next((line for line in code.split("\n") if line.strip()), "")
    is_indented = first[:1] in (" ", "\t")
    if (
        syntax is None
        or opening is None
        or len(code) > MAX_LENGTH
        or not (is_indented or syntax.begins.match(first.rstrip()))
    ):
        return False
    return not defines(read_text(code, syntax), opening.name)


def defines(text: Text, name: str) -> bool:
    """Whether a text defines a function, at its top level or in a class."""
    return _holder(text, name) is not None or text.find(name) is not None


def _holder(text: Text, name: str) -> Definition | None:
    """The last class at the top level that has a function of a name."""
    classes = (each for each in reversed(text.definitions) if each.is_class)
    return next((each for each in classes if any(inner.name == name for inner in text.inner(each))), None)


def _continued(opening: Opening, code: str, syntax: Syntax) -> str:
    """The beginning with a body; what follows the function is left out, unless the function uses it."""
    code = re.sub(r"^(?:`{3,}|~{3,})(?s:.*)", "", code, flags=re.MULTILINE)
    text = read_text(opening.beginning + code.strip("\n") + "\n", syntax)
    outer = text.find(opening.container or opening.name)
    if outer is None:
        return text.code
    among = text.inner(outer) if opening.container else text.definitions
    function = next((each for each in among if each.name == opening.name), None)
    if function is None:
        return text.code
    if not function.is_whole:
        return _closed(text)
    after = [each for each in among if each.start >= function.end and each.is_whole]
    kept = text.code[: function.end]
    helpers = [text.code[each.start : each.end].strip("\n") for each in _used(text, function, after)]
    return "\n".join([kept, *helpers, *(["}"] if opening.container else [])]) + "\n"


def _closed(text: Text, left_open: int = 0) -> str:
    """A text with ends for what it leaves open, but for so many braces."""
    if text.syntax.closes == "}":
        ends = max(text.depth - left_open, 0)
    else:
        ends = sum(not each.is_whole for each in text.definitions)
    return text.code.rstrip() + f"\n{text.syntax.closes}" * ends + "\n" if ends else text.code


def _used(text: Text, function: Definition, after: Iterable[Definition]) -> list[Definition]:
    """The definitions after a function that it uses, by itself or through others of them."""
    waiting, used = list(after), []
    known = text.plain[: function.end]
    while found := next((each for each in waiting if re.search(rf"\b{re.escape(each.name)}\b", known)), None):
        waiting.remove(found)
        used.append(found)
        known = text.plain[found.start : found.end] + known
    return sorted(used, key=lambda each: each.start)


def _with_preamble(opening: Opening, name: str, text: Text) -> str:
    """A whole definition with what the problem gives before it and the answer does not repeat."""
    code = text.code
    if opening.container and _holder(text, name) is None:
        # A method alone: its imports go before the class.
        imports = list(text.syntax.imports.finditer(text.plain))
        lines = [code[found.start() : found.end()].strip() for found in imports]
        rest = _without(code, [(found.start(), found.end()) for found in imports])
        code = "\n".join([*lines, opening.header, rest.strip("\n"), "}"]) + "\n"
    if opening.preamble.lstrip().startswith("package "):
        return code  # its imports are joined with those of the answer
    known = {_squeezed(line) for line in text.code.split("\n")}
    given = read_text(opening.preamble, text.syntax)
    spans = [(each.start, each.end) for each in given.definitions if text.find(each.name) is not None]
    lines = [
        line
        for line, plain in zip(
            _without(given.code, spans).split("\n"), _without(_shown(given), spans).split("\n"), strict=True
        )
        if plain.strip() and _squeezed(line) not in known
    ]
    return "\n".join([*lines, code]) if lines else code


def _shown(text: Text) -> str:
    """A text without its comments; lines of a preprocessor, which are hidden from readers of braces, stay."""
    lines = zip(text.code.split("\n"), text.plain.split("\n"), strict=True)
    return "\n".join(
        plain if plain.strip() or not re.match(r"\s*(?:#\s*(?:include|define)|<\?php)", line) else line
        for line, plain in lines
    )


def _squeezed(line: str) -> str:
    return re.sub(r"\s", "", line)


def _without(code: str, spans: Iterable[tuple[int, int]]) -> str:
    kept, last = [], 0
    for start, end in sorted(spans):
        kept.append(code[last:start])
        last = max(end, last)
    return "".join([*kept, code[last:]])


def _before_tests(problem: Problem, code: str, name: str | None, opening: Opening | None, syntax: Syntax) -> str:
    """Code that the tests can follow: without what they define, and with open what they close."""
    closed, left_open, names = _asked_by_tests(problem.tests, syntax)
    whole = code
    if problem.language in ("javascript", "typescript") and any("require(" in test for test in problem.tests):
        code = _EXPORT.sub("", code)
    elif problem.language in ("perl", "ruby"):
        code = _DATA.sub("", code)
    elif problem.language == "php":
        code = _PHP_END.sub("", code)
        code = code if "<?php" in code or "<?=" in code else f"<?php\n{code}"
    elif problem.language == "java":
        code = _PUBLIC_CLASS.sub("", code)
    text = read_text(_closed(read_text(code, syntax), left_open), syntax)
    code = text.code
    classes = [each for each in text.definitions if each.is_class]
    holder = _holder(text, name) if name is not None else classes[-1] if classes else None
    if left_open and holder is not None:
        code = _open_class(text, holder, names, opening)
    elif not syntax.redefines:
        code = _without_names(text, names - {name or ""}, is_go=problem.language == "go")
    if problem.language == "go":
        code = go_file(code, whole, opening.beginning if opening is not None else "", problem.tests, syntax)
    lines = [code.rstrip("\n"), *[syntax.opener] * closed]
    return "\n".join(lines) + "\n" * (closed > 0)


def _asked_by_tests(tests: Iterable[str], syntax: Syntax) -> tuple[int, int, frozenset[str]]:
    """How many functions tests end that they do not begin, how many classes after that, and what they define."""
    closed, left_open, names = 0, 0, set()
    for test in tests:
        plain = masked(test, syntax)
        start, count = 0, 0
        while (found := _ENDS.match(plain, start)) is not None:
            start, count = found.end(), count + 1
        text = read_text(test[start:], syntax)
        names |= {each.name for each in text.definitions}
        closed, left_open = max(closed, count), max(left_open, -text.depth)
    return closed, left_open, frozenset(names)


def _open_class(text: Text, holder: Definition, names: frozenset[str], opening: Opening | None) -> str:
    """The class that has the function, last and without its end, and without what the tests define in it."""
    inner = [each for each in text.inner(holder) if each.name in names]
    own = _without(
        text.code[holder.start : holder.end],
        [(each.start - holder.start, each.end - holder.start) for each in inner],
    )
    if opening is not None and opening.container and holder.name != opening.container:
        own = re.sub(rf"\b{re.escape(holder.name)}\b", opening.container, own)
    own = (
        own.rstrip().removesuffix("}").rstrip() if holder.is_whole else _closed(read_text(own, text.syntax), 1).rstrip()
    )
    others = text.code[: holder.start].rstrip("\n"), text.code[holder.end :].strip("\n")
    return "\n".join([*(each for each in others if each.strip()), own])


def _without_names(text: Text, names: frozenset[str], *, is_go: bool) -> str:
    """Code without the definitions that the tests make themselves; those of a script run, and get other names."""
    found = [each for each in text.definitions if each.name in names or (is_go and _runs_by_itself(text, each))]
    if not text.syntax.is_script:
        return _without(text.code, [(each.start, each.end) for each in found])
    code, plain = text.code, text.plain
    for name in {each.name for each in found}:
        uses = list(re.finditer(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", plain))
        for use in reversed(uses):
            other = f"{name}_of_the_answer"
            code = code[: use.start()] + other + code[use.end() :]
            plain = plain[: use.start()] + other + plain[use.end() :]
    return code


def _runs_by_itself(text: Text, each: Definition) -> bool:
    """Whether a function of Go is a program or a test of the answer's own: only the problem's tests are to run."""
    header = text.plain[each.start : each.inside]
    return re.match(r"\s*func\s+(?:main\(\)|(?:Test|Benchmark|Example|Fuzz)\w*\s*\()", header) is not None
