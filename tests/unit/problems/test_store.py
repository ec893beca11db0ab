"""Problems by name, in memory or on the disk, which nobody can tell but by memory; rows that come again and again."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandrl.errors import InputError, ServiceError
from sandrl.integrations.problems import problem_of, problem_of_truth
from sandrl.problems import Call, Case, Problem, Tolerance, as_problems, load_problems, write_problems
from sandrl.problems.store import InternedProblems, ProblemStore, joined, memory_of, select

PROBLEMS = [
    Problem("tests", "Add.", tests=("assert f(1) == 2",), setup="import math", reference="def f(x): return x + 1"),
    Problem("cases", "Print \ud83d.", cases=(Case("1\n", "2\n"), Case("", "\0")), tolerance=Tolerance(absolute=0.5)),
    Problem(
        "calls", "Add.", fn="f", calls=(Call.of([1, [2, "a"]], {"b": 3}),), packages=("numpy",), timeout_seconds=2.0
    ),
    Problem("runs", "Run.", check="exit_status"),
] + [Problem(f"many-{number}", "x" * 1000, check="exit_status") for number in range(50)]
NAMED = {problem.task_id: problem for problem in PROBLEMS}


@pytest.fixture(params=["memory", "disk", "begun in memory"])
def store(request: pytest.FixtureRequest) -> ProblemStore:
    memory_bytes = {"memory": 1 << 30, "disk": 0, "begun in memory": 20_000}[request.param]
    found = ProblemStore(NAMED.items(), memory_bytes=memory_bytes)
    assert found.is_on_disk is (request.param != "memory")
    return found


def test_problems_come_back_as_they_were_added(store: ProblemStore) -> None:
    assert list(store) == list(NAMED)
    assert len(store) == len(NAMED)
    assert store == NAMED
    assert [store[name] for name in reversed(NAMED)] == PROBLEMS[::-1]
    assert "cases" in store
    assert "nothing" not in store
    with pytest.raises(KeyError):
        store["nothing"]
    assert as_problems(store) is store


def test_a_copy_in_another_process_has_the_same_problems(store: ProblemStore) -> None:
    assert pickle.loads(pickle.dumps(store)) == NAMED
    assert pickle.loads(pickle.dumps(select(store, ["runs", "tests"]))) == {
        name: NAMED[name] for name in ("runs", "tests")
    }


def test_threads_read_the_same_problems(store: ProblemStore) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(store.__getitem__, list(NAMED) * 20)) == PROBLEMS * 20


def test_some_of_them_and_those_of_several_are_mappings_of_their_own(store: ProblemStore) -> None:
    some: Mapping[str, Problem] = select(store, ["runs", "cases"])
    assert list(some.items()) == [("runs", NAMED["runs"]), ("cases", NAMED["cases"])]
    assert "tests" not in some
    other = Problem("cases", "Another one.", check="exit_status")
    both = joined(some, {"cases": other})
    assert dict(both) == {"runs": NAMED["runs"], "cases": other}


def test_what_was_read_last_is_bounded_too() -> None:
    most = 5 * memory_of(PROBLEMS[-1])
    store = ProblemStore(NAMED.items(), memory_bytes=most)
    for _ in range(3):
        assert list(store.values()) == PROBLEMS
        assert sum(map(memory_of, store._objects._near.values())) <= most + memory_of(PROBLEMS[-1])


def test_a_full_disk_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(ServiceError, match="cannot be stored on the disk: No such file or directory") as caught:
        ProblemStore(NAMED.items(), memory_bytes=0)
    assert caught.value.hint is not None
    assert "TMPDIR" in caught.value.hint


def test_only_the_problems_that_are_asked_for_are_kept_and_all_rows_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    write_problems([problem for problem in PROBLEMS if problem.task_id != "cases"], path)
    told: list[str] = []
    loaded = load_problems(path, only={"runs"}, on_problem=lambda problem: told.append(problem.task_id))
    assert list(loaded.problems) == ["runs"]
    assert told == list(loaded.names) == [name for name in NAMED if name != "cases"]
    with pytest.raises(InputError, match="did you mean 'tests'"):
        loaded.find("test")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"task_id": "runs", "prompt": "", "check": "exit_status"}\n{"task_id": "x"}\n')
    with pytest.raises(
        InputError, match=r"problems.jsonl:54: field 'task_id': 'runs' is already used in line 3; it must be unique"
    ):
        load_problems(path, only=())


ROW = {"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2"]}


def problem(number: int) -> Problem:
    return Problem(f"p{number}", "Add one.", tests=(f"assert f(1) == {number}",))


def test_the_same_content_is_one_object_whatever_the_order_of_its_fields() -> None:
    assert problem_of(ROW) is problem_of(dict(reversed(ROW.items())))
    assert problem_of(ROW) is not problem_of({**ROW, "tests": ["assert f(1) == 3"]})
    assert problem_of_truth({"assert_case": ["assert f(1) == 2"]}) is problem_of_truth(
        '{"assert_case": ["assert f(1) == 2"]}'
    )


def test_threads_that_ask_at_once_get_one_object() -> None:
    interned, together = InternedProblems(), threading.Barrier(8)

    def make() -> Problem:
        together.wait()
        return problem(1)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: interned.of("content", make), range(8)))
    assert len(set(map(id, found))) == 1


def test_memory_is_bounded_and_those_used_longest_ago_make_room() -> None:
    interned = InternedProblems(max_bytes=3 * memory_of(problem(1)))
    made: list[int] = []

    def of(number: int) -> Problem:
        def make() -> Problem:
            made.append(number)
            return problem(number)

        return interned.of(number, make)

    for number in (1, 2, 3, 1, 4, 1, 3, 2):
        assert of(number) == problem(number)
    assert made == [1, 2, 3, 4, 2]


def test_one_that_is_larger_than_all_memory_is_kept_until_the_next() -> None:
    interned = InternedProblems(max_bytes=1)
    assert interned.of("a", lambda: problem(1)) is interned.of("a", lambda: problem(2))


def test_what_is_no_problem_is_not_kept() -> None:
    for _ in range(2):
        with pytest.raises(InputError, match="has no check"):
            problem_of({"task_id": "inc", "prompt": "Add one."})


def test_content_that_json_cannot_hold_is_made_each_time() -> None:
    interned = InternedProblems()
    assert interned.of({1, 2}, lambda: problem(1)) is not interned.of({1, 2}, lambda: problem(1))
