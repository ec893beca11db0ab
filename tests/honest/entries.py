"""The corpus of honest solutions: one readable file per style.

A file of `tests/honest/corpus` is a list of entries. Its name is the style. It looks like Python, so that editors
colour it, but it is read as text: an entry is a header, then sections. A section reaches to the next marker; what
follows a header without one is `code`.

    # === stack-push-returns-self entry_point=Stack
    class Stack(list):
        ...
    # --- test
    s = Stack()
    assert s.push(1) is s
    # --- asserts
    assert Stack([1]) == [1]
    assert len(Stack()) == 0

Words after the name:

- `entry_point=NAME`: the problem's entry point;
- `wrong`: a wrong solution, which plain Python fails and the judge must fail;
- `tolerance=NUMBER`: the absolute tolerance of the cases;
- `extract=WORD`: how the code is found in the completion (`auto`);
- `packages=NAME,NAME`: packages that it needs (`make test-integrations` has them);
- `prelude`: the problem has the standard prelude;
- `problem`: no entry, but words and sections that entries share, of this file or, if it is in `problems.py`, of all;
- `of=NAME,NAME`: an entry for each of these problems, with the words and sections that the entry does not have itself.
  With several, the name of an entry ends with its problem's.

Sections:

- `code`: the solution, as plain Python runs it;
- `wrong`: a wrong solution with the same checks, an entry `NAME-wrong`;
- `completion`: the model's text, where the judge has to find the code in it; without one the judge takes `code`;
- `test`: one check, of any number of lines; `asserts`: a check per line;
- `stdin` and `stdout`: a case each pair; `stdin` may be left out;
- `setup`, `reference`, `prompt`: the problem's own, optional;
- in a `problem`, any other name: a text for completions.

In a completion, `{{SECTION}}` is the first text of that section, `{{answer}}` that of `body`, or of `code` without one,
and `{{name}}` the entry point, or `main`. Indentation and marks of a quotation that precede it in its line precede each
of its lines.

A section's text ends before the blank lines that precede the next marker, and with a newline.

A mistake never drops an entry or a check: every problem has a name of its own and an entry that uses it, every text
for completions is in a completion, `stdout` follows `stdin`, and a line that begins like a marker is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from sandrl.answers.extraction import Extraction
from sandrl.problems import Case, Completion, Problem, Tolerance
from sandrl.problems.preludes import STANDARD

FOLDER = Path(__file__).parent / "corpus"
_SHARED = "problems.py"
_HEADER = re.compile(r"^# === (\S+)(.*)$")
_SECTION = re.compile(r"^# --- (\w+)$")
_MARKER = re.compile(r"^\s?#\s?(===|---)")
_PLACE = re.compile(r"(^[ \t>#]*)?\{\{(\w+)\}\}", re.MULTILINE)
_SINGLE = frozenset({"code", "wrong", "completion", "setup", "reference", "prompt"})
_CHECKS = frozenset({"test", "asserts", "stdin", "stdout"})
_WORDS = frozenset({"entry_point", "tolerance", "extract", "packages", "of"})
_FLAGS = frozenset({"wrong", "prelude", "problem"})


class BadEntry(Exception):
    """A file of the corpus breaks its format. The message begins with the file and the line."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One solution with the checks of its problem.

    Attributes:
        id: Unique in the corpus: style and name.
        style: The file it is in.
        code: What plain Python runs.
        problem: What is asked.
        text: The model's text; None where the judge is given the code itself.
        extraction: Where in the text the code is.
        is_wrong: Whether plain Python must fail it.
    """

    id: str
    style: str
    code: str
    problem: Problem
    text: str | None
    extraction: Extraction
    is_wrong: bool

    @property
    def completion(self) -> Completion:
        """What the judge is given."""
        code = self.code if self.text is None else None
        return Completion(id=self.id, task_id=self.id, completion=self.text, code=code)


@dataclass(slots=True)
class _Draft:
    name: str
    place: str
    words: Mapping[str, str]
    flags: frozenset[str]
    # Name, place and lines of each section.
    lines: list[tuple[str, str, list[str]]] = field(default_factory=list)
    # Of a problem: the sections that entries use.
    used: set[str] = field(default_factory=set)

    @property
    def is_problem(self) -> bool:
        return "problem" in self.flags

    @property
    def sections(self) -> list[tuple[str, str]]:
        return [(name, _text(name, "\n".join(lines))) for name, _, lines in self.lines]


def load_entries(folder: Path = FOLDER) -> tuple[Entry, ...]:
    """Reads the corpus.

    Raises:
        BadEntry: If a file breaks the format, or two entries have one name.
    """
    files = {path: _read(path) for path in sorted(folder.glob("*.py"))}
    shared = _problems(files.get(folder / _SHARED, []), {})
    entries: dict[str, Entry] = {}
    for path, drafts in files.items():
        problems = shared if path.name == _SHARED else _problems(drafts, shared)
        for draft in drafts:
            for entry in () if draft.is_problem else _finish(draft, problems, path.stem):
                if entry.id in entries:
                    raise BadEntry(f"{draft.place}: there are two entries {entry.id}")
                entries[entry.id] = entry
    _check_use([draft for drafts in files.values() for draft in drafts if draft.is_problem])
    return tuple(entries.values())


def _problems(drafts: Sequence[_Draft], known: Mapping[str, _Draft]) -> dict[str, _Draft]:
    problems = dict(known)
    for draft in drafts:
        if draft.is_problem and problems.setdefault(draft.name, draft) is not draft:
            raise BadEntry(f"{draft.place}: there are two problems {draft.name}")
    return problems


def _check_use(problems: Sequence[_Draft]) -> None:
    for problem in problems:
        if not problem.used:
            raise BadEntry(f"{problem.place}: no entry uses {problem.name}")
        for name, place, _ in problem.lines:
            if name not in problem.used:
                raise BadEntry(f"{place}: no completion uses {name}")


def _read(path: Path) -> list[_Draft]:
    drafts: list[_Draft] = []
    # Not `splitlines`: form feeds and Unicode line separators may be part of a solution.
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        place = f"{path.name}:{number}"
        if header := _HEADER.match(line):
            drafts.append(_begin(header, place))
        elif drafts and (section := _SECTION.match(line)):
            if not drafts[-1].is_problem and section[1] not in _SINGLE | _CHECKS:
                raise BadEntry(f"{place}: no section is called {section[1]}")
            drafts[-1].lines.append((section[1], place, []))
        elif _MARKER.match(line):
            raise BadEntry(f"{place}: {line!r} begins like a marker and is none")
        elif not drafts:
            if line.strip() and not line.startswith("#"):
                raise BadEntry(f"{place}: a line before the first entry")
        elif drafts[-1].lines:
            drafts[-1].lines[-1][2].append(line)
        elif line.strip():
            drafts[-1].lines.append(("code", place, [line]))
    for draft in drafts:
        for (name, place, _), (following, _, _) in pairwise([*draft.lines, ("", "", [])]):
            if name == "stdin" and following != "stdout":
                raise BadEntry(f"{place}: no stdout follows stdin")
    return drafts


def _begin(header: re.Match[str], place: str) -> _Draft:
    pairs = [word.partition("=") for word in header[2].split()]
    words = {name: value for name, mark, value in pairs if mark}
    flags = frozenset(name for name, mark, _ in pairs if not mark)
    if not words.keys() <= _WORDS or not flags <= _FLAGS:
        raise BadEntry(f"{place}: unknown words in {header[0]!r}")
    if len(words) + len(flags) < len(pairs):
        raise BadEntry(f"{place}: a word is repeated in {header[0]!r}")
    if "problem" in flags and "of" in words:
        raise BadEntry(f"{place}: a problem is not of another problem")
    return _Draft(header[1], place, words, flags)


def _text(section: str, body: str) -> str:
    if section == "completion":
        return body.rstrip("\n") + "\n"
    return re.sub(r"\A(?:[ \t]*\n)+", "", body).rstrip() + "\n"


def _finish(draft: _Draft, problems: Mapping[str, _Draft], style: str) -> Iterator[Entry]:
    identifier = f"{style}/{draft.name}"
    names = draft.words["of"].split(",") if "of" in draft.words else []
    if not problems.keys() >= set(names):
        raise BadEntry(f"{draft.place}: no such problem among {', '.join(names)}")
    nothing = _Draft("", "", {}, frozenset())
    for problem in [problems[name] for name in names] or [nothing]:
        suffix = f"-{problem.name}" if len(names) > 1 else ""
        entry, wrong = _make(f"{identifier}{suffix}", draft, problem, style)
        yield entry
        if wrong is not None:
            name = f"{entry.id}-wrong"
            yield replace(entry, id=name, code=wrong, is_wrong=True, problem=replace(entry.problem, task_id=name))


def _make(identifier: str, draft: _Draft, base: _Draft, style: str) -> tuple[Entry, str | None]:
    words = {**base.words, **draft.words}
    flags = base.flags | draft.flags
    own = {name for name, _ in draft.sections}
    hidden = own | (_CHECKS if own & _CHECKS else frozenset())
    sections = [*draft.sections, *((name, text) for name, text in base.sections if name not in hidden)]
    texts = _texts(sections, draft.place)
    tests, cases = _checks(sections)
    if "code" not in texts or bool(tests) == bool(cases):
        raise BadEntry(f"{draft.place}: an entry has code, and either tests or cases")
    tolerance = words.get("tolerance")
    problem = Problem(
        task_id=identifier,
        prompt=texts.get("prompt", ""),
        tests=tests,
        cases=cases,
        tolerance=None if tolerance is None else Tolerance(absolute=float(tolerance)),
        setup=texts.get("setup", ""),
        prelude=STANDARD if "prelude" in flags else "",
        entry_point=words.get("entry_point"),
        reference=texts.get("reference"),
        packages=tuple(words["packages"].split(",")) if "packages" in words else (),
    )
    entry = Entry(
        id=identifier,
        style=style,
        code=texts["code"],
        problem=problem,
        text=texts.get("completion"),
        extraction=Extraction(words.get("extract", "auto")),
        is_wrong="wrong" in flags,
    )
    base.used |= _SINGLE | _CHECKS
    if entry.text is not None:
        places = {"name": problem.entry_point or "main", **dict(reversed(sections))}
        places["answer"] = places.get("body", entry.code)
        base.used |= {"body" if name == "answer" else name for _, name in _PLACE.findall(entry.text)}
        entry = replace(entry, text=_fill(entry.text, places, draft.place))
    return entry, texts.get("wrong")


def _texts(sections: Sequence[tuple[str, str]], place: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, text in sections:
        if name in texts:
            raise BadEntry(f"{place}: two sections {name}")
        if name not in _CHECKS:
            texts[name] = text
    return texts


def _checks(sections: Sequence[tuple[str, str]]) -> tuple[tuple[str, ...], tuple[Case, ...]]:
    tests: list[str] = []
    cases: list[Case] = []
    stdin = ""
    for name, text in sections:
        if name == "test":
            tests.append(text)
        elif name == "asserts":
            tests += [line for line in text.split("\n") if line.strip()]
        elif name == "stdin":
            stdin = text
        elif name == "stdout":
            cases.append(Case(stdin, text))
            stdin = ""
    return tuple(tests), tuple(cases)


def _fill(layout: str, texts: Mapping[str, str], place: str) -> str:
    def text_of(found: re.Match[str]) -> str:
        prefix, name = found[1] or "", found[2]
        if name not in texts:
            raise BadEntry(f"{place}: there is no text {name}")
        lines = texts[name].rstrip("\n").split("\n")
        return "\n".join(prefix + line if line else prefix.rstrip() for line in lines)

    return _PLACE.sub(text_of, layout)
