"""What TAB offers: in real shells on a terminal, from the files of a machine, and within its means."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cwsandbox import AuthHeaders, Sandbox, SandboxDefaults

from sandrl.cli.completion import values
from sandrl.cli.completion.answer import TREE, complete
from sandrl.cli.completion.scripts import SCRIPTS, current_shell, install
from sandrl.errors import UsageError
from sandrl.runtime import daemon
from sandrl.runtime.images.names import Names, named
from tests.support.programs import require_program
from tests.support.screen import Screen

PROMPT = "ready> "
FISH_PROMPT = "function fish_prompt; echo -n 'ready> '; end; set -g fish_greeting\n"
Ask = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def _runs_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and images that other tests left in the directories of the session are not offered."""
    monkeypatch.setenv("SANDRL_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("SANDRL_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with one run, whose ledger knows a living sandbox and an ended one, and a daemon's roster."""
    state, run = tmp_path / "state", tmp_path / "elsewhere" / "first-run"
    run.mkdir(parents=True)
    (run / "config.json").write_text("{}")
    rows = [
        {"job_id": "job-0ld", "event": "intent", "key": "1", "tags": ["job-0ld", "model-a"]},
        {"job_id": "job-0ld", "event": "created", "key": "1", "sandbox_id": "remote-1"},
        {"job_id": "job-0ld", "event": "created", "key": "2", "sandbox_id": "remote-2"},
        {"job_id": "job-0ld", "event": "stopped", "key": "2", "sandbox_id": "remote-2"},
    ]
    (run / "sandboxes.jsonl").write_text("\n".join(map(json.dumps, rows)) + '\n{"cut off')
    (state / "runs").mkdir(parents=True)
    (state / "runs" / "first-run@0123abcd").symlink_to(run)
    (state / "jobs").mkdir()
    entry = {"job_id": "job-fee1dead", "tags": ["job-fee1dead", "slurm"]}
    (state / "jobs" / "job-fee1dead@0a1b2c3d.json").write_text(json.dumps(entry))
    daemon = state / "runtime" / "1-x"
    daemon.mkdir(parents=True)
    roster = {"schema": 1, "pid": os.getpid(), "sandboxes": [["local-1", ["job-1ive", "problem-a"]]]}
    (daemon / "sandboxes.json").write_text(json.dumps(roster))
    return state


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Asks as a shell does; returns the lines of the answer."""

    def ask(*words: str, shell: str = "fish", **environment: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "sandrl", *words],
            env={**os.environ, "_SANDRL_COMPLETE": shell, **environment},
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    return ask


def offered(*words: str) -> list[str]:
    return [text for text, _ in complete(words, json.loads(TREE.read_bytes())).values]


@pytest.fixture(params=list(SCRIPTS))
def screen(request: pytest.FixtureRequest, tmp_path: Path, state: Path) -> Iterator[Screen]:
    """A terminal with an interactive shell in which completion was installed by `sandrl --install-completion`."""
    shell: str = request.param
    home, programs = tmp_path / "home", tmp_path / "bin"
    (home / ".config" / "fish").mkdir(parents=True)
    programs.mkdir()
    (programs / "sandrl").write_text(f'#!/bin/sh\nexec {sys.executable} -m sandrl "$@"\n')
    (programs / "sandrl").chmod(0o755)
    (home / ".bashrc").write_text(f"PS1='{PROMPT}'")
    (home / ".zshrc").write_text(f"PS1='{PROMPT}'")
    (home / ".config" / "fish" / "config.fish").write_text(FISH_PROMPT)
    environment = {
        "HOME": str(home),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TERM": "screen",
        "LANG": "C.UTF-8",
        "SANDRL_STATE_DIR": str(state),
    }
    program = require_program(shell)
    done = subprocess.run(
        [program, "-c", "sandrl --install-completion; true"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert f"Completion for {shell} is installed in {home}" in done.stdout, done.stderr
    place = tmp_path / "place"
    place.mkdir()
    (place / "answers.jsonl").write_text("")
    with Screen([program, "-i"], place, environment) as screen:
        screen.wait(lambda text: PROMPT.strip() in text, "the prompt")
        yield screen


def test_a_real_shell_completes(screen: Screen) -> None:
    for typed, whole in {
        "sandrl rew": "sandrl reward",
        "sandrl problems sh": "sandrl problems show",
        "sandrl problems show average-s": "sandrl problems show average-speed",
        "sandrl reward --runt": "sandrl reward --runtime",
        "sandrl reward --runtime l": "sandrl reward --runtime local",
        "sandrl reward --runtime=rem": "sandrl reward --runtime=remote",
        "sandrl reward ans": "sandrl reward answers.jsonl",
        "sandrl redteam -e subc": "sandrl redteam -e subclass",
    }.items():
        screen.type(typed)
        screen.press("Tab")
        # A blank follows a whole word; typing goes on behind it.
        screen.type("#")
        shown = screen.wait(lambda text: "#" in text, "what was typed")
        assert shown.splitlines()[-1].replace(" #", "#").endswith(f"{PROMPT}{whole}#")
        screen.press("C-u", "C-l")
        screen.wait(lambda text: text.strip() == PROMPT.strip(), "an empty prompt")


def _has_all(words: list[str], text: str) -> bool:
    return all(word in text for word in words)


def test_a_real_shell_lists_what_is_possible(screen: Screen) -> None:
    for typed, words in {
        "sandrl reward --runtime ": ["auto", "local", "remote"],
        "sandrl runtime ": ["status", "serve", "stop", "logs"],
    }.items():
        screen.type(typed)
        screen.press("Tab")
        screen.press("Tab")
        screen.wait(partial(_has_all, words), f"{words}")
        screen.press("C-u", "C-l")
        screen.wait(lambda text: text.strip() == PROMPT.strip(), "an empty prompt")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["re"], ["reward", "redteam"]),
        (["nonsense", ""], []),
        (["reward", "--extract", "f"], ["fence"]),
        (["reward", "--runtime", "local", "--extract=f"], ["--extract=fence"]),
        (["reward", "-t", ""], []),
        (["reward", "--no-such-option", "--runti"], ["--runtime"]),
        (["reward", "--runtime", "local", "--runti"], []),
        (["reward", "--tag", "a", "--ta"], ["--tag"]),
        (["--debug", "rewa"], ["reward"]),
        (["reward", "--", "--ru"], []),
        (["problems", "show", "one", "two"], []),
        (["problems", "ls", "mb"], ["mbpp"]),
        (["runtime", "stop", ""], ["--all", "--help", "--help-all"]),
        (["redteam", "--exploit", "subcl"], ["subclass"]),
        (["sandboxes", "ls", "-s", "term"], ["terminating", "terminated"]),
        (["sandboxes", "ls", "--output=w"], ["--output=wide"]),
    ],
)
def test_what_fits_depends_on_the_words_before(words: list[str], expected: list[str]) -> None:
    assert offered(*words)[: len(expected) or None] == expected


def test_every_bundled_problem_is_offered(ask: Ask) -> None:
    from sandrl.problems import load_problems

    assert ask("problems", "show", "") == ["nothing", *load_problems("bundled").problems]


def test_every_set_that_is_offered_is_one() -> None:
    from sandrl.problems.sources import find_source

    assert [find_source(name) for name, _ in values.problem_sets()]
    assert offered("reward", "--problems", "") == [name for name, _ in values.problem_sets()]


def test_bash_gets_the_rest_of_what_it_took_apart(ask: Ask) -> None:
    breaks = " \t\n\"'><=;|&(:"
    words = ("reward", "--runtime", "=", "lo")
    assert ask(*words, shell="bash", _SANDRL_COMPLETE_BREAKS=breaks) == ["nothing", "local"]
    assert ask("reward", "--runtime=lo", shell="bash") == ["nothing", "--runtime=local"]


def test_an_open_quote_is_completed_as_its_text(ask: Ask) -> None:
    assert ask("reward", "--runtime", '"lo') == ["nothing", "local"]


def test_runs_jobs_sandboxes_and_tags_come_from_their_files(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDRL_STATE_DIR", str(state))
    assert [name for name, _ in values.run_names()] == ["first-run"]
    assert values.sandbox_ids() == [("local-1", "job-1ive"), ("remote-1", "job-0ld")]
    assert [name for name, _ in values.tags()] == [
        *("job-1ive", "problem-a", "job-0ld", "model-a", "job-fee1dead", "slurm"),
    ]
    assert [name for name, help_ in values.tags() if help_ == "alive"] == [
        "job-1ive",
        "problem-a",
        "job-0ld",
        "model-a",
    ]
    assert [name for name, _ in values.job_ids()] == ["job-1ive", "job-0ld", "job-fee1dead"]


def test_names_of_images_come_from_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDRL_CACHE_DIR", str(tmp_path))
    assert values.image_names() == []
    names = Names(tmp_path / "images" / "names")
    names.directory.mkdir(parents=True)
    names.keep(named("team/tool:1.0", f"sha256:{'a' * 64}"))
    (names.directory / "broken.json").write_text("{")
    assert values.image_names() == [("team/tool:1.0", "a" * 12)]


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"sandboxes": [[1], 2, {"a": 3}]}', "\x00\x1b[2J"])
def test_missing_and_broken_files_are_nothing_to_offer(
    state: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDRL_STATE_DIR", str(state))
    [ledger] = state.parent.rglob("sandboxes.jsonl")
    for path in (ledger, *state.rglob("*.json")):
        path.write_text(broken)
    assert (values.sandbox_ids(), values.tags()) == ([], [])
    monkeypatch.setenv("SANDRL_STATE_DIR", str(state / "missing"))
    assert [source() for name, source in values.SOURCES.items() if name != "problem_ids"] == [[]] * 5


def test_the_roster_of_a_daemon_that_is_gone_is_not_offered(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDRL_STATE_DIR", str(state))
    [roster] = state.rglob("sandboxes.json")
    roster.write_text(roster.read_text().replace(str(os.getpid()), "4194305"))
    assert [name for name, _ in values.sandbox_ids()] == ["remote-1"]


def test_sandboxes_of_the_running_runtime_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDRL_STATE_DIR", str(tmp_path / "state"))
    endpoint = daemon.ensure_running(tmp_path / "state")
    try:
        place: dict[str, Any] = {"base_url": endpoint.base_url, "data_plane_mode": "gateway"}
        auth = AuthHeaders(headers={"Authorization": f"Bearer {endpoint.token}"}, strategy="api_key")
        with Sandbox.run(defaults=SandboxDefaults(auth=auth, **place), tags=["job-0a1b2c3d", "slurm-7"]) as sandbox:
            until(lambda: values.sandbox_ids() == [(sandbox.sandbox_id, "job-0a1b2c3d")])
            assert [name for name, _ in values.tags()] == ["job-0a1b2c3d", "slurm-7"]
        until(lambda: values.sandbox_ids() == [])
    finally:
        daemon.stop(tmp_path / "state")
    assert not list((tmp_path / "state").rglob("sandboxes.json"))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.05)


def test_what_could_harm_a_command_line_is_not_offered() -> None:
    assert not any(map(values.is_plain, ["a b", "$(id)", "a;b", "\x1b[2J", "", "a\nb", "`id`", "'", "ä" * 300]))
    assert all(map(values.is_plain, ["Mbpp/11", "job-0a.b_c", "model:x", "python:3.11"]))


def test_without_a_home_or_anything_else_it_still_answers(ask: Ask) -> None:
    assert ask("rewa", HOME="/nonexistent", SANDRL_STATE_DIR="/proc/nowhere")[1].startswith("reward\t")
    assert ask("problems", "show", "average-s", HOME="") == ["nothing", "average-speed"]


def test_answering_loads_the_standard_library_alone() -> None:
    program = (
        "import os, sys; sys.argv = ['sandrl', 'problems', 'show', '']; from sandrl.cli.entry import main; main(); "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "_SANDRL_COMPLETE": "fish"},
        capture_output=True,
        text=True,
        check=True,
    )
    foreign = set(done.stdout.splitlines()[-1].split()) - set(sys.stdlib_module_names) - {"sandrl", "__main__"}
    # What an editable installation loads at every start of the interpreter.
    assert {name for name in foreign if not name.startswith(("_", "sitecustomize"))} == set()


def test_installing_twice_adds_one_line_and_keeps_what_was_there(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("alias ll='ls -l'")
    for _ in range(2):
        install("bash", {"HOME": str(tmp_path)})
    first, second = (tmp_path / ".bashrc").read_text().splitlines()
    assert first == "alias ll='ls -l'"
    assert "sandrl.bash" in second


def test_without_a_home_to_install_in_the_way_out_is_named(tmp_path: Path) -> None:
    for home in ("", "/nonexistent", "/proc"):
        with pytest.raises(UsageError) as error:
            install("zsh", {"HOME": home})
        assert "--show-completion" in (error.value.hint or "")


def test_the_usual_shell_is_taken_where_no_shell_is_above() -> None:
    program = "from sandrl.cli.completion.scripts import current_shell; print(current_shell({'SHELL': '/bin/zsh'}))"
    done = subprocess.run(["bash", "-c", f'{sys.executable} -c "{program}"; true'], capture_output=True, text=True)
    assert done.stdout == "bash\n", done.stderr
    assert current_shell({"SHELL": "/usr/bin/fish"}) in SCRIPTS
