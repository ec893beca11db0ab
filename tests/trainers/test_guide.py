"""The guide leads from problems to a curve: its commands run as they stand on the page, and give what it promises."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from sandrl.cli.app import main
from sandrl.runs import RunReader
from sandrl.runs.config import origin_of
from tests.support.own_problems import own_problems
from tests.support.page_runs import run_page
from tests.support.pages import DOCS, calls_of, page_of, shell_of

GUIDE = page_of(DOCS / "guides" / "rl-training.md")
# Unsloth's commands look for their package before all else; tests/unsloth runs such.
PRINTED = [
    words
    for block in GUIDE.blocks
    if block.classes & {"needs-gpu", "needs-key"}
    for words in calls_of(shell_of(block))
    if words[0] != "unsloth" and "--dry-run" not in words
]


@pytest.mark.parametrize("words", PRINTED, ids=" ".join)
def test_the_options_of_what_needs_a_gpu_make_a_configuration(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = own_problems(tmp_path / "all.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "train.jsonl").write_text("".join(rows[5:]), encoding="utf-8")
    (tmp_path / "validation.jsonl").write_text("".join(rows[:5]), encoding="utf-8")
    assert main([*words, "--print-config"]) == 0
    model = words[words.index("--model") + 1] if "--model" in words else None
    shown = capsys.readouterr().out
    assert 'problems = "train.jsonl"' in shown
    assert model is None or f'model = "{model}"' in shown


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_guide_leads_from_problems_to_a_curve(tmp_path: Path, tiny_directory: Path) -> None:
    done = run_page(GUIDE, tmp_path, extra="grpo")
    everything = "\n".join(done.output.values())
    assert "References that pass: 3/3" in everything
    assert "Verdict: held" in everything
    runs = done.directory / "runs"

    first = RunReader(runs / "first").evaluations().rows
    assert [row.step for row in first] == [0, 10, 20, 30, 40, 50]
    assert origin_of(RunReader(runs / "further").config.options).run_id == "first"  # type: ignore[union-attr]

    with (done.directory / "curve.csv").open(newline="") as file:
        curve = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    assert [(row["step"], row["seeds"]) for row in curve] == [(step, 3) for step in (0, 10, 20, 30, 40)]
    assert all(row["low"] < row["mean"] < row["high"] for row in curve)
    assert curve[-1]["mean"] > curve[0]["mean"] + 0.15
    [(gain, half)] = re.findall(r"pass@1 rises by (\S+) ± (\S+) \(190 problems\)", everything)
    assert float(gain) > float(half) > 0
    assert all((done.directory / name).stat().st_size for name in ("first.html", "first.csv"))
