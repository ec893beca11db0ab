"""Tables of every command on a narrow terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandrl.cli.tables import Column, Table
from sandrl.runs.cards import Card
from tests.cli.conftest import SANDRL
from tests.support.sample_runs import failed, trajectory, write_run
from tests.support.terminal import run_on_terminal

RUN = "grpo-20261124-180000-ab12"


@pytest.fixture(autouse=True)
def _a_run(own_index: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "cat")
    write_run(tmp_path / "runs", [trajectory(0, step=0), failed(1, step=1)], name=RUN, command="grpo")
    cards = [Card(task_id=f"task-{number}-{RUN}", kind="task", digest=str(number), nop=0.5) for number in range(3)]
    (tmp_path / "runs" / RUN / "cards.jsonl").write_bytes(b"\n".join(card.to_json() for card in cards))


@pytest.mark.parametrize("columns", [60, 140])
@pytest.mark.parametrize(
    "words",
    [
        ("runs", "ls"),
        ("metrics",),
        ("metrics", "--compare", RUN, RUN),
        ("problems", "ls"),
        ("problems", "cards", RUN),
        ("redteam", "--list"),
        ("sandboxes", "ls"),
        ("sandboxes", "count"),
        ("runtime", "status"),
    ],
)
def test_every_table_fits_its_terminal_and_keeps_ids_whole(words: tuple[str, ...], columns: int) -> None:
    shown = run_on_terminal([*SANDRL, *words], columns=columns)
    assert shown.exit_code == 0
    assert [line for line in shown.plain.splitlines() if len(line) > columns and "not running" not in line] == []
    if words[0] in ("runs", "metrics") or "cards" in words:
        assert RUN in shown.plain


def test_an_id_that_leaves_no_room_has_a_line_of_its_own() -> None:
    table = Table([Column("run"), Column("state"), Column("n", rank=1, is_number=True)])
    table.add("r" * 50, "finished", "12")
    table.add("short", "failed", "3")
    laid_out = table.lay_out(55)
    assert [str(row).split("\n")[0] for row in laid_out.rows] == ["r" * 50, "short"]
    assert [str(row).split("\n")[1].split() for row in laid_out.rows] == [["finished", "12"], ["failed", "3"]]
    assert laid_out.hidden == ()


def test_columns_of_the_highest_rank_are_left_out_first_and_long_texts_are_broken_between_words() -> None:
    columns = [Column("id"), Column("first", rank=2), Column("second", rank=1), Column("text", least=10, wraps=True)]
    laid_out = Table(columns, [("i" * 10, "f" * 10, "s" * 10, "many words that take room")]).lay_out(40)
    assert laid_out.hidden == ("first",)
    assert max(len(line) for line in str(laid_out.rows[0]).split("\n")) <= 40
    assert "many words" in str(laid_out.rows[0])
