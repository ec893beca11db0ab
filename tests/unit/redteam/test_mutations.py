"""Which files of a solution's state are changed, and how; with states that strangers may have made."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.states import Member, file, kept, link, removed

from sandrl.errors import InputError
from sandrl.problems.tasks.task import Artifact, Environment, Phase, Task, TaskStep, Verifier, VerifierMode
from sandrl.redteam.mutations import Mutation, mutations_of
from sandrl.trials.changes import changes_of, contents_of

_MANY = 1000


def _task(instruction: str = "", test: str = "", **verifier: object) -> Task:
    made = replace(Verifier(files=(("test.sh", test.encode()),)), **verifier)  # type: ignore[arg-type]
    return Task("t", "test", "digest", Environment("image"), (TaskStep(instruction, verifier=made),))


def _mutations(place: Path, task: Task, members: list[Member], most: int = _MANY) -> list[Mutation]:
    return mutations_of(task, kept(place, members), most)


def _paths(place: Path, task: Task, members: list[Member]) -> set[str]:
    return {each.path for each in _mutations(place, task, members)}


def test_files_that_a_text_names_are_changed_and_what_programs_leave_is_not(tmp_path: Path) -> None:
    members = [
        file("./app/out.json", b"{}"),
        file("./app/notes", b"x"),
        file("./etc/other.conf", b"x"),
        *(
            file(f"./{name}", b"x")
            for name in ("tmp/x", "root/.cache/y", "app/node_modules/z", "app/a.pyc", "app/b.log")
        ),
        *(file(f"./{name}", b"x") for name in ("tests/test.sh", "run/sandrl/x", "usr/bin/new", "root/.bash_history")),
        *(file(f"./{name}", b"x") for name in ("var/log/app.log", "tmp/result", "tmp/node_modules/result")),
    ]
    task = _task("Write out.json into /app, and log to /var/log/app.log.", 'Path("/tmp") / "result"')
    assert _paths(tmp_path, task, members) == {"/app/out.json", "/app/notes", "/var/log/app.log", "/tmp/result"}


def test_where_no_text_names_a_file_others_are_changed(tmp_path: Path) -> None:
    members = [file("./srv/notes", b"x"), file("./var/lib/dpkg/status", b"x"), file("./etc/passwd", b"x")]
    assert _paths(tmp_path, _task("Do it."), members) == {"/srv/notes"}


def test_named_files_come_first_and_operations_alternate(tmp_path: Path) -> None:
    text = b"one two\nthree 4\n5\n"
    members = [*(file(f"./app/{name}", text) for name in ("a", "b", "c")), file("./app/out.txt", text)]
    task = _task("Write /app/out.txt, in /app.")
    chosen = mutations_of(task, kept(tmp_path, members), 6)
    assert [each.path for each in chosen[:2]] == ["/app/out.txt"] * 2
    assert len({each.operation for each in chosen[:5]}) == 5
    assert {each.path for each in chosen} > {"/app/out.txt"}
    assert mutations_of(task, kept(tmp_path, members), 3) == chosen[:3]


def test_a_state_gives_the_same_mutants_in_every_process(tmp_path: Path) -> None:
    members = [file(f"./app/{number}.txt", b"1 2 3\nab cd\n" * number) for number in range(40)]
    names = [each.name for each in _mutations(tmp_path, _task("In /app."), members, 12)]
    program = (
        "import sys; from pathlib import Path; from tests.unit.redteam import test_mutations as t\n"
        "members = [t.file(f'./app/{n}.txt', b'1 2 3\\nab cd\\n' * n) for n in range(40)]\n"
        "print('\\n'.join(e.name for e in t._mutations(Path(sys.argv[1]), t._task('In /app.'), members, 12)))"
    )
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", program, str(tmp_path)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert found.splitlines() == names
    assert len(names) == 12


def test_each_kind_of_change_has_its_state(tmp_path: Path) -> None:
    members = [
        file("./app/run.sh", b"#!/bin/sh\n", mode=0o755, uid=1000),
        link("./app/current", "v2"),
        removed("./app/.wh.old"),
        file("./app/.git/refs/heads/main", b"0" * 40),
        file("./app/.git/index", b"DIRC"),
        file("./app/empty"),
    ]
    task = _task("In /app: who owns them, and their permissions.", "chown 1 /app/run.sh", phase=Phase(user="app"))
    state = kept(tmp_path, members)
    found = {each.name: each for each in mutations_of(task, state, _MANY)}
    assert found.keys() == {
        "/app/run.sh removed",
        "/app/run.sh cut in the middle",
        "/app/run.sh emptied",
        "/app/run.sh not executable: 755 -> 644",
        "/app/run.sh not readable: 755 -> 311",
        "the owner of /app/run.sh: 1000 -> 0",
        "the link /app/current broken: v2",
        "/app/current removed",
        "/app/old, which the solution removed, put back",
        "the commits of refs/heads/main in /app/.git undone",
        "/app/empty removed",
        "/app/empty not readable: 644 -> 200",
        "the mode of /app/empty: 644 -> 600",
        "the owner of /app/empty: 0 -> 1",
    }
    states = {name: list(changes_of(each.keep(state).path)) for name, each in found.items()}
    everything = list(changes_of(state.path))
    assert len({each.keep(state).digest for each in found.values()}) == len(found)
    for name in (
        "/app/old, which the solution removed, put back",
        "the commits of refs/heads/main in /app/.git undone",
    ):
        assert states[name] == [each for each in everything if each.path != found[name].path]
        assert len(states[name]) == len(everything) - 1
    (owned,) = states["the owner of /app/run.sh: 1000 -> 0"]
    assert (owned.uid, owned.mode, owned.size) == (0, 0o755, 10)
    (plain,) = states["/app/run.sh not executable: 755 -> 644"]
    assert (plain.uid, plain.mode, plain.size) == (1000, 0o644, 10)
    undone = {each.name for each in mutations_of(task, state, _MANY, can_undo=False)}
    assert undone == {name for name in found if "put back" not in name and "undone" not in name}


def test_what_the_preparation_changed_is_no_work_of_the_solution(tmp_path: Path) -> None:
    both = [file("./app/ready", b"1", mtime=5), removed("./app/.wh.x"), file("./app/tries", b"1"), link("./app/l", "a")]
    before = kept(tmp_path, [*both, file("./app/same", b"1")])
    after = kept(
        tmp_path, [*both[:2], file("./app/tries", b"2"), link("./app/l", "b"), file("./app/same", b"1", mtime=9)]
    )
    found = {each.path for each in mutations_of(_task("In /app."), after, _MANY, before=before)}
    assert found == {"/app/tries", "/app/l"}


def test_a_verifier_apart_sees_its_artifacts_alone(tmp_path: Path) -> None:
    members = [file(f"./{name}", b"x") for name in ("app/out/a", "app/out/a.tmp", "app/other", "logs/artifacts/b", "c")]
    task = _task("Write /app/out/a, /app/out/a.tmp, /app/other and /c.", mode=VerifierMode.SEPARATE)
    step = replace(task.steps[0], artifacts=(Artifact("/app/out/", exclude=("*.tmp",)),))
    task = replace(task, steps=(step,))
    assert _paths(tmp_path, task, members) == {"/app/out/a", "/logs/artifacts/b"}


def test_the_last_step_decides_what_is_named(tmp_path: Path) -> None:
    task = _task("Write /app/second.")
    task = replace(task, steps=(TaskStep("Write /srv/first."), *task.steps))
    assert _paths(tmp_path, task, [file("./srv/first", b"x"), file("./app/second", b"x")]) == {"/app/second"}


def test_names_of_strangers_stay_in_one_line(tmp_path: Path) -> None:
    names = ["a\nb", "\x1b[2J", "\u202eevil", "PATH", "x" * 250, "-rf", "$(id)", "'"]
    members = [file(f"./app/{name}", b"1 a\n") for name in names] + [file("./app/\udcff", b"1")]
    found = _mutations(tmp_path, _task("In /app."), members)
    assert {each.path for each in found} == {f"/app/{name}" for name in names}
    assert all(each.name.isprintable() and len(each.name) < 300 for each in found)


def test_large_files_are_removed_or_emptied_without_being_read(tmp_path: Path) -> None:
    large = file("./app/large", b"1" * ((4 << 20) + 1))
    state = kept(tmp_path, [large])
    found = {each.name: each.keep(state) for each in mutations_of(_task("In /app."), state, _MANY)}
    assert found.keys() == {"/app/large removed", "/app/large emptied"}
    assert contents_of(found["/app/large emptied"].path, {"/app/large"}, 10) == {"/app/large": b""}


def test_of_many_files_the_named_ones_are_found(tmp_path: Path) -> None:
    members = [file(f"./app/{number}", b"x") for number in range(5000)] + [file("./app/zz.txt", b"x")]
    chosen = _mutations(tmp_path, _task("Write zz.txt in /app."), members, 1)
    assert [each.path for each in chosen] == ["/app/zz.txt"]


def test_a_damaged_state_is_said_so(tmp_path: Path) -> None:
    state = kept(tmp_path, [file("./app/a", b"x" * 4096)])
    state.path.write_bytes(state.path.read_bytes()[:50])
    with pytest.raises(InputError, match="is damaged"):
        mutations_of(_task("In /app."), state, _MANY)
