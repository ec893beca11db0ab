"""The flow that all scripts share: a whole run, a run that is killed and resumed, and a report on both.

There are two runs, because the numbers of a run agree exactly only if no job was killed, and because only a run that is
killed shows whether `--resume` finds its checkpoint and which processes and sandboxes remain after SIGKILL.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandrl.errors import SandrlError, UsageError
from sandrl.runs import RunReader
from sandrl.trainers.art.results import steps_made
from sandrl.trainers.checkpoints import CHECKPOINTS, last_checkpoint
from tools.gpu import checks
from tools.gpu.commands import Command, children_of, end_survivors, sandboxes_of, stop_orphans
from tools.gpu.machine import MIB_PER_GIB, Gpu, MemoryWatch, Torch, look_at_gpu, versions
from tools.gpu.preconditions import Needs, check_disk, check_gpu, check_model, check_packages, check_torch
from tools.gpu.report import Check, Report, State, checked

# What a driver and other programs may hold more than before.
_SPARE_MIB = 512
_FREED_SECONDS = 60.0
_RUNTIME = "local"
_ONLY_GPU = "needs a GPU"
_FEWEST_STEPS = 4


@dataclass(frozen=True, slots=True)
class Verification:
    """What a script verifies.

    Attributes:
        title: What the report is called.
        command: The command of `sandrl`, in words.
        options: Its options, but for the run's name and place and the number of steps.
        steps: How many steps a run has.
        kill_after: After how many the second run is killed.
        milestone: How the line of output begins that says that a step is done and safe; `{step}` is its number.
        is_art: Whether ART trains.
        on_gpu: Whether it runs on a GPU; if not, what only a GPU shows is skipped.
        has_checkpoints: Whether checkpoints are on this machine.
        further: Finds out what else should hold of a run, from its directory and from what the command printed.
        scored: Options of a third run, which trains for a step on the episodes of the first; none: there is none.
        environment: Variables for the command.
        timeout_seconds: How long a command may take.
    """

    title: str
    command: tuple[str, ...]
    options: tuple[str, ...]
    steps: int
    kill_after: int
    milestone: str
    is_art: bool = False
    on_gpu: bool = True
    has_checkpoints: bool = True
    further: Callable[[RunReader, str], list[Check]] = lambda reader, text: []
    scored: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    timeout_seconds: float = 3600.0


def skipped(name: str) -> Check:
    """A check that is left out where there is no GPU."""
    return Check(name, State.SKIP, _ONLY_GPU)


class Verifier:
    """Runs a verification.

    Args:
        verification: What to verify.
        work: The directory for runs and for what commands print.
        report: Where the findings go.
        tell: Told of progress, line by line.
    """

    def __init__(
        self, verification: Verification, work: Path, report: Report, tell: Callable[[str], None] = lambda line: None
    ) -> None:
        self._verification = verification
        self._work = work
        self._report = report
        self._tell = tell
        self._used_before_mib = look_at_gpu().used_mib if verification.on_gpu else 0

    def run(self) -> None:
        """Makes the runs and verifies them."""
        if self._whole():
            self._killed()
            if self._verification.scored:
                self._scored()

    def _whole(self) -> bool:
        command, peak_mib = self._finish(self._words("whole"), "whole")
        if command is None:
            return False
        reader = RunReader(self._work / "whole")
        self._report.measured["whole"] = {**checks.measured(reader), **_peak(peak_mib)}
        self._add("whole", self._checks(reader, command.text, is_complete=True))
        self._add("whole", [self._no_sandbox(reader), self._memory_is_free("after the run")])
        return True

    def _killed(self) -> None:
        verification = self._verification
        run = self._work / "killed"
        with MemoryWatch() as watch, self._start(self._words("killed"), "killed") as command:
            line = verification.milestone.format(step=verification.kill_after)
            if not command.wait_for(line, verification.timeout_seconds):
                detail = f"it ended, or took too long, before the line {line!r}\n{command.last_lines}"
                self._add("killed", [checked("the run was killed and resumed", False, detail)])
                return
            children = children_of(command.process.pid)
            command.kill()
        self._tell(f"killed after step {verification.kill_after}")
        survivors = end_survivors(children)
        detail = "; ".join(survivors)
        self._add("killed", [checked("no process of vLLM outlives SIGKILL", not survivors, detail)])
        self._add("killed", [self._memory_is_free("after SIGKILL")])
        jobs = [job.job_id for job in RunReader(run).config.jobs]
        stopped = stop_orphans(jobs, _RUNTIME)
        done = self._safe_steps(run)
        resumed, peak_mib = self._finish((*verification.command, "--resume", str(run)), "resumed")
        if resumed is None:
            return
        reader = RunReader(run)
        peak = max((mib for mib in (watch.peak_mib, peak_mib) if mib is not None), default=None)
        self._report.measured["killed"] = {**checks.measured(reader), **_peak(peak)}
        self._add("killed", checks.resumption_checks(reader, verification.steps, done, is_art=verification.is_art))
        self._add("killed", self._checks(reader, command.text + resumed.text, is_complete=False))
        self._add("killed", [self._no_sandbox(reader, stopped), self._memory_is_free("after the run")])

    def _scored(self) -> None:
        """Trains on the episodes of the whole run, whose tokens the trained model's server must score first."""
        words = (*self._verification.scored, "--trajectories", str(self._work / "whole"))
        command, peak_mib = self._finish(self._words("scored", words, steps=1), "scored")
        if command is None:
            return
        reader = RunReader(self._work / "scored")
        self._report.measured["scored"] = {**checks.measured(reader), **_peak(peak_mib)}
        found = [checks.ended_well(reader), *checks.training_checks(reader, 1), checks.nothing_left_out(reader)]
        self._add("scored", [*found, self._memory_is_free("after the run")])

    def _safe_steps(self, run: Path) -> int:
        if self._verification.is_art:
            return steps_made(run)
        found = last_checkpoint(run / CHECKPOINTS)
        return 0 if found is None else found.step

    def _words(self, name: str, options: Sequence[str] | None = None, steps: int | None = None) -> tuple[str, ...]:
        verification = self._verification
        chosen = verification.options if options is None else options
        place = ("--steps", str(steps or verification.steps), "--run-name", name, "--runs-dir", str(self._work))
        return (*verification.command, *chosen, *place, "--runtime", _RUNTIME, "--report-to", "none")

    def _start(self, words: Sequence[str], name: str) -> Command:
        command = Command(words, self._work / f"{name}.txt", self._verification.environment)
        self._report.commands.append(command.line)
        self._tell(f"{command.line}\n  its output: {command.output}")
        return command

    def _finish(self, words: Sequence[str], name: str) -> tuple[Command | None, int | None]:
        """Runs a command to its end; None if it did not end well, which is a failed check."""
        began = time.monotonic()
        with MemoryWatch() as watch, self._start(words, name) as command:
            code = command.end(self._verification.timeout_seconds)
        ended = "took too long" if code is None else f"exit code {code}"
        detail = f"{ended}, {time.monotonic() - began:.0f} s" + ("" if code == 0 else f"\n{command.last_lines}")
        self._add(name, [checked("the command ends with exit code 0", code == 0, detail)])
        return (command if code == 0 else None), watch.peak_mib

    def _checks(self, reader: RunReader, text: str, *, is_complete: bool) -> list[Check]:
        verification = self._verification
        found = [
            checks.ended_well(reader),
            *checks.common_checks(reader, verification.steps, is_complete=is_complete),
        ]
        if verification.has_checkpoints:
            look = checks.art_checkpoint_checks if verification.is_art else checks.checkpoint_checks
            found += look(reader, verification.steps)
        return found + verification.further(reader, text)

    def _no_sandbox(self, reader: RunReader, stopped: int = 0) -> Check:
        left = sandboxes_of([job.job_id for job in reader.config.jobs], _RUNTIME)
        detail = f"{len(left)} are left" if left else ""
        if stopped:
            detail += f"{'; ' if detail else ''}`sandboxes cleanup --orphans` stopped {stopped} after SIGKILL"
        return checked("no sandbox is left", not left, detail)

    def _memory_is_free(self, when: str) -> Check:
        """Whether the GPU's memory is free again; a driver takes a moment to see to that."""
        name = f"the GPU's memory is free again {when}"
        if not self._verification.on_gpu:
            return skipped(name)
        ends_at = time.monotonic() + _FREED_SECONDS
        while (used := look_at_gpu().used_mib) > self._used_before_mib + _SPARE_MIB and time.monotonic() < ends_at:
            time.sleep(1.0)
        detail = f"{used} MiB in use, {self._used_before_mib} MiB before"
        return checked(name, used <= self._used_before_mib + _SPARE_MIB, detail)

    def _add(self, run: str, found: Sequence[Check]) -> None:
        for check in found:
            self._report.checks.append(Check(f"[{run}] {check.name}", check.state, check.detail))
            self._tell(f"{check.state} [{run}] {check.name}")


def _peak(mib: int | None) -> dict[str, str]:
    return {} if mib is None else {"peak GPU memory (GiB, all processes)": f"{mib / MIB_PER_GIB:.1f}"}


def make_parser(
    description: str | None, *, model: str, steps: int, problems: str, has_cpu: bool
) -> argparse.ArgumentParser:
    """The options that all scripts have.

    Args:
        description: The script's docstring.
        model: The model that is trained unless another is named.
        steps: How many steps a run has unless told otherwise.
        problems: The problems that it trains on unless told otherwise.
        has_cpu: Whether the script can be tried without a GPU.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", default=model, help=f"a model of the hub, or a directory with one (default: {model})"
    )
    parser.add_argument("--problems", default=problems, help=f"a problem set or a file (default: {problems})")
    parser.add_argument("--steps", type=int, default=steps, help=f"steps of each run, 4 or more (default: {steps})")
    parser.add_argument("--work", type=Path, help="a new directory for the runs (default: one below runs)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the report as JSON")
    parser.add_argument("--check-only", action="store_true", help="check what is needed, download and run nothing")
    parser.add_argument(
        "--timeout-minutes", type=float, default=60.0, help="how long a command may take (default: %(default)g)"
    )
    if has_cpu:
        parser.add_argument(
            "--on-cpu",
            action="store_true",
            help="try the script itself without a GPU: the tiny policy on the processor; verifies nothing of a GPU",
        )
    return parser


def check_needs(needs: Needs, model: str, work: Path) -> tuple[Gpu, Torch]:
    """Makes sure that a script can run on this machine, before anything is downloaded.

    Raises:
        SandrlError: If something is missing; the cheapest check comes first.
    """
    gpu = check_gpu(needs)
    check_packages(needs)
    torch = check_torch(needs)
    check_model(model)
    check_disk(work, needs)
    return gpu, torch


def machine_facts(gpu: Gpu | None, torch: Torch | None) -> dict[str, str]:
    """The machine as a report has it."""
    facts = {"GPU": "no GPU: tried on the processor" if gpu is None else f"{gpu.name}, {gpu.total_mib} MiB"}
    if gpu is not None:
        facts["driver"] = gpu.driver
    if torch is not None:
        facts |= {"CUDA of torch": torch.cuda or "none", "compute capability": torch.capability or "none"}
        facts["bfloat16"] = "yes" if torch.bf16 else "no"
    return {**facts, **versions()}


def default_work(name: str) -> Path:
    """A directory that no earlier script has used."""
    return Path("runs") / f"gpu-{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def execute(
    arguments: argparse.Namespace,
    name: str,
    needs: Needs,
    make: Callable[[], Verification],
    *,
    on_gpu: bool = True,
    further: Callable[[], None] = lambda: None,
) -> int:
    """What a script does, from its options to its exit code.

    Args:
        arguments: Those of `make_parser`.
        name: Of the script.
        needs: What it needs.
        make: Makes the verification, once everything that it needs is there.
        on_gpu: Whether it runs on a GPU.
        further: Raises an error if something is missing that only this script needs.

    Returns:
        0 if all checks passed, 1 if one failed, 2 if something is missing.
    """
    work: Path = arguments.work or default_work(name)
    try:
        _check_options(arguments, work)
        gpu, torch = check_needs(needs, arguments.model, work) if on_gpu else (None, None)
        if not on_gpu:
            check_packages(needs)
        further()
    except SandrlError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 2
    if arguments.check_only:
        print("Everything that is needed is there.")
        return 0
    work.mkdir(parents=True, exist_ok=True)
    verification = make()
    report = Report(verification.title, machine=machine_facts(gpu, torch))
    Verifier(verification, work.absolute(), report, lambda line: print(line, file=sys.stderr, flush=True)).run()
    print(report.text())
    if arguments.json is not None:
        report.write(arguments.json)
    return report.exit_code


def _check_options(arguments: argparse.Namespace, work: Path) -> None:
    if arguments.steps < _FEWEST_STEPS:
        raise UsageError(f"--steps {arguments.steps}: must be {_FEWEST_STEPS} or more, to be killed half way")
    if work.exists() and (not work.is_dir() or any(work.iterdir())):
        raise UsageError(f"{work} is there already", hint="--work DIRECTORY takes a new directory")
