"""The corpus of honest solutions: one readable file per style.

A file of `tests/honest/corpus` is a list of entries. Its name is the style. It looks like Python, so that editors
colour it, but it is read as text: an entry is a header, then sections. A section reaches to the next marker.

    # === stack-push-returns-self entry_point=Stack
    # --- code
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
- `prelude`: the problem has the standard prelude.

Sections:

- `code`: the solution, as plain Python runs it;
- `completion`: the model's text, where the judge has to find the code in it; without one the judge takes `code`;
- `test`: one check, of any number of lines; `asserts`: a check per line;
- `stdin` and `stdout`: a case each pair; `stdin` may be left out;
- `setup`, `reference`, `prompt`: the problem's own, optional.

A section's text ends before the blank lines that precede the next marker, and with a newline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from sandrl.problems import Case, Completion, Problem, Tolerance
from sandrl.problems.preludes import STANDARD
from sandrl.rewards.extraction import Extraction

FOLDER = Path(__file__).parent / "corpus"
_HEADER = re.compile(r"^# === (\S+)(.*)$")
_SECTION = re.compile(r"^# --- (\w+)$")
_SINGLE = frozenset({"code", "completion", "setup", "reference", "prompt"})
_REPEATED = frozenset({"test", "asserts", "stdin", "stdout"})
_WORDS = frozenset({"entry_point", "tolerance", "extract", "packages"})
_FLAGS = frozenset({"wrong", "prelude"})


class BadEntry(Exception):
    """A file of the corpus breaks its format."""


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
    """An entry while its lines are read."""

    name: str
    words: dict[str, str]
    flags: frozenset[str]
    sections: list[tuple[str, list[str]]] = field(default_factory=list)


def load_entries(folder: Path = FOLDER) -> tuple[Entry, ...]:
    """Reads the corpus.

    Raises:
        BadEntry: If a file breaks the format, or two entries have one name.
    """
    entries: dict[str, Entry] = {}
    for path in sorted(folder.glob("*.py")):
        for entry in read_entries(path):
            if entry.id in entries:
                raise BadEntry(f"{path}: there are two entries {entry.id}")
            entries[entry.id] = entry
    return tuple(entries.values())


def read_entries(path: Path) -> list[Entry]:
    """Reads one file of the corpus."""
    drafts: list[_Draft] = []
    # Not `splitlines`: form feeds and Unicode line separators may be part of a solution.
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if header := _HEADER.match(line):
            drafts.append(_begin(header, f"{path.name}:{number}"))
        elif not drafts:
            if line.strip() and not line.startswith("#"):
                raise BadEntry(f"{path.name}:{number}: a line before the first entry")
        elif section := _SECTION.match(line):
            if section[1] not in _SINGLE | _REPEATED:
                raise BadEntry(f"{path.name}:{number}: no section is called {section[1]}")
            drafts[-1].sections.append((section[1], []))
        elif drafts[-1].sections:
            drafts[-1].sections[-1][1].append(line)
        elif line.strip():
            raise BadEntry(f"{path.name}:{number}: a line before the first section")
    return [_finish(draft, path) for draft in drafts]


def _begin(header: re.Match[str], place: str) -> _Draft:
    pairs = [word.partition("=") for word in header[2].split()]
    words = {name: value for name, mark, value in pairs if mark}
    flags = frozenset(name for name, mark, _ in pairs if not mark)
    if not words.keys() <= _WORDS or not flags <= _FLAGS:
        raise BadEntry(f"{place}: unknown words in {header[0]!r}")
    return _Draft(header[1], words, flags)


def _finish(draft: _Draft, path: Path) -> Entry:
    identifier = f"{path.stem}/{draft.name}"
    texts: dict[str, str] = {}
    tests: list[str] = []
    cases: list[Case] = []
    stdin = ""
    for name, lines in draft.sections:
        body = "\n".join(lines)
        text = (
            re.sub(r"\A(?:[ \t]*\n)+", "", body).rstrip() + "\n" if name != "completion" else body.rstrip("\n") + "\n"
        )
        if name in _SINGLE:
            if name in texts:
                raise BadEntry(f"{identifier}: two sections {name}")
            texts[name] = text
        elif name == "test":
            tests.append(text)
        elif name == "asserts":
            tests.extend(line for line in text.split("\n") if line.strip())
        elif name == "stdin":
            stdin = text
        else:
            cases.append(Case(stdin, text))
            stdin = ""
    if "code" not in texts or bool(tests) == bool(cases):
        raise BadEntry(f"{identifier}: an entry has code, and either tests or cases")
    tolerance = draft.words.get("tolerance")
    problem = Problem(
        task_id=identifier,
        prompt=texts.get("prompt", ""),
        tests=tuple(tests),
        cases=tuple(cases),
        tolerance=None if tolerance is None else Tolerance(absolute=float(tolerance)),
        setup=texts.get("setup", ""),
        prelude=STANDARD if "prelude" in draft.flags else "",
        entry_point=draft.words.get("entry_point"),
        reference=texts.get("reference"),
        packages=tuple(draft.words["packages"].split(",")) if "packages" in draft.words else (),
    )
    return Entry(
        id=identifier,
        style=path.stem,
        code=texts["code"],
        problem=problem,
        text=texts.get("completion"),
        extraction=Extraction(draft.words.get("extract", "auto")),
        is_wrong="wrong" in draft.flags,
    )
