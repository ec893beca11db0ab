"""Every command in the documentation exists, with its options, also where it cannot be run."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import command_of, options_of_all, unknown_options
from tests.support.pages import ROOT, Block, Page, calls_of, page_of, pages, shell_of

PAGES = pages()
BLOCKS = [block for page in PAGES for block in page.blocks]
IN_BLOCKS = [
    pytest.param(call, id=f"{block.place} {' '.join(call)}") for block in BLOCKS for call in calls_of(shell_of(block))
]
IN_SENTENCES = [pytest.param(span, id=f"{page.name} {span}") for page in PAGES for span in page.spans]
# Options of other programs: ray, vLLM, verifiers, docker, accelerate, pytest, pip, chroot, the project's own scripts.
OF_OTHER_PROGRAMS = frozenset(
    (
        *("--address", "--head", "--include-dashboard", "--max-worker-port", "--min-worker-port", "--node-ip-address"),
        *("--node-manager-port", "--num-cpus", "--object-manager-port", "--ray-client-server-port", "--resources"),
        *("--runtime-env-agent-port", "--env", "--generation-config", "--multi", "--num", "--pdb", "--security-opt"),
        *("--ek", "--no-deps", "--userspec"),
        # Of Dockerfiles.
        *("--checksum", "--chmod", "--chown", "--exclude", "--from", "--link", "--mount", "--parents"),
        # The guide of Aviato.
        *("--dataset-limit", "--dataset-split", "--num-steps", "--trajectories-per-problem"),
        *(
            "--check-only",
            "--exchange",
            "--generate",
            "--generated",
            "--logdir",
            "--minutes",
            "--on-cpu",
            "--only",
            "--python",
            "--seconds",
            "--server-url",
        ),
    )
)
# A word that stands for another: RUN, FILE.jsonl, <id>, `…`.
_PLACEHOLDER = re.compile(r"[A-Z][A-Z_/.:0-9-]*(?:\.\w+)?|.*[…<>].*|\.\.\.")


def parse(words: list[str]) -> None:
    """Reads options and arguments as the command does, without executing it."""
    command, given = command_of(words)
    try:
        command.make_context(command.name, given)
    except Exception as error:
        # Typer has a click of its own; `--help` and `--version` end a command this way.
        if type(error).__name__ not in ("Exit", "NoArgsIsHelpError"):
            raise


@pytest.mark.parametrize("call", IN_BLOCKS)
def test_every_command_of_a_block_parses(call: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parse(call)


@pytest.mark.parametrize("span", IN_SENTENCES)
def test_every_command_in_a_sentence_exists_with_its_options(span: str) -> None:
    words = [word.strip("[]") for word in shlex.split(span)[1:]]
    if words[0] == "COMMAND":
        assert {word for word in words if word.startswith("-")} <= options_of_all()
        return
    for call in _alternatives([word for word in words if not _PLACEHOLDER.fullmatch(word) or word.startswith("-")]):
        assert unknown_options(*command_of(call)) == []


def _alternatives(words: list[str]) -> list[list[str]]:
    """The calls that `runs ls|show` stands for."""
    for place, word in enumerate(words):
        if "|" in word and not word.startswith("-"):
            found = [_alternatives([*words[:place], each, *words[place + 1 :]]) for each in word.split("|")]
            return [call for calls in found for call in calls]
    return [words]


@pytest.mark.parametrize("block", [each for each in BLOCKS if shell_of(each)], ids=lambda each: each.place)
def test_every_block_of_commands_is_shell(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=shell_of(block), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.language == "python"], ids=lambda each: each.place)
def test_every_block_of_python_compiles(block: Block) -> None:
    ast.parse(block.text)


def test_every_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    texts = [*map(shell_of, BLOCKS), *(path.read_text(encoding="utf-8") for path in ROOT.glob("*.md"))]
    named = {name for text in texts for name in re.findall(r"(?:^|`)make ([a-z]+[a-z-]*)", text, re.MULTILINE)}
    assert len(named) > 5
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.name)
def test_every_option_in_a_sentence_is_one_of_some_command(page: Page) -> None:
    assert sorted(set(page.options) - options_of_all() - OF_OTHER_PROGRAMS) == []


@pytest.mark.parametrize(
    "words", ["problems ls --problems x", "no-such-command", "reward --nonsense", "grpo --steps many"]
)
def test_a_wrong_command_is_found(words: str) -> None:
    with pytest.raises(Exception, match=r"no-such-command|--problems|--nonsense|valid integer"):
        parse(words.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.name)
def test_every_word_after_a_fence_has_a_meaning(page: Page) -> None:
    assert not [f"{block.place}: {block.unknown_classes}" for block in page.blocks if block.unknown_classes]


def test_calls_are_found_in_scripts() -> None:
    first, second = (
        "sandrl reward a.jsonl --json | jq . > b # don't",
        "curl -d '{\n}' && sandrl \\\n  runs ls 2>/dev/null",
    )
    script = f"{first}\n{second}\n"
    assert list(calls_of(script)) == [["reward", "a.jsonl", "--json"], ["runs", "ls"]]


def test_a_fence_with_unknown_words_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.pages.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```sh { .need-gpu .exit-1 }\nsandrl grpo\n```\n\n```sh gpu\n```\n", encoding="utf-8")
    assert [block.unknown_classes for block in page_of(page).blocks] == [["need-gpu"], ["gpu"]]
