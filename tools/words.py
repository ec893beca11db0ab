"""Finds words in texts for users that have a plainer alternative (`tools/words.toml` lists them).

It reads the prose of the Markdown pages, including those generated from the help of all commands. In the source, the
tools and the benchmarks it reads the texts that reach a user: messages, hints and help, docstrings of modules and of
the public API.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_name("words.toml")
SOURCE = ROOT / "src"
# Programs for developers: their module docstrings are their help, and they print texts.
PROGRAMS = (ROOT / "tools", ROOT / "benchmarks")
# Programs that run in sandboxes, as data: their words are those of an attacker or of a model.
NOT_TEXTS = ("sandrl/redteam/corpus/",)
# Texts in these files are prompts, which a model reads: other words would train another policy.
PROMPTS = ("sandrl/rollouts/feedback.py",)
# Files in which every docstring is documentation: `docs/reference/python-api.md` shows them.
PUBLIC = (
    "sandrl/__init__.py",
    "sandrl/errors.py",
    "sandrl/client.py",
    "sandrl/integrations/",
    "sandrl/rewards/function.py",
)

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+).*?^(?P=indent)(?P=fence) *$", re.DOTALL | re.MULTILINE)
_NOT_PROSE = re.compile(r"<!--.*?-->|`[^`\n]+`|\]\([^)\s]*\)|^\[[^\]]+\]:.*$|https?://\S+", re.DOTALL | re.MULTILINE)
_MARKUP = re.compile(r"^[ \t]*(?:[-*>#]+|\d+\.|\|)[ \t]+|[*_]{1,2}(?=\w)|(?<=[\w.])[*_]{1,2}", re.MULTILINE)


@dataclass(frozen=True)
class Word:
    """A word that is not to be used.

    Attributes:
        pattern: What it matches.
        use: What to write instead.
    """

    pattern: re.Pattern[str]
    use: str


@dataclass(frozen=True)
class Text:
    """A text for users.

    Attributes:
        path: The file.
        line: On which line it begins, from 1.
        text: Its prose, with as many line breaks as the file has there.
    """

    path: Path
    line: int
    text: str


def words() -> list[Word]:
    """The words that are not to be used."""
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))["word"]
    return [Word(re.compile(each["pattern"], re.IGNORECASE | re.MULTILINE), each["use"]) for each in listed]


def texts() -> Iterator[Text]:
    """All texts for users: of pages first, then of the source."""
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")]):
        yield Text(path, 1, prose(path.read_text(encoding="utf-8")))
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(NOT_TEXTS):
            yield from of_source(path, is_public=name.startswith(PUBLIC), has_prompts=name in PROMPTS)
    for path in sorted(each for program in PROGRAMS for each in program.rglob("*.py")):
        yield from of_source(path, is_public=False)


def prose(page: str) -> str:
    """A page without its code and its links, each replaced by as many line breaks as it has."""
    without_code = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), page)
    kept = _NOT_PROSE.sub(lambda found: "…" + "\n" * found[0].count("\n"), without_code)
    return _joined(_MARKUP.sub("", kept))


def _joined(text: str) -> str:
    """A text whose sentences can be searched across line breaks; a break that ends no paragraph is still a break."""
    return re.sub(r"(?<=[^\n.:;|…])\n(?=[^\n|])", " \n", text)


def of_source(path: Path, *, is_public: bool, has_prompts: bool = False) -> Iterator[Text]:
    """The texts for users in a file of Python."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documentation.add(id(node.value))
            if is_public or node is tree.body[0]:
                yield Text(path, node.lineno, prose(node.value.value))
    for constant in () if has_prompts else ast.walk(tree):
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str) and id(constant) not in documentation:
            text = constant.value.strip()
            # Programs for sandboxes have lines; texts for users are single ones.
            if " " in text and "\n" not in text:
                yield Text(path, constant.lineno, prose(constant.value))


def findings() -> Iterator[str]:
    """A line for each word found."""
    listed = words()
    for text in texts():
        for word in listed:
            for found in word.pattern.finditer(text.text):
                line = text.line + text.text.count("\n", 0, found.start())
                matched = " ".join(found[0].split())
                yield f'{text.path.relative_to(ROOT)}:{line}: "{matched:.60}": write {word.use}'


def main() -> int:
    """Prints what was found; returns 1 if anything was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", help="show only findings in files whose names begin with these")
    prefixes = tuple(parser.parse_args().paths)
    found = [line for line in findings() if not prefixes or line.startswith(prefixes)]
    print("\n".join(found) or "words: nothing found", file=sys.stderr if found else sys.stdout)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
