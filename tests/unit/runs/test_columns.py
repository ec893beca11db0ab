"""The index of a run holds what its reader reads, whatever happens to the run's files."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.sample_runs import JOB, failed, trajectory

from sandrl.runs import OpinionPart, OpinionRow, ProblemRow, RunReader, RunWriter, TrajectoryRow
from sandrl.runs.columns import RowPlace, RunColumns, row_key
from sandrl.runs.report import report_trajectories


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with RunWriter.create(tmp_path / "runs", command="grpo", job_id=JOB, name="run") as writer:
        return writer.path


@pytest.fixture
def columns(run: Path, tmp_path: Path) -> RunColumns:
    return RunColumns(run, tmp_path / "cache")


def write(run: Path, *rows: TrajectoryRow, rank: int = 0) -> None:
    with RunWriter(run, job_id=JOB, rank=rank) as writer:
        for row in rows:
            writer.append(row)


def complete(columns: RunColumns) -> None:
    while not columns.refresh().is_complete:
        pass


def indexed(columns: RunColumns) -> list[tuple[str, str]]:
    """The keys of all rows, and the ids that are in their lines."""
    complete(columns)
    with columns.opened() as database:
        found = []
        query = "SELECT number, step, place, rank, held_out, greedy, repeat FROM rows ORDER BY number"
        for number, *place in database.execute(query).fetchall():
            row = columns.read(database, number)
            assert row is not None
            found.append((row_key(*place), row.id))
        return found


def in_report(run: Path) -> list[tuple[str, str]]:
    return [(row["key"], row["id"]) for row in report_trajectories(RunReader(run))]


def column(columns: RunColumns, name: str) -> list[Any]:
    with columns.opened() as database:
        return [value for (value,) in database.execute(f"SELECT {name} FROM rows ORDER BY number")]


def test_a_row_is_indexed_with_its_numbers_and_its_names(run: Path, columns: RunColumns) -> None:
    write(run, failed(3, "timeout", step=7, passed=1, total=4, reward=0.25, detail="x" * 500, greedy=True))
    progress = columns.refresh()
    assert (progress.rows, progress.is_complete, progress.damaged) == (1, True, 0)
    with columns.opened() as database:
        database.row_factory = sqlite3.Row
        row = dict(database.execute("SELECT * FROM rows").fetchone())
        names = dict(database.execute("SELECT number, name FROM names").fetchall())
    assert (row["step"], row["place"], row["greedy"], row["held_out"]) == (7, 3, 1, 0)
    assert (row["reward"], row["passed"], row["total"], row["is_pass"]) == (0.25, 1, 4, 0)
    assert (names[row["status"]], names[row["task"]], row["id"], len(row["detail"])) == ("timeout", "inc", "c3", 120)


def test_it_goes_on_where_it_stopped_and_reads_nothing_twice(run: Path, columns: RunColumns) -> None:
    write(run, trajectory(0), trajectory(1))
    complete(columns)
    read = columns.progress().read_bytes
    write(run, trajectory(2))
    # What was read already may be gone for good: nobody asks for it again.
    file = run / "trajectories.jsonl"
    content = file.read_bytes()
    with file.open("r+b") as stream:
        stream.seek(300)
        stream.write(b"#" * (read - 300))
    assert columns.refresh().rows == 3
    file.write_bytes(content)
    assert [id_ for _, id_ in indexed(columns)] == ["c0", "c1", "c2"]


def test_an_unfinished_line_is_left_out_until_it_is_finished(run: Path, columns: RunColumns) -> None:
    write(run, trajectory(0))
    line = trajectory(1).to_json()
    with (run / "trajectories.jsonl").open("ab") as file:
        file.write(line[:100])
    progress = columns.refresh()
    assert (progress.rows, progress.is_complete, progress.is_truncated) == (1, True, True)
    with (run / "trajectories.jsonl").open("ab") as file:
        file.write(line[100:] + b"\n")
    progress = columns.refresh()
    assert (progress.rows, progress.is_complete, progress.is_truncated) == (2, True, False)


def test_damaged_lines_are_counted_and_the_others_are_read(run: Path, columns: RunColumns) -> None:
    write(run, trajectory(0))
    with (run / "trajectories.jsonl").open("ab") as file:
        file.write(b"\x00\xff\n{}\n[1]\n\n" + b'{"index": "x"}\n')
    write(run, trajectory(1))
    assert [id_ for _, id_ in indexed(columns)] == ["c0", "c1"] == [id_ for _, id_ in in_report(run)]
    assert columns.progress().damaged == 4


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"no database"),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
    ],
    ids=["something else", "empty", "gone", "cut off"],
)
def test_a_damaged_index_is_made_again(run: Path, columns: RunColumns, tmp_path: Path, damage: Any) -> None:
    write(run, *(trajectory(index) for index in range(50)))
    complete(columns)
    for end in ("-wal", "-shm"):
        Path(f"{columns.path}{end}").unlink(missing_ok=True)
    damage(columns.path)
    assert len(indexed(RunColumns(run, tmp_path / "cache"))) == 50


@pytest.mark.parametrize("rows", [(trajectory(5),), (trajectory(0),)], ids=["another run", "cut"])
def test_files_that_have_not_only_grown_are_read_again(
    run: Path, columns: RunColumns, rows: tuple[TrajectoryRow, ...]
) -> None:
    write(run, trajectory(0), trajectory(1))
    complete(columns)
    (run / "trajectories.jsonl").unlink()
    write(run, *rows)
    assert [id_ for _, id_ in indexed(columns)] == [row.id for row in rows]


def test_the_index_never_touches_the_run(run: Path, columns: RunColumns) -> None:
    write(run, trajectory(0))
    before = {file.name: file.stat().st_mtime_ns for file in run.iterdir()}
    complete(columns)
    assert {file.name: file.stat().st_mtime_ns for file in run.iterdir()} == before


def test_without_a_usable_cache_the_temporary_directory_holds_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").touch()
    write(run, trajectory(0))
    columns = RunColumns(run, tmp_path / "file" / "cache")
    assert len(indexed(columns)) == 1
    assert columns.path.is_relative_to(tmp_path)


def test_rows_of_replaced_attempts_are_left_out_however_they_come(run: Path, columns: RunColumns) -> None:
    write(run, trajectory(0, step=0), trajectory(1, step=1), trajectory(2, step=1, id="old"))
    complete(columns)
    write(run, trajectory(1, step=1, attempt=2, id="new"))
    assert indexed(columns) == in_report(run) == [("0.0", "c0"), ("1.1", "new")]
    # Another process of the same job is late with what it did before.
    write(run, trajectory(9, step=1, attempt=1, rank=1, id="late"), rank=1)
    write(run, trajectory(9, step=1, attempt=2, rank=1, id="again"), rank=1)
    assert indexed(columns) == in_report(run) == [("0.0", "c0"), ("1.1", "new"), ("1.9r1", "again")]


def test_outside_of_steps_one_completion_is_replaced_alone(run: Path, columns: RunColumns) -> None:
    write(run, trajectory(0), trajectory(1), trajectory(0, attempt=2, id="again"))
    assert indexed(columns) == in_report(run) == [("-.1", "c1"), ("-.0", "again")]


def test_keys_tell_rows_of_one_place_apart_and_stay(run: Path, columns: RunColumns) -> None:
    write(run, trajectory(0, step=0, id="a"), trajectory(0, step=0, id="b"), trajectory(0, step=0, held_out=True))
    before = indexed(columns)
    assert [key for key, _ in before] == ["0.0", "0.0.1", "0.0h"]
    write(run, trajectory(0, step=0, id="c"), trajectory(0, step=0, held_out=True, greedy=True))
    assert indexed(columns) == in_report(run) == [*before, ("0.0.2", "c"), ("0.0hg", "c0")]


_PLACES = st.builds(
    RowPlace,
    step=st.none() | st.integers(0, 10**9),
    index=st.integers(0, 10**9),
    rank=st.integers(0, 10**6),
    held_out=st.booleans(),
    greedy=st.booleans(),
    repeat=st.integers(0, 10**9),
)


@given(_PLACES)
def test_a_key_names_one_place(place: RowPlace) -> None:
    assert RowPlace.of_key(place.key) == place


@given(st.text(max_size=12))
def test_what_is_no_key_names_nothing(text: str) -> None:
    place = RowPlace.of_key(text)
    assert place is None or place.step is None or str(place.step) in text


_ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(0, 2),
        st.integers(0, 3),
        st.integers(1, 3),
        st.booleans(),
        st.integers(0, 1),
        st.booleans(),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=60)
@given(rows=_ROWS, cuts=st.lists(st.integers(0, 25), max_size=3))
def test_an_index_that_grows_has_what_the_report_has(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], cuts: list[int]
) -> None:
    """Whatever was written in which order, and however often it was looked at meanwhile."""
    folder = tmp_path_factory.mktemp("grown")
    with RunWriter.create(folder, command="grpo", job_id=JOB, name="run") as writer:
        run = writer.path
    columns = RunColumns(run, folder / "cache")
    for number, (step, index, attempt, held_out, rank, greedy) in enumerate(rows):
        if number in cuts:
            complete(columns)
        row = trajectory(
            index, step=step, attempt=attempt, held_out=held_out, rank=rank, greedy=greedy, id=f"row {number}"
        )
        write(run, row, rank=rank)
    assert sorted(indexed(columns)) == sorted(in_report(run))


def test_second_opinions_and_problems_are_found(run: Path, columns: RunColumns) -> None:
    write(run, failed(0, problem="d" * 32), failed(1), trajectory(2))
    complete(columns)
    with RunWriter(run, job_id=JOB) as writer:
        for index, status in ((0, "passed"), (1, "failed")):
            row = failed(index)
            shared = row.model_dump(include={"index", "id", "task_id", "sandbox_id", "status", "detail"})
            writer.append(OpinionRow(job_id=JOB, **shared, opinion=OpinionPart(status=status)))
        writer.append(ProblemRow(job_id=JOB, digest="d" * 32, task_id="inc", prompt="Add one."))
    complete(columns)
    assert column(columns, "disagrees") == [1, 0, 0]
    with columns.opened() as database:
        rows = [columns.read(database, number) for number in (1, 2, 3)]
        problem = columns.problem(database, "d" * 32)
        assert columns.problem(database, None) is None
    assert [row and row.second_opinion and row.second_opinion.status for row in rows] == ["passed", "failed", None]
    assert problem is not None
    assert problem.prompt == "Add one."


def test_what_is_kept_is_forgotten_when_rows_come(run: Path, columns: RunColumns) -> None:
    write(run, trajectory(0))
    complete(columns)
    columns.keep("totals", columns.progress().version, {"n": 1})
    with columns.opened() as database:
        assert columns.kept(database, "totals") == {"n": 1}
    write(run, trajectory(1))
    complete(columns)
    with columns.opened() as database:
        assert columns.kept(database, "totals") is None


def test_a_run_without_completions_is_complete(columns: RunColumns) -> None:
    progress = columns.refresh()
    assert (progress.rows, progress.total_bytes, progress.is_complete) == (0, 0, True)


def test_two_processes_fill_one_index_that_outlives_both(run: Path, columns: RunColumns, tmp_path: Path) -> None:
    other = RunColumns(run, tmp_path / "cache")
    for index in range(6):
        write(run, trajectory(index))
        complete(other if index % 2 else columns)
    assert len(indexed(columns)) == 6
    assert indexed(columns) == indexed(other)
    version = columns.progress().version
    assert RunColumns(run, tmp_path / "cache").refresh().version == version


@pytest.mark.parametrize("field", ["index", "step", "rank", "passed", "sandboxes"])
def test_a_number_that_the_index_cannot_hold_damages_its_row_alone(run: Path, columns: RunColumns, field: str) -> None:
    good = trajectory(1)
    bad = good.model_copy(update={field: 1 << 63, "id": "bad"})
    write(run, trajectory(0), bad, good)
    assert len(indexed(columns)) == 2
    assert columns.refresh().damaged == 1
