"""Assembles a Go file from an answer: its package, and its imports joined with the imports that the problem gives.

Go rejects an unused import. An import that only removed code used is therefore removed with that code, and an import
of the problem is removed if no code uses it. An import that the answer's own code never used stays, and fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sandrl.rewards.syntaxes import Syntax, masked

_PACKAGE = re.compile(r"^[ \t]*package[ \t]+(\w+)[ \t]*;?", re.MULTILINE)
_SPEC = re.compile(r'^[ \t]*(?:([\w.]+)[ \t]+)?"([^"\n]+)"', re.MULTILINE)


def go_file(code: str, whole: str, given: str, tests: Iterable[str], syntax: Syntax) -> str:
    """A file that tests can follow.

    Args:
        code: The code, perhaps without parts of the answer.
        whole: The answer, or the code that it was joined to.
        given: The code that the problem gives to begin with.
        tests: The tests.
        syntax: That of Go.
    """
    package = _package(given, syntax) or _package(code, syntax) or "main"
    body, specs = _parts(code, syntax)
    _, given_specs = _parts(given, syntax)
    before = masked(_parts(whole, syntax)[0], syntax)
    after = masked("\n".join([body, *tests]), syntax)
    own = dict.fromkeys(specs)
    kept = [spec for spec in own if _uses(after, spec) or not _uses(before, spec)]
    paths = {spec[1] for spec in kept}
    kept += [spec for spec in dict.fromkeys(given_specs) if spec[1] not in paths and _uses(after, spec)]
    # The problem's imports may be in the code already, where it continues the problem's beginning.
    kept = [spec for spec in kept if spec not in given_specs or _uses(after, spec)]
    lines = [f'import {alias + " " if alias else ""}"{path}"' for alias, path in kept]
    return "\n".join([f"package {package}", *lines, body.strip("\n")])


def _package(code: str, syntax: Syntax) -> str:
    found = _PACKAGE.search(masked(code, syntax))
    return "" if found is None else found[1]


def _parts(code: str, syntax: Syntax) -> tuple[str, list[tuple[str, str]]]:
    """Code without its package and imports, and the imports: their other name, if any, and their path."""
    plain = masked(code, syntax)
    spans = [found.span() for found in _PACKAGE.finditer(plain)][:1]
    specs: list[tuple[str, str]] = []
    for found in syntax.imports.finditer(plain):
        inside = re.sub(r"^[ \t]*import[ \t]*\(?", "", code[found.start() : found.end()])
        specs += [(each[1] or "", each[2]) for each in _SPEC.finditer(inside)]
        spans.append(found.span())
    kept, last = [], 0
    for start, end in sorted(spans):
        kept.append(code[last:start])
        last = end
    return "".join([*kept, code[last:]]), specs


def _uses(plain: str, spec: tuple[str, str]) -> bool:
    alias, path = spec
    parts = [part for part in path.split("/") if not re.fullmatch(r"v\d+", part)]
    name = alias or parts[-1]
    return name in ("_", ".") or re.search(rf"\b{re.escape(name)}\.", plain) is not None
