"""`--min-quality` and `sandrl problems cards`, as a user has them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sandrl.problems import load_problems
from sandrl.problems.quality import card_digest
from sandrl.runs import RunReader
from sandrl.runs.card_record import CardRecord
from sandrl.runs.cards import Card, Cheat
from tests.cli.conftest import Run
from tests.support.chat_server import ChatServer
from tests.support.service import running_service

NAMES = ("sound", "cheated", "idle", "new")


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "problems.jsonl"
    rows = [
        {"task_id": name, "prompt": f"Return {n}.", "tests": [f"assert f() == {n}"]} for n, name in enumerate(NAMES)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def completions(tmp_path: Path) -> Path:
    path = tmp_path / "completions.jsonl"
    rows = [{"task_id": name, "code": f"def f():\n    return {n}\n"} for n, name in enumerate(NAMES)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def cards_of(problems: Path) -> list[Card]:
    """A card of each problem but the last: quality 1, 0 and 0.5."""
    parts: list[dict[str, Any]] = [
        {"nop": 0.0, "oracle": 1, "oracle_runs": 2, "oracle_passes": 2},
        {"nop": 0.0, "cheats_tried": 3, "cheats": (Cheat(name="plant", group="files", reward=1),)},
        {"nop": 0.5, "nop_runs": 4, "flake_rate": 0.25, "flake_low": 0.05, "flake_high": 0.7, "flake_runs": 4},
    ]
    loaded = load_problems(problems).problems
    return [
        Card(task_id=name, kind="tests", digest=card_digest(loaded[name]), **given)
        for name, given in zip(NAMES, parts, strict=False)
    ]


@pytest.fixture
def cards(problems: Path, tmp_path: Path) -> Path:
    path = tmp_path / "measured.jsonl"
    path.write_bytes(b"".join(card.to_json() + b"\n" for card in cards_of(problems)))
    return path


def rows(run: Path) -> dict[str, float | None]:
    return {row.task_id: row.reward for row in RunReader(run).trajectories().rows}


def test_completions_are_left_out_with_their_problems_and_the_run_keeps_the_choice(
    sandrl: Run, problems: Path, completions: Path, cards: Path, tmp_path: Path
) -> None:
    words = ("reward", completions, "--problems", problems, "--min-quality", "0.5", "--cards", cards)
    done = sandrl(*words, "--runs-dir", "runs", "--run-name", "chosen")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert "2 of 4 problems are left out; quality lower than 0.5: 1 (cheated); not measured: 1 (new)" in said
    assert "2 of 4 completions are left out with their problems" in said
    run = tmp_path / "runs" / "chosen"
    assert rows(run) == {"sound": 1.0, "idle": 1.0}
    options = RunReader(run).config.options
    assert (options["min_quality"], options["cards"]) == (0.5, str(cards))
    shown = sandrl("problems", "cards", run, "--json")
    assert {each["task_id"] for each in json.loads(shown.stdout)["tasks"]} == {"sound", "cheated", "idle"}
    # What a run was rewarded with is judged again, all of it.
    cards.unlink()
    again = sandrl("runs", "regrade", run, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["compared"] == 2


def test_a_file_of_cards_is_shown_whatever_its_name(sandrl: Run, problems: Path, cards: Path) -> None:
    shown = json.loads(sandrl("problems", "cards", cards, "--json").stdout)
    assert {each["task_id"] for each in shown["tasks"]} == {"sound", "cheated", "idle"}
    assert len(json.loads(sandrl("problems", "cards", problems, "--json").stdout)["without_card"]) == len(NAMES)


def test_a_problem_that_was_measured_in_vain_has_the_reason(sandrl: Run, problems: Path, tmp_path: Path) -> None:
    loaded, path = load_problems(problems).problems, tmp_path / "null.jsonl"
    made = [
        Card(task_id=name, kind="task", digest=card_digest(each), null_runs=3, null_reason="it exited with 1")
        for name, each in loaded.items()
    ]
    path.write_bytes(b"".join(card.to_json() + b"\n" for card in made))
    shown = sandrl("problems", "cards", problems, "--cards", path)
    assert "No reward: idle: it exited with 1\n" in shown.stdout
    assert "validate" not in shown.stderr
    path.write_bytes(b"".join(card.to_json() + b"\n" for card in made[1:]))
    assert (
        "Measure the others: sandrl problems validate" in sandrl("problems", "cards", problems, "--cards", path).stderr
    )


def test_nothing_left_names_the_commands_that_measure(
    sandrl: Run, problems: Path, completions: Path, cards: Path
) -> None:
    words = ("reward", completions, "--problems", problems)
    for more in (("--min-quality", "1", "--cards", _without(cards, "sound")), ("--min-quality", "0")):
        done = sandrl(*words, *more, SANDRL_STATE_DIR=str(cards.parent / "none"))
        assert done.returncode == 2, done.stderr
        assert "no problem is left by --min-quality" in " ".join(done.stderr.split())
        assert "sandrl problems validate" in done.stderr


def _without(cards: Path, name: str) -> Path:
    lines = [line for line in cards.read_text().splitlines() if json.loads(line)["task_id"] != name]
    path = cards.with_name("others.jsonl")
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_choice_that_cannot_be_made_is_refused(
    sandrl: Run, problems: Path, completions: Path, cards: Path, tmp_path: Path
) -> None:
    words = ("reward", completions, "--problems", problems, "--dry-run")
    for more, message in (
        (("--cards", cards), "--cards: has no effect without --min-quality"),
        (("--min-quality", "2"), "--min-quality"),
        (("--min-quality", "0.5", "--cards", "no-such-run"), "no-such-run"),
        (("--min-quality", "0.5", "--cards", problems), "has no cards"),
    ):
        done = sandrl(*words, *more)
        assert done.returncode == 2, done.stderr
        assert message in " ".join(done.stderr.split())
    demo = sandrl("reward", "--min-quality", "0.5")
    assert demo.returncode == 2
    assert "--min-quality needs completions to score" in demo.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("reward", "completions.jsonl"),
        ("eval", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--samples", "1"),
        ("art", "rollout", "--base-url", "http://127.0.0.1:9/v1", "--steps", "1", "--problems-per-step", "2"),
    ],
)
def test_an_estimate_knows_what_is_left_out(
    sandrl: Run, problems: Path, completions: Path, cards: Path, words: tuple[str, ...]
) -> None:
    chosen = ("--problems", problems, "--min-quality", "0.4", "--cards", cards, "--dry-run")
    done = sandrl(*words, *chosen)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Quality: 2 of 4 problems are left out; ")
    document = json.loads(sandrl(*words, *chosen, "--json").stdout)
    assert document["left_out_problems"] == 2
    if words[0] != "art":
        assert document["completions"] == 2


def test_the_users_record_is_asked_unless_cards_are_named(
    sandrl: Run, problems: Path, completions: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    CardRecord(state).add(cards_of(problems))
    words = ("reward", completions, "--problems", problems, "--min-quality", "0.9", "--dry-run", "--json")
    done = sandrl(*words, SANDRL_STATE_DIR=str(state))
    assert json.loads(done.stdout)["completions"] == 1, done.stderr


def test_an_evaluation_that_goes_on_has_the_problems_that_it_was_begun_with(
    sandrl: Run, problems: Path, cards: Path, tmp_path: Path
) -> None:
    answer = "<answer>\ndef f():\n    return 0\n</answer>"
    run = tmp_path / "runs" / "evaluated"
    with ChatServer(lambda body: answer) as server:
        words = ("eval", "--base-url", server.base_url, "--problems", problems, "--runs-dir", run.parent, "--json")
        first = sandrl(*words, "--run-name", run.name, "--min-quality", "0.5", "--cards", cards)
        assert first.returncode == 0, first.stderr
        assert json.loads(first.stdout)["problems"] == 2
        (run / "trajectories.jsonl").write_bytes(b"")
        # Since then everything was measured otherwise.
        cards.write_bytes(
            b"".join(each.model_copy(update={"nop": 1.0}).to_json() + b"\n" for each in cards_of(problems))
        )
        again = sandrl("eval", "--resume", run, "--json")
        other = sandrl("eval", "--resume", run, "--min-quality", "0.9")
    assert again.returncode == 0, again.stderr
    assert rows(run) == {"sound": 1.0, "idle": 0.0}
    assert other.returncode == 2
    assert "--min-quality: the run 'evaluated' has 0.5, not 0.9" in " ".join(other.stderr.split())


def test_a_service_says_that_a_problem_was_left_out(problems: Path, cards: Path, tmp_path: Path) -> None:
    words = ("--problems", str(problems), "--min-quality", "0.9", "--cards", str(cards))
    with running_service(tmp_path, *words) as service, service.client() as client:
        right = {"task_id": "sound", "code": "def f():\n    return 0\n"}
        scored = client.post("/v1/score", json={"completions": [right]})
        assert scored.json()["results"][0]["reward"] == 1.0
        refused = client.post("/v1/score", json={"completions": [{**right, "task_id": "idle"}]})
        assert refused.status_code == 422
        assert "the problem 'idle' is left out by the service: its quality is 0.50" in refused.text
        unknown = client.post("/v1/score", json={"completions": [{**right, "task_id": "nothing"}]})
        assert "there is no problem 'nothing'" in unknown.text


def test_cards_are_listed_weakest_first_with_the_card_of_the_set(sandrl: Run, problems: Path, cards: Path) -> None:
    done = sandrl("problems", "cards", problems, "--cards", cards)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["Problems: 4 (3 measured)", "Quality: at most 0.50 on average", "Lowest: 0.00 (cheated)"]
    table = lines[next(number for number, line in enumerate(lines) if line.startswith("id ")) + 1 :]
    assert [line.split()[0] for line in table] == ["cheated", "idle", "sound", "new"]
    cells = re.split(r" {2,}", table[0])
    assert (*cells[:3], cells[-1]) == ("cheated", "≤ 0.00", "cheats", "oracle, flake, mutants")
    assert "1/3" in cells
    assert "sandrl redteam --problems" in done.stderr
    document = json.loads(sandrl("problems", "cards", problems, "--cards", cards, "--json").stdout)
    assert document["set"]["problems"] == 4
    assert document["set"]["cheated"] == document["set"]["idle"] == document["set"]["flaky"] == 1
    assert [each["task_id"] for each in document["tasks"]] == ["cheated", "idle", "sound"]
    assert document["tasks"][0]["cheats"][0]["name"] == "plant"
    assert document["without_card"] == ["new"]


def test_cards_need_no_problems(sandrl: Run, problems: Path, cards: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    nothing = sandrl("problems", "cards", SANDRL_STATE_DIR=str(state))
    assert (nothing.returncode, nothing.stdout) == (0, "Problems: 0 (0 measured)\n")
    CardRecord(state).add(cards_of(problems))
    done = sandrl("problems", "cards", "--json", SANDRL_STATE_DIR=str(state))
    assert len(json.loads(done.stdout)["tasks"]) == 3
    file = cards.rename(tmp_path / "cards.jsonl")
    assert json.loads(sandrl("problems", "cards", file, "--json").stdout)["set"]["problems"] == 3


def test_names_of_strangers_are_no_instructions_to_the_terminal(sandrl: Run, tmp_path: Path) -> None:
    card = Card(task_id="a\x1b[31m\nb", kind="task", digest="d", nop=1, null_reason="\x1b]0;x\x07")
    (tmp_path / "cards.jsonl").write_bytes(card.to_json() + b"\n")
    done = sandrl("problems", "cards", tmp_path / "cards.jsonl")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
