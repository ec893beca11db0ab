"""`sandrl runs tail` on runs that the real writer writes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from sandrl.runs import RunOutcome, RunWriter
from sandrl.runs.rows import LogRow
from tests.cli.conftest import SANDRL, Run
from tests.support.terminal import run_on_terminal

pytestmark = pytest.mark.usefixtures("own_index")


def begin(tmp_path: Path, *, resume: bool = False) -> RunWriter:
    return RunWriter.create(tmp_path / "runs", command="grpo", job_id="job-1", name="live", resume=resume)


def log(writer: RunWriter, *numbers: int, level: str = "info") -> None:
    for number in numbers:
        writer.append(LogRow(job_id="job-1", rank=writer.rank, level=level, event="happened", fields={"n": number}))


def numbers(output: str) -> list[int]:
    return [json.loads(line)["fields"]["n"] for line in output.splitlines()]


def test_the_last_lines_of_a_finished_run_are_printed_and_its_state_is_said(sandrl: Run, tmp_path: Path) -> None:
    with begin(tmp_path) as writer:
        log(writer, *range(20))
        writer.finish(RunOutcome.FINISHED)
    done = sandrl("runs", "tail", "--lines", "3", "--json")
    assert (done.returncode, numbers(done.stdout)) == (0, [17, 18, 19])
    assert done.stderr == "The run live is finished\n"
    plain = sandrl("runs", "tail", "live").stdout.splitlines()
    assert len(plain) == 10
    assert plain[-1].endswith("info happened n=19")
    assert sandrl("runs", "tail", "--lines", "0").stdout == ""


def test_a_killed_run_with_an_unfinished_line_is_said_to_be_killed(sandrl: Run, tmp_path: Path) -> None:
    with begin(tmp_path) as writer:
        log(writer, 1)
        with (writer.path / "log.jsonl").open("ab") as file:
            file.write(b'{"cut off')
    done = sandrl("runs", "tail", "--json")
    assert numbers(done.stdout) == [1]
    assert "is killed: its last job ended without writing an outcome" in done.stderr


def test_a_run_is_followed_over_ranks_until_its_job_ends(tmp_path: Path) -> None:
    with begin(tmp_path) as first:
        log(first, 1)
        first.finish(RunOutcome.INTERRUPTED)
    writer = begin(tmp_path, resume=True)
    words = [*SANDRL, "runs", "tail", "live", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline()]
        other = RunWriter(writer.path, job_id="job-1", rank=1)
        for each, number in ((writer, 2), (other, 3), (writer, 4)):
            log(each, number)
            seen.append(process.stdout.readline())
        log(writer, 5)
        writer.finish(RunOutcome.FINISHED)
        other.close()
        writer.close()
        rest, said = process.communicate(timeout=60)
    assert numbers("".join(seen) + rest) == [1, 2, 3, 4, 5]
    assert (process.returncode, said) == (0, "The run live is finished\n")


def test_ctrl_c_is_the_way_out_and_hostile_text_reaches_no_terminal(tmp_path: Path) -> None:
    with begin(tmp_path) as writer:
        writer.append(LogRow(job_id="job-1", level="info", event="happened", fields={"text": "\x1b[2J\u202eowned"}))
        shown = run_on_terminal(
            [*SANDRL, "runs", "tail", str(writer.path)], typed=[(lambda text: "owned" in text, b"\x03")]
        )
    assert shown.exit_code == 0
    assert "\x1b[2J" not in shown.text
    assert "Traceback" not in shown.text
