"""Cards of problems: their quality, how measurements are joined, and the record of a user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandrl.config.words import VerifierPlace
from sandrl.errors import InputError
from sandrl.runs.card_record import CardRecord, cards_at
from sandrl.runs.cards import PARTS, Card, CardSet, Cheat, Mutant, card_document, card_under, merged


def card(task_id: str = "t", digest: str = "d", **parts: Any) -> Card:
    return Card(task_id=task_id, kind="task", digest=digest, **parts)


def cheat(reward: float) -> Cheat:
    return Cheat(name="plant", group="files", reward=reward)


VALIDATED: dict[str, Any] = {"oracle": 1.0, "oracle_runs": 3, "oracle_passes": 3, "nop": 0.0, "nop_runs": 3}


@pytest.mark.parametrize(
    ("parts", "quality", "weakest"),
    [
        ({}, None, None),
        (VALIDATED, 1.0, None),
        (VALIDATED | {"oracle_passes": 0}, 0.0, "oracle"),
        (VALIDATED | {"nop": 0.25}, 0.75, "nop"),
        (VALIDATED | {"nop": -1.0}, 1.0, None),
        (VALIDATED | {"nop": 7.0}, 0.0, "nop"),
        (VALIDATED | {"nop": float("nan")}, 0.0, "nop"),
        (VALIDATED | {"flake_rate": 0.1, "flake_runs": 30}, 0.9, "flake"),
        (VALIDATED | {"cheats_tried": 40, "cheats": (cheat(0.5), cheat(1.0))}, 0.0, "cheats"),
        (VALIDATED | {"cheats_tried": 0}, 1.0, None),
        (VALIDATED | {"cheats_tried": 1, "cheats_left_out": 72, "cheats": (cheat(0.5),)}, 0.5, "cheats"),
        (VALIDATED | {"mutants": ()}, 1.0, None),
        (
            VALIDATED
            | {
                "mutants": (
                    Mutant(name="a", reward=0, is_killed=True),
                    Mutant(name="b", reward=1),
                    Mutant(name="c", reward=None),
                )
            },
            0.5,
            "mutants",
        ),
        # Of a problem that is no task: a stub is accepted, and it has no reference.
        ({"nop": 1.0, "stubs": ("None",)}, 0.0, "nop"),
    ],
)
def test_the_quality_is_that_of_the_weakest_known_part(
    parts: dict[str, Any], quality: float | None, weakest: str | None
) -> None:
    found = card(**parts)
    assert found.quality == (None if quality is None else pytest.approx(quality))
    assert found.weakest == weakest


def test_parts_that_were_not_measured_are_unknown_and_no_zeros() -> None:
    document = card_document(card(nop=0.0, nop_runs=1))
    assert document["unknown"] == ["oracle", "flake", "cheats", "mutants"]
    assert document["quality"] == 1.0
    assert document["oracle"] is document["flake_rate"] is document["mutation_score"] is document["mutants"] is None
    json.dumps(document, allow_nan=False)


def test_a_validation_and_a_campaign_make_one_card() -> None:
    validated = card(**VALIDATED, seconds={"verifier": 2.0})
    campaign = card(oracle=1.0, oracle_runs=1, oracle_passes=1, nop=1.0, nop_runs=1, cheats_tried=2, cheats=(cheat(1),))
    for order in ([validated, campaign], [campaign, validated]):
        found = merged(order)["d"]
        assert (found.oracle_runs, found.nop, found.cheats_tried, found.seconds) == (3, 0.0, 2, {"verifier": 2.0})


def test_a_part_that_is_measured_again_is_replaced_whole() -> None:
    flaky = card(flake_rate=0.5, flake_low=0.1, flake_high=0.9, flake_runs=4, cheats_tried=2, cheats=(cheat(1),))
    later = card(flake_rate=0.0, flake_low=0.0, flake_high=0.5, flake_runs=4, cheats_tried=2)
    found = merged([flaky, later])["d"]
    assert (found.flake_rate, found.flake_low, found.cheats) == (0.0, 0.0, ())


def test_times_are_those_of_most_runs() -> None:
    validated, control = card(oracle_runs=3, seconds={"agent": 1.0}), card(oracle_runs=1, seconds={"agent": 9.0})
    assert merged([validated, control])["d"].seconds == merged([control, validated])["d"].seconds == {"agent": 1.0}


def test_a_smaller_campaign_adds_the_cheats_that_it_found() -> None:
    whole = card(cheats_tried=70, cheats=(cheat(0.5),))
    single = card(cheats_tried=1, cheats=(Cheat(name="other", group="files", reward=1.0),))
    found = merged([whole, single])["d"]
    assert (found.cheats_tried, {each.name: each.reward for each in found.cheats}) == (70, {"plant": 0.5, "other": 1.0})
    assert merged([single, whole])["d"].cheats == whole.cheats
    assert merged([whole, card(cheats_tried=1, cheats=(cheat(1.0),))])["d"].cheats == (cheat(1.0),)


_RUNS = st.integers(0, 4)
_SHARE = st.floats(0, 1)
_CARDS = st.builds(
    Card,
    task_id=st.sampled_from("ab"),
    kind=st.just("task"),
    digest=st.sampled_from("xyz"),
    verifier=st.sampled_from(VerifierPlace).map(str),
    oracle_under=st.dictionaries(st.sampled_from(VerifierPlace).map(str), _SHARE, max_size=2),
    oracle_runs=_RUNS,
    oracle_passes=_RUNS,
    nop=st.none() | st.floats(),
    nop_runs=_RUNS,
    flake_rate=st.none() | _SHARE,
    flake_runs=_RUNS,
    cheats_tried=st.none() | _RUNS,
    cheats=st.lists(st.builds(cheat, st.floats()), max_size=2).map(tuple),
    mutants=st.none() | st.lists(st.builds(Mutant, name=st.text(), reward=st.none() | _SHARE), max_size=2).map(tuple),
    seconds=st.dictionaries(st.text(max_size=3), _SHARE, max_size=2),
)


@settings(deadline=None)
@given(st.lists(_CARDS, max_size=6), st.integers(0, 6))
def test_cards_may_be_joined_at_any_time(cards: list[Card], cut: int) -> None:
    whole = merged(cards)
    in_parts = merged([*merged(cards[:cut]).values(), *cards[cut:]])
    assert {key: repr(each) for key, each in in_parts.items()} == {key: repr(each) for key, each in whole.items()}
    assert repr(merged(whole.values())) == repr(whole)


def test_a_cheat_that_earns_later_is_not_forgotten() -> None:
    campaign, one = card(cheats_tried=73), card(cheats_tried=1, cheats=(cheat(1.0),))
    assert merged([campaign, one])["d"].cheats == (cheat(1.0),)
    assert merged([campaign, one])["d"].cheats_tried == 73
    assert merged([one, campaign])["d"].cheats == ()
    known = merged([card(cheats_tried=73, cheats=(cheat(1.0),)), card(cheats_tried=2, cheats=(cheat(0.5),))])["d"]
    assert known.cheats == (cheat(0.5),)
    assert merged([known, card(cheats_tried=2)])["d"].cheats == known.cheats


@settings(deadline=None)
@given(st.lists(_CARDS, max_size=6))
def test_a_part_that_was_measured_once_stays_known(cards: list[Card]) -> None:
    found = merged(cards)
    for each in cards:
        if each.oracle_runs:
            assert found[each.key].oracle_runs >= each.oracle_runs
        if each.cheats_tried:
            assert "cheats" not in found[each.key].unknown
        if each.quality is not None and set(found[each.key].unknown) == set(PARTS):
            raise AssertionError("a quality was lost")


@settings(deadline=None)
@given(_CARDS)
def test_a_card_is_between_0_and_1_and_survives_its_file(given_card: Card) -> None:
    quality = given_card.quality
    assert quality is None or 0 <= quality <= 1
    again = Card.model_validate_json(given_card.to_json())
    assert again.to_json() == given_card.to_json()


SHIM = Cheat(name="shim", group="path", reward=1.0, stopped_by=("artifacts",))
"""A cheat that only the last setting stops."""

CHEATED: dict[str, Any] = {
    **VALIDATED,
    "cheats_tried": 9,
    "cheats": (SHIM,),
    "oracle_under": {"separate": 1.0, "artifacts": 1.0},
}


@pytest.mark.parametrize(
    ("parts", "separate", "artifacts"),
    [
        (CHEATED, 0.0, 1.0),
        (CHEATED | {"cheats": (SHIM, cheat(0.25))}, 0.0, 0.75),
        (CHEATED | {"nop": 0.5}, 0.0, 0.5),
        # Right answers earn nothing there, or less.
        (CHEATED | {"oracle_under": {"artifacts": 0.0}}, 0.0, 0.0),
        (CHEATED | {"oracle_under": {"artifacts": 0.5}}, 0.0, 0.0),
        # It has no solution, or none was tried there.
        (CHEATED | {"oracle_under": {}}, 0.0, 1.0),
    ],
)
def test_a_cheat_that_a_setting_stops_does_not_count_under_it(
    parts: dict[str, Any], separate: float, artifacts: float
) -> None:
    found = card(**parts)
    assert found.quality == 0.0
    assert found.quality_under == {"separate": separate, "artifacts": artifacts}
    assert ("oracle" in found.under("artifacts").unknown) == ("artifacts" not in parts["oracle_under"])
    assert card_document(found)["quality_under"] == found.quality_under


def test_a_setting_changes_nothing_for_problems_that_are_no_tasks() -> None:
    found = card(**CHEATED).model_copy(update={"kind": "tests"})
    assert (found.under("artifacts"), found.quality_under) == (found, {})


def test_what_was_measured_under_a_setting_is_a_card_of_its_own() -> None:
    plain = card(**CHEATED)
    broken = card(oracle=0.0, oracle_runs=3, nop=0.0, nop_runs=3, verifier="artifacts")
    for order in ([plain, broken], [broken, plain]):
        known = merged(order)
        assert {key: each.quality for key, each in known.items()} == {"d": 0.0, "d@artifacts": 0.0}
        assert known["d"].parts["oracle"] == 1.0
        found = card_under(known, "d", "artifacts")
        assert found is not None
        # Three runs of the solution count more than the one of the campaign; its cheats count as well.
        assert (found.oracle_runs, found.weakest, found.parts["cheats"]) == (3, "oracle", 1.0)
        assert card_under(known, "d", "task") == plain
    assert card_under(merged([broken]), "d", "artifacts") == broken
    assert card_under(merged([broken]), "d", "separate") is None


def test_what_earned_under_a_setting_counts_there() -> None:
    plain = card(**CHEATED | {"nop_runs": 100})
    worse = card(nop=1.0, nop_runs=1, cheats_tried=9, cheats=(cheat(1.0),), verifier="artifacts")
    found = card_under(merged([plain, worse]), "d", "artifacts")
    assert found is not None
    assert (found.parts["nop"], found.parts["cheats"]) == (0.0, 0.0)


def test_the_card_of_a_set_says_what_each_setting_is_worth() -> None:
    cards = [
        card("a", "1", **CHEATED),
        card("b", "2", **CHEATED | {"cheats": (SHIM, cheat(0.5))}),
        card("c", "3", **VALIDATED),
    ]
    found = CardSet.of(cards)
    assert (found.earning, found.stopped) == (3, {"artifacts": 2})
    assert found.under == {"separate": pytest.approx(1 / 3), "artifacts": pytest.approx((1 + 0.5 + 1) / 3)}
    assert CardSet.of(cards[2:]).under == {}
    assert CardSet.of([each.under("artifacts") for each in cards]).under == {}


def test_the_card_of_a_set_counts_its_problems() -> None:
    cards = [
        card("sound", "1", **VALIDATED, cheats_tried=4),
        card("cheated", "2", **VALIDATED, cheats_tried=4, cheats=(cheat(1),)),
        card("idle", "3", **VALIDATED | {"nop": 0.5}),
        card("unsolved", "4", **VALIDATED | {"oracle_passes": 2}, flake_rate=0.25, flake_runs=4),
        card("failed", "5", null_runs=3),
    ]
    found = CardSet.of(cards, [*(each.task_id for each in cards), "new"])
    assert (found.problems, found.measured, found.perfect) == (6, 4, 1)
    assert (found.cheated, found.idle, found.unsolvable, found.flaky) == (1, 1, 1, 1)
    assert (found.least, found.least_of) == (0.0, "cheated")
    assert found.mean == pytest.approx((1 + 0 + 0.5 + 2 / 3) / 4)
    assert found.unknown == {"oracle": 2, "nop": 2, "flake": 5, "cheats": 4, "mutants": 6}
    assert found.weakest == {"cheats": 1, "nop": 1, "oracle": 1}
    assert found.unmeasured == ("failed", "new")
    assert json.dumps(found.document(), allow_nan=False)


def test_the_card_of_an_empty_set_has_no_quality() -> None:
    found = CardSet.of([])
    assert (found.problems, found.mean, found.least_of) == (0, None, None)


def test_the_record_joins_what_commands_add(tmp_path: Path) -> None:
    CardRecord(tmp_path / "new").add([card(**VALIDATED)])
    CardRecord(tmp_path / "new").add([card("renamed", cheats_tried=3), card(digest="e", nop=0.0)])
    known = CardRecord(tmp_path / "new").read()
    assert known.keys() == {"d", "e"}
    assert (known["d"].task_id, known["d"].cheats_tried, known["d"].oracle_runs) == ("renamed", 3, 3)
    assert CardRecord(tmp_path / "none").read() == {}


def test_damage_costs_the_damaged_lines_only(tmp_path: Path) -> None:
    good = card(**VALIDATED).to_json()
    hostile = [
        b"\xff\xfe",
        b"[1]",
        b'{"digest": "d"}',
        json.dumps({**json.loads(good), "digest": "1", "oracle_runs": -1}).encode(),
        json.dumps({**json.loads(good), "digest": "2", "flake_rate": 7}).encode(),
        json.dumps({**json.loads(good), "digest": "3", "flake_rate": "NaN"}).encode(),
        json.dumps({**json.loads(good), "digest": "4", "cheats": [{"name": 3}]}).encode(),
        json.dumps({**json.loads(good), "digest": "5", "schema": 99}).encode(),
        json.dumps({**json.loads(good), "digest": "6", "measured_at": "2026-01-01T00:00:00"}).encode(),
        b'{"task_id": "cut off',
    ]
    path = tmp_path / "cards.jsonl"
    path.write_bytes(b"\n".join([good, *hostile]))
    assert CardRecord(tmp_path).read().keys() == {"d"}
    # A line that a killed process left is ended before the next one.
    CardRecord(tmp_path).add([card(digest="e", nop=0.0)])
    assert CardRecord(tmp_path).read().keys() == {"d", "e"}


def test_a_record_that_has_grown_is_compacted_and_loses_nothing(tmp_path: Path) -> None:
    mutants = tuple(Mutant(name=f"m{number}", path="x" * 200) for number in range(100))
    for number in range(200):
        CardRecord(tmp_path).add([card(digest=str(number % 7), nop=0.0, nop_runs=1, mutants=mutants)])
    newer = json.dumps({**json.loads(card(digest="newer").to_json()), "schema": 99, "other": [1]}).encode()
    with (tmp_path / "cards.jsonl").open("ab") as file:
        file.write(newer + b"\n")
    before = CardRecord(tmp_path).read()
    CardRecord(tmp_path).add([card(digest="last", nop=0.0)])
    lines = (tmp_path / "cards.jsonl").read_bytes().splitlines()
    assert len(lines) < 80
    assert json.loads(newer) in map(json.loads, lines)
    assert {key: each for key, each in CardRecord(tmp_path).read().items() if key != "last"} == before


_ADDS = """
import sys
from pathlib import Path
from sandrl.runs.card_record import CardRecord
from sandrl.runs.cards import Card
for number in range(int(sys.argv[3])):
    digest = f"{sys.argv[2]}-{number % 20}"
    row = Card(task_id="t" * 20_000, kind="task", digest=digest, nop=0.0, nop_runs=number + 1)
    CardRecord(Path(sys.argv[1])).add([row])
    print(number, flush=True)
"""


def _adding(state: Path, name: str, count: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _ADDS, str(state), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})


def test_processes_add_at_once_while_the_record_is_compacted(tmp_path: Path) -> None:
    processes = [_adding(tmp_path, name, 60) for name in "abc"]
    for each in processes:
        each.communicate(timeout=120)
        assert each.returncode == 0
    found = {digest: each.nop_runs for digest, each in CardRecord(tmp_path).read().items()}
    assert found == {f"{name}-{number}": number + 41 for name in "abc" for number in range(20)}


def test_a_process_that_is_killed_leaves_every_card_that_it_has_added(tmp_path: Path) -> None:
    # Beyond the size at which `add` compacts the file.
    process = _adding(tmp_path, "a", 1000)
    assert process.stdout is not None
    added = 0
    for line in process.stdout:
        added = int(line)
        if added == 200:
            process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    found = CardRecord(tmp_path).read()
    for number in range(added - 19, added + 1):
        assert found[f"a-{number % 20}"].nop_runs > number
    CardRecord(tmp_path).add([card(digest="later", nop=0.0)])
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]


def test_cards_are_those_of_a_file_or_a_directory(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    file = tmp_path / "set" / "cards.jsonl"
    file.write_bytes(card(**VALIDATED).to_json() + b"\n")
    for place in (file, file.parent):
        assert cards_at(str(place), tmp_path, tmp_path).keys() == {"d"}
    (tmp_path / "empty.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="has no cards"):
        cards_at(str(tmp_path / "empty.jsonl"), tmp_path, tmp_path)
    with pytest.raises(InputError, match="is not a run directory"):
        cards_at(str(tmp_path / "none"), tmp_path, tmp_path)


def test_some_cheats_that_earn_nothing_leave_the_part_unknown() -> None:
    assert card(cheats_tried=1, cheats_left_out=72).unknown == card().unknown
    assert "cheats" not in card(cheats_tried=73).unknown


def test_a_setting_that_stops_the_only_cheat_of_a_small_campaign_leaves_nothing_known() -> None:
    stopped = Cheat(name="shim", group="path", reward=1.0, stopped_by=("separate", "artifacts"))
    alone = card(cheats_tried=1, cheats_left_out=72, cheats=(stopped,))
    assert (alone.quality, alone.quality_under) == (0.0, {"separate": None, "artifacts": None})
    assert CardSet.of([alone]).under == {}
