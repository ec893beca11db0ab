"""Makes the README's pictures from real runs: nothing in them is drawn by hand.

The tables are what a terminal shows at one moment of a real run (Rich's own SVG export); the report is the page of a
run in a headless browser. Pictures of training need a training run, which needs an extra: name it with `--run`. The
table is reproduced from the events in the run's log, each at its time.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter
from rich.console import Console

from sandrl.cli.metrics import view
from sandrl.cli.results import LiveTable
from sandrl.cli.training import ART, TrainingTable
from sandrl.config.scoring import RewardConfig
from sandrl.events import (
    CompletionFinished,
    Event,
    ProblemPlayed,
    RewardCallFinished,
    StepFinished,
    StepStarted,
    TrainingStarted,
    all_of,
)
from sandrl.rewards import run_reward
from sandrl.runs import RunReader, find_run, step_rows
from sandrl.runs.report import write_report
from sandrl.settings import load_settings

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
COLUMNS = 84
COLUMNS_OF_TRAINING = 96
FINISHED_IN_PICTURE = 3
SHARE_DONE_IN_PICTURE = 0.75
KEY_METRICS = [
    "reward/mean",
    "pass_rate",
    "held_out/*",
    "loss",
    "unscorable_share",
    "aviato/*_p95",
    "aviato/executions",
]


def score_demo(runs_dir: Path, picture: Path) -> Path:
    """Scores the demo, and takes a picture of its table on the way; returns the run's directory."""
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, height=24, force_terminal=True, file=nowhere, highlight=False)
        table = LiveTable(console)

        def look(event: Event) -> None:
            if isinstance(event, CompletionFinished) and event.finished == FINISHED_IN_PICTURE:
                console.print(table.render())
                console.save_svg(str(picture), title="sandrl reward")

        request = RewardConfig(runs_dir=runs_dir)
        return run_reward(request, load_settings(), emit=all_of(table, look)).run_dir


def picture_training(run: Path, picture: Path) -> None:
    """Takes a picture of what `sandrl grpo` showed while a step late in the run was judged."""
    reader = RunReader(run)
    told = sorted([*_steps(reader), *_calls_and_completions(reader)], key=lambda each: each[0])
    moments = [time for time, event in told if isinstance(event, StepFinished)]
    last = moments[int(len(moments) * SHARE_DONE_IN_PICTURE)]
    now = told[0][0]
    with Path("/dev/null").open("w") as nowhere:
        console = Console(
            record=True, width=COLUMNS_OF_TRAINING, height=24, force_terminal=True, file=nowhere, highlight=False
        )
        table = TrainingTable(console, clock=lambda: now.timestamp())
        for now, event in told:
            table(event)
            if now > last and isinstance(event, CompletionFinished) and event.finished > event.of // 2:
                break
        console.print(table.render())
        console.save_svg(str(picture), title="sandrl grpo")


def picture_art(run: Path, picture: Path) -> None:
    """Takes a picture of what `sandrl art train` showed while episodes of a step late in the run were played."""
    reader = RunReader(run)
    steps = int(str(reader.config.options["steps"]))
    rows = step_rows(reader)
    last = rows[int(len(rows) * SHARE_DONE_IN_PICTURE)]
    told: list[tuple[datetime, Event]] = [
        (row.time, StepFinished(int(row.metrics["train/step"] or 0) - 1, steps, row.metrics)) for row in rows
    ]
    told = sorted([*told, *_problems_played(reader)], key=lambda each: each[0])
    now = told[0][0]
    with Path("/dev/null").open("w") as nowhere:
        console = Console(
            record=True, width=COLUMNS_OF_TRAINING, height=26, force_terminal=True, file=nowhere, highlight=False
        )
        table = TrainingTable(console, ART, clock=lambda: now.timestamp())
        table(_beginning(reader, run, steps))
        for now, event in told:
            if isinstance(event, StepFinished):
                table(event)
                table(StepStarted(event.step + 1, steps, 1, _problems_of_a_step(reader)))
            elif now > last.time:
                table(event)
                if isinstance(event, ProblemPlayed) and event.finished > event.of // 2:
                    break
        console.print(table.render())
        console.save_svg(str(picture), title="sandrl art train")


def _beginning(reader: RunReader, run: Path, steps: int) -> Event:
    """What a training on the episodes of its own model said at first."""
    options = reader.config.options
    model, problems = str(options["base_model"]), _problems_of_a_step(reader)
    episodes = problems * int(str(options["samples"]))
    backend = str(options["backend"])
    return TrainingStarted(run.name, model, problems, 0, steps, episodes, backend=backend, actor=model)


def _problems_of_a_step(reader: RunReader) -> int:
    return int(str(reader.config.options["num_problems"]))


def _problems_played(reader: RunReader) -> list[tuple[datetime, Event]]:
    """When the episodes of each problem were over, as the log has their completions."""
    samples = int(str(reader.config.options["samples"]))
    seen: Counter[tuple[int | None, str]] = Counter()
    over: Counter[int | None] = Counter()
    played: list[tuple[datetime, Event]] = []
    for row in reader.log().rows:
        if row.event == "completion_finished":
            task_id = str(row.fields["task_id"])
            seen[row.step, task_id] += 1
            if seen[row.step, task_id] == samples:
                over[row.step] += 1
                played.append((row.time, ProblemPlayed(task_id, (), over[row.step], _problems_of_a_step(reader))))
    return played


def _steps(reader: RunReader) -> list[tuple[datetime, Event]]:
    steps = int(str(reader.config.options["steps"]))
    return [(row.time, StepFinished(row.step, steps, row.metrics)) for row in step_rows(reader)]


def _calls_and_completions(reader: RunReader) -> list[tuple[datetime, Event]]:
    kinds = {"reward_call_finished": RewardCallFinished, "completion_finished": CompletionFinished}
    rows = [row for row in reader.log().rows if row.event in kinds]
    # The line of a completion has the fields of its result beside those of the event.
    fields = [{**row.fields, "result": row.fields} for row in rows]
    return [
        (row.time, TypeAdapter(kinds[row.event]).validate_python(each)) for row, each in zip(rows, fields, strict=True)
    ]


def picture_metrics(run: Path, picture: Path) -> None:
    """Takes a picture of what `sandrl metrics` shows."""
    reader = RunReader(run)
    rows = step_rows(reader)
    patterns = [name for name in KEY_METRICS if _is_measured(name, {name for row in rows for name in row.metrics})]
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, force_terminal=True, file=nowhere, highlight=False)
        for line in view(reader, rows, patterns, COLUMNS):
            console.print(line)
        console.save_svg(str(picture), title="sandrl metrics")


def picture_report(run: Path, folder: Path) -> None:
    """Takes a picture of a run's report, light and dark."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("pictures: needs the Debian package chromium")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        page_file = write_report(RunReader(run), Path(place, "report.html"))
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            size = {"width": 1180, "height": 1000}
            page = browser.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(page_file.as_uri())
            page.wait_for_selector("html[data-ready]")
            page.screenshot(path=str(folder / f"report-{scheme}.png"))
        browser.close()


def _is_measured(pattern: str, names: set[str]) -> bool:
    import fnmatch

    return any(fnmatch.fnmatchcase(name, pattern) for name in names)


def main() -> int:
    """Makes the pictures; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", help="a training run for the pictures of metrics and report; default: the demo's")
    parser.add_argument("--art-run", help="a run of `sandrl art train`; with it, only its picture is made")
    given = parser.parse_args()
    name = given.run
    settings = load_settings()
    PICTURES.mkdir(exist_ok=True)
    if given.art_run is not None:
        picture_art(find_run(given.art_run, settings.state_dir, settings.runs_dir), PICTURES / "art.svg")
        return 0
    with tempfile.TemporaryDirectory() as runs_dir:
        demo = score_demo(Path(runs_dir), PICTURES / "reward.svg")
        run = demo if name is None else find_run(name, settings.state_dir, settings.runs_dir)
        if step_rows(RunReader(run))[-1].step:
            picture_training(run, PICTURES / "training.svg")
        picture_metrics(run, PICTURES / "metrics.svg")
        picture_report(run, PICTURES)
    for picture in sorted(PICTURES.iterdir()):
        print(f"pictures: {picture.relative_to(PICTURES.parents[1])}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
