"""What a run of scored completions is asked for, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sandrl.bounds import check_weight
from sandrl.errors import CleanupError, GateError, InfrastructureError, InputError, UsageError, raise_for_end
from sandrl.events import LogLevel
from sandrl.problems.sources import BUNDLED
from sandrl.rewards.extraction import Extraction
from sandrl.rewards.judge import Limits, check_limits
from sandrl.rewards.options import SecondOpinion
from sandrl.rewards.policies import Components, load_policy
from sandrl.rewards.summary import ScoreReport, Summary, raise_for_rewards
from sandrl.rewards.verdict import Status
from sandrl.sandboxes import SandboxRequest
from sandrl.settings import ReportTo


@dataclass(frozen=True, slots=True)
class RewardRequest:
    """What to score, and how.

    Attributes:
        completions: A JSONL file, `-` for standard input, or None for the bundled demo.
        problems: `bundled`, or a file of problems.
        extraction: Where in a completion its code is.
        limits: What a completion may use.
        skip_bad_rows: Skip and count rows that cannot be used, instead of refusing the file.
        concurrency: How many sandboxes at once; what suits the runtime unless given.
        retries: How often a completion is tried again when its sandbox failed.
        reward: The policy that turns a verdict into a reward, as `load_policy` takes it.
        components: What is rewarded besides.
        caching: Judge identical completions once.
        cache: Directory of verdicts of earlier runs; None keeps them within this run.
        require_isolated: Give no reward where the checks cannot be kept out of the completion's process.
        second_opinion: Which failed completions to judge again in one process; no reward changes.
        sandboxes: Where the code runs.
        job_id: Id of the job; a random one unless given.
        out: Where to append results as they arrive.
        runs_dir: Where the run directory is made; what the settings say unless given.
        run_name: Its name.
        log_level: How much the run's log has.
        report_to: Where metrics go besides the run directory.
        fail_under: The pass rate below which the run fails.
    """

    completions: str | None = None
    problems: str = BUNDLED
    extraction: Extraction = Extraction.AUTO
    limits: Limits = field(default_factory=Limits)
    skip_bad_rows: bool = False
    concurrency: int | None = None
    retries: int = 2
    reward: str = "binary"
    components: Components = field(default_factory=Components)
    caching: bool = True
    cache: Path | None = None
    require_isolated: bool = False
    second_opinion: SecondOpinion = field(default_factory=SecondOpinion)
    sandboxes: SandboxRequest = field(default_factory=SandboxRequest)
    job_id: str | None = None
    out: Path | None = None
    runs_dir: Path | None = None
    run_name: str | None = None
    log_level: LogLevel = LogLevel.INFO
    report_to: ReportTo = ReportTo.AUTO
    fail_under: float | None = None

    def check(self) -> None:
        """Finds options that cannot work.

        Raises:
            UsageError: If there is one.
        """
        check_limits(self.limits)
        load_policy(self.reward)
        self.second_opinion.check()
        if self.fail_under is not None:
            check_weight("--fail-under", self.fail_under)
        if self.retries < 0:
            raise UsageError(f"--retries must be 0 or more, not {self.retries}")
        if self.cache is not None and not self.caching:
            raise UsageError("--cache and --no-cache contradict each other")


@dataclass(frozen=True, slots=True)
class RewardRun:
    """A finished run.

    Attributes:
        request: What was asked for.
        report: What came of it.
        run_dir: Where it is written down.
        cleanup_error: Set if sandboxes were left behind.
    """

    request: RewardRequest
    report: ScoreReport
    run_dir: Path
    cleanup_error: CleanupError | None = None

    def raise_for_outcome(self) -> None:
        """Raises what the command should end with, the most urgent first.

        Raises:
            InterruptedRunError: If the user asked to stop.
            CleanupError: If sandboxes were left behind.
            InfrastructureError: If completions are unscorable because their sandboxes failed.
            InputError: If completions are unscorable because their problems are broken.
            UsageError: If the reward function failed for completions.
            GateError: If the pass rate is below what was asked for.
        """
        report, results = self.report, self.report.results
        total = len(results) + report.unfinished
        saved = f"{self.run_dir}" + (f" and {self.request.out}" if self.request.out else "")
        message = f"interrupted: {len(results)} of {total} completions are scored and saved in {saved}"
        raise_for_end(message, signal_number=report.signal_number, cleanup_error=self.cleanup_error)
        failed = [result for result in results if result.status is Status.INFRASTRUCTURE]
        if failed:
            message = f"{len(failed)} of {len(results)} completions could not be scored: {failed[0].detail}"
            raise InfrastructureError(message, hint="score them again when the runtime is well: sandrl runtime status")
        invalid = [result for result in results if result.status is Status.INVALID_PROBLEM]
        if invalid:
            message = f"{len(invalid)} completions answer problems that are broken: {invalid[0].detail}"
            raise InputError(message, path=self.request.problems, field=invalid[0].task_id)
        raise_for_rewards(results)
        self._raise_for_gate(report.summary)

    def _raise_for_gate(self, summary: Summary) -> None:
        gate = self.request.fail_under
        if gate is None or (summary.pass_rate is not None and summary.pass_rate >= gate):
            return
        rate = "none was scored" if summary.pass_rate is None else f"the pass rate is {summary.pass_rate:g}"
        raise GateError(f"{rate}, and --fail-under asks for {gate:g}")
