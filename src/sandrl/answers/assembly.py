"""Joins an answer in a language other than Python to the code and the tests of its problem.

An answer may be the body of a function, with or without its closing lines, the whole function, or a whole program with
examples and a `main` of its own. The tests of MultiPL-E begin with the closing lines of that function, and may end with
those of its class. The answer is therefore made a whole program, without definitions that the tests repeat; then an
empty function, or the class that the tests close, is left open for them. In scripts, where the examples of an answer
run, definitions of the tests get another name instead. Nothing else in an answer is changed, but for the imports of Go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sandrl.answers.definitions import MAX_LENGTH, Definition, Text, read_text, without
from sandrl.answers.requirements import Starter, required_function, starter_of
from sandrl.answers.syntaxes import SYNTAXES, Syntax, masked
from sandrl.problems import Problem

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
_FENCED = re.compile(r"^(?:`{3,}|~{3,})(?s:.*)", re.MULTILINE)
_GO_PACKAGE = re.compile(r"^[ \t]*package[ \t]+(\w+)[ \t]*;?", re.MULTILINE)
_GO_IMPORT = re.compile(r'^[ \t]*(?:([\w.]+)[ \t]+)?"([^"\n]+)"', re.MULTILINE)
# A program or a test of the answer's own: only the problem's tests are to run.
_GO_RUNS = re.compile(r"\s*func\s+(?:main\(\)|(?:Test|Benchmark|Example|Fuzz)\w*\s*\()")


def join_to_tests(problem: Problem, code: str) -> str:
    """Joins code in another language than Python to what its problem gives, so that a test can be appended to it."""
    syntax = SYNTAXES.get(problem.language)
    if syntax is None or len(code) > MAX_LENGTH:
        return code
    starter, name = starter_of(problem), required_function(problem)
    code = code.replace("\r\n", "\n")
    text = read_text(code, syntax)
    if name is not None and starter is not None:
        code = _with_preamble(starter, name, text) if _defines(text, name) else _continued(starter, code, syntax)
    return _before_tests(problem, code, name, starter, syntax) if problem.tests else code


def continues(problem: Problem, code: str) -> bool:
    """Whether code is what the problem leaves open: it begins like code, and ends the function, or nothing else."""
    syntax, starter = SYNTAXES.get(problem.language), starter_of(problem)
    if syntax is None or starter is None or len(code) > MAX_LENGTH:
        return False
    first = next((line for line in code.split("\n") if line.strip()), "")
    if first[:1] not in (" ", "\t") and syntax.begins.match(first.rstrip()) is None:
        return False
    return not _defines(read_text(code, syntax), starter.method or starter.name)


def _defines(text: Text, name: str) -> bool:
    return _holder(text, name) is not None or text.find(name) is not None


def _holder(text: Text, name: str) -> Definition | None:
    # The last class at the top level that has a function of the name.
    classes = (each for each in reversed(text.definitions) if each.is_class)
    return next((each for each in classes if any(inner.name == name for inner in text.inner(each))), None)


def _continued(starter: Starter, code: str, syntax: Syntax) -> str:
    # What follows the function is left out, unless the function uses it.
    text = read_text((starter.beginning or "") + _FENCED.sub("", code).strip("\n") + "\n", syntax)
    outer = text.find(starter.name)
    if outer is None:
        return text.code
    among = text.inner(outer) if starter.method else text.definitions
    function = next((each for each in among if each.name == (starter.method or starter.name)), None)
    if function is None:
        return text.code
    if not function.is_whole:
        return _closed(text)
    after = [each for each in among if each.start >= function.end and each.is_whole]
    helpers = [text.code[each.start : each.end].strip("\n") for each in _used(text, function, after)]
    return "\n".join([text.code[: function.end], *helpers, *(["}"] if starter.method else [])]) + "\n"


def _closed(text: Text, left_open: int = 0) -> str:
    if text.syntax.closes == "}":
        ends = max(text.depth - left_open, 0)
    else:
        ends = sum(not each.is_whole for each in text.definitions)
    return text.code.rstrip() + f"\n{text.syntax.closes}" * ends + "\n" if ends else text.code


def _used(text: Text, function: Definition, after: Iterable[Definition]) -> list[Definition]:
    # By the function itself, or through others of them.
    waiting, used = list(after), []
    known = text.plain[: function.end]
    while found := next((each for each in waiting if re.search(rf"\b{re.escape(each.name)}\b", known)), None):
        waiting.remove(found)
        used.append(found)
        known = text.plain[found.start : found.end] + known
    return sorted(used, key=lambda each: each.start)


def _with_preamble(starter: Starter, name: str, text: Text) -> str:
    # What the problem gives before the definition, and the answer does not repeat.
    code = text.code
    if starter.method and _holder(text, name) is None:
        # A method alone: its imports go before the class.
        spans = [found.span() for found in text.syntax.imports.finditer(text.plain)]
        lines = [code[start:end].strip() for start, end in spans]
        code = "\n".join([*lines, starter.header, without(code, spans).strip("\n"), "}"]) + "\n"
    if starter.preamble.lstrip().startswith("package "):
        return code  # its imports are joined with those of the answer
    known = {_squeezed(line) for line in text.code.split("\n")}
    given = read_text(starter.preamble, text.syntax)
    spans = [(each.start, each.end) for each in given.definitions if text.find(each.name) is not None]
    pairs = zip(without(given.code, spans).split("\n"), without(_shown(given), spans).split("\n"), strict=True)
    lines = [line for line, plain in pairs if plain.strip() and _squeezed(line) not in known]
    return "\n".join([*lines, code]) if lines else code


def _shown(text: Text) -> str:
    # Lines of a preprocessor, which are hidden from readers of braces, stay.
    lines = zip(text.code.split("\n"), text.plain.split("\n"), strict=True)
    return "\n".join(
        plain if plain.strip() or not re.match(r"\s*(?:#\s*(?:include|define)|<\?php)", line) else line
        for line, plain in lines
    )


def _squeezed(line: str) -> str:
    return re.sub(r"\s", "", line)


def _before_tests(problem: Problem, code: str, name: str | None, starter: Starter | None, syntax: Syntax) -> str:
    closed, left_open, names = _read_tests(problem.tests, syntax)
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
        code = _open_class(text, holder, names, starter)
    elif not syntax.redefines:
        code = _without_names(text, names - {name or ""}, is_go=problem.language == "go")
    if problem.language == "go":
        given = starter.beginning or "" if starter is not None else ""
        code = _go_file(code, whole, given, problem.tests, syntax)
    lines = [code.rstrip("\n"), *[syntax.opener] * closed]
    return "\n".join(lines) + "\n" * (closed > 0)


def _read_tests(tests: Iterable[str], syntax: Syntax) -> tuple[int, int, frozenset[str]]:
    # How many functions tests end that they do not begin, how many classes after that, and what they define.
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


def _open_class(text: Text, holder: Definition, names: frozenset[str], starter: Starter | None) -> str:
    # Last and without its end, and without what the tests define in it.
    inner = [each for each in text.inner(holder) if each.name in names]
    own = without(
        text.code[holder.start : holder.end],
        [(each.start - holder.start, each.end - holder.start) for each in inner],
    )
    if starter is not None and starter.method and holder.name != starter.name:
        own = re.sub(rf"\b{re.escape(holder.name)}\b", starter.name, own)
    own = own.rstrip().removesuffix("}") if holder.is_whole else _closed(read_text(own, text.syntax), 1)
    others = text.code[: holder.start].rstrip("\n"), text.code[holder.end :].strip("\n")
    return "\n".join([*(each for each in others if each.strip()), own.rstrip()])


def _without_names(text: Text, names: frozenset[str], *, is_go: bool) -> str:
    # Definitions of a script run: they get other names.
    found = [each for each in text.definitions if each.name in names or (is_go and _GO_RUNS.match(text.header(each)))]
    if not text.syntax.is_script:
        return without(text.code, [(each.start, each.end) for each in found])
    code, plain = text.code, text.plain
    for name in {each.name for each in found}:
        uses = list(re.finditer(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", plain))
        for use in reversed(uses):
            other = f"{name}_of_the_answer"
            code = code[: use.start()] + other + code[use.end() :]
            plain = plain[: use.start()] + other + plain[use.end() :]
    return code


def _go_file(code: str, whole: str, given: str, tests: Iterable[str], syntax: Syntax) -> str:
    # Go rejects an unused import. One that only removed code used goes with that code, and one of the problem goes if
    # nothing uses it. One that the answer's own code (`whole`) never used stays, and fails.
    package = next((found[1] for text in (given, code) if (found := _GO_PACKAGE.search(masked(text, syntax)))), "main")
    body, own = _go_parts(code, syntax)
    _, imports = _go_parts(given, syntax)
    before = masked(_go_parts(whole, syntax)[0], syntax)
    after = masked("\n".join([body, *tests]), syntax)
    kept = [each for each in dict.fromkeys(own) if _go_uses(after, each) or not _go_uses(before, each)]
    paths = {path for _, path in kept}
    kept += [each for each in dict.fromkeys(imports) if each[1] not in paths and _go_uses(after, each)]
    # The problem's imports may be in the code already, where it continues the problem's beginning.
    kept = [each for each in kept if each not in imports or _go_uses(after, each)]
    lines = [f'import {alias + " " if alias else ""}"{path}"' for alias, path in kept]
    return "\n".join([f"package {package}", *lines, body.strip("\n")])


def _go_parts(code: str, syntax: Syntax) -> tuple[str, list[tuple[str, str]]]:
    # Code without its package and imports, and the imports: their other name, if any, and their path.
    plain = masked(code, syntax)
    spans = [found.span() for found in _GO_PACKAGE.finditer(plain)][:1]
    imports: list[tuple[str, str]] = []
    for found in syntax.imports.finditer(plain):
        inside = re.sub(r"^[ \t]*import[ \t]*\(?", "", code[found.start() : found.end()])
        imports += [(each[1] or "", each[2]) for each in _GO_IMPORT.finditer(inside)]
        spans.append(found.span())
    return without(code, spans), imports


def _go_uses(plain: str, imported: tuple[str, str]) -> bool:
    alias, path = imported
    parts = [part for part in path.split("/") if not re.fullmatch(r"v\d+", part)]
    name = alias or parts[-1]
    return name in ("_", ".") or re.search(rf"\b{re.escape(name)}\.", plain) is not None
