"""Determines how the guest builds and runs a program in a language other than Python.

The host decides from the source alone which form a program has and, in Java, which type contains `main`, as a reader
would. An answer may therefore use any names and any order, and the guest receives file names and commands.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from sandrl.problems import Problem
from sandrl.problems.languages import SOURCE, TYPE, Form, Language, language_named

# In all languages of the table whose comments can be left out; a text may hold what looks like a comment. One that does
# not end is matched, too: otherwise a source of many quotes would be read to its end from each of them.
_TEXTS_AND_COMMENTS = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)|"(?:\\.|[^"\\\n])*"?|`(?:\\.|[^`\\])*`?|\'(?:\\.|[^\'\\\n])*\'?'
    r"|//[^\n]*|/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
_TYPE_OR_BRACE = re.compile(r"[{}]|\b(class|interface|enum|record)\s+([\w$]+)|\bpublic\b|\bvoid\s+main\s*\(|;")
_PACKAGE = re.compile(r"^[ \t]*package[ \t]+([\w.]+)\s*;", re.MULTILINE)
_USUAL_TYPE = "Main"
SEARCHED = "/usr/bin:/bin"
"""Where tools are looked for first, also in sandboxes; locally these are the machine's."""
# Of a name that a file can have.
_MOST_BYTES = 200


@dataclass(frozen=True, slots=True)
class Build:
    """How one program is built and run.

    Attributes:
        type_name: In Java, the type that `main` is in, with its package.
        file_name: The file that it is written to.
    """

    language: Language
    form: Form
    source: str
    type_name: str = ""
    file_name: str = ""

    @property
    def plan(self) -> dict[str, Any]:
        """What the guest needs, as plain values."""
        places = {SOURCE: self.file_name, TYPE: self.type_name}

        def filled(command: tuple[str, ...]) -> list[str]:
            return [places.get(word, word) for word in command]

        return {
            "file": self.file_name,
            "source": self.source,
            "compile": filled(self.form.compile),
            "run": filled(self.form.run),
            "environment": dict(self.language.environment),
            "has_large_stack": self.language.has_large_stack,
        }


def language_of(problem: Problem) -> Language:
    """The language of a problem's completions."""
    return language_named(problem.language)


@cache
def tools_of(language: Language) -> tuple[str, ...]:
    """Which tools of a language this machine has in `/usr`: their files, sizes and times, which an update changes."""
    commands = {command[0] for form in language.forms for command in (form.compile, form.run) if command}
    found = []
    for name in sorted({*commands, language.version[0]}):
        path = shutil.which(name, path=SEARCHED)
        if path is not None:
            status = os.stat(path)
            found.append(f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}")
    return tuple(found)


def has_tools(language: Language) -> bool:
    """Whether this machine has the command without which nothing in a language works."""
    return shutil.which(language.command, path=SEARCHED) is not None


def build_of(language: Language, source: str) -> Build:
    """How a program is built and run."""
    code = _without_comments(source) if language.comment else source
    form = next(form for form in language.forms if form.suits(code))
    if TYPE not in form.source:
        return Build(language, form, source, file_name=form.source)
    file_type, main_type = _java_types(code)
    package = _PACKAGE.search(code)
    prefix = f"{package.group(1)}." if package is not None else ""
    return Build(language, form, source, prefix + main_type, form.source.replace(TYPE, file_type))


def builds_of(problem: Problem, code: str) -> list[Build]:
    """The programs that judge an answer: one, or one for each test, which stands after the code."""
    language = language_of(problem)
    texts = [_joined(problem.setup, code, test) for test in problem.tests or ("",)]
    return [build_of(language, text) for text in texts]


def example_of(form: Form, language: Language) -> Build:
    """The program that works wherever programs in a form do."""
    return Build(language, form, form.example, _USUAL_TYPE, form.source.replace(TYPE, _USUAL_TYPE))


def _joined(*texts: str) -> str:
    return "".join(text if text.endswith("\n") else text + "\n" for text in texts if text)


def _without_comments(source: str) -> str:

    def blank(found: re.Match[str]) -> str:
        text = found.group()
        return '""' if text[0] in "\"'`" else "\n" * text.count("\n") or " "

    return _TEXTS_AND_COMMENTS.sub(blank, source)


@dataclass(slots=True)
class _Type:
    name: str
    is_public: bool
    has_main: bool = False


def _java_types(code: str) -> tuple[str, str]:
    # The type that gives a source file its name, and the one that `main` is in. The compiler demands that a public type
    # has the name of its file; without one any name will do.
    types = list(_top_types(code))
    public = next((found.name for found in types if found.is_public and len(found.name.encode()) < _MOST_BYTES), None)
    main = next((found.name for found in types if found.has_main), None)
    main = main or public or (types[0].name if types else _USUAL_TYPE)
    return public or _USUAL_TYPE, main


def _top_types(code: str) -> Iterator[_Type]:
    depth, is_public = 0, False
    latest: _Type | None = None
    for found in _TYPE_OR_BRACE.finditer(code):
        word = found.group()
        if word == "{":
            depth += 1
        elif word == "}":
            depth, is_public = max(depth - 1, 0), False
        elif word == ";":
            is_public = False
        elif word == "public":
            is_public = True
        elif found.group(2) and not depth:
            if latest is not None:
                yield latest
            latest, is_public = _Type(found.group(2), is_public), False
        elif word.startswith("void") and depth == 1 and latest is not None:
            latest.has_main = True
    if latest is not None:
        yield latest
