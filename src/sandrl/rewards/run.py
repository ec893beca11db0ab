"""One `sandrl reward` from its inputs to its report: the whole workflow, without a word about how it is shown.

The design decision: everything that can be wrong with the input is found out before a runtime is looked for, and
everything that is found out later is written down before it is told: a result is in the run directory and in `--out` by
the time anyone hears of it.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from pydantic import JsonValue

from sandrl import __version__
from sandrl.errors import (
    CleanupError,
    GateError,
    InfrastructureError,
    InputError,
    InterruptedRunError,
    SandrlError,
    ServiceError,
    UsageError,
)
from sandrl.events import Emit, JobStarted, LogLevel, Warned, all_of, ignore
from sandrl.jsonl import STANDARD_INPUT, RowAppender
from sandrl.problems import Completion, Problem, demo_completions, demo_problems, load_completions, load_problems
from sandrl.rewards.cache import VerdictCache
from sandrl.rewards.document import result_document, to_line
from sandrl.rewards.extraction import Extraction
from sandrl.rewards.judge import IsolatedJudge, Limits, check_limits
from sandrl.rewards.options import ScoreOptions
from sandrl.rewards.policies import Components, RewardName
from sandrl.rewards.records import trajectory_row
from sandrl.rewards.scoring import lifetime_seconds, score
from sandrl.rewards.summary import ScoredCompletion, ScoreReport, Summary
from sandrl.rewards.verdict import Status
from sandrl.runs import MetricsRecorder, Outcome, OwnerRow, RunLog, RunWriter
from sandrl.sandboxes import Connection, Interrupt, Job, checked_job_id, connect, current_owner, new_job_id
from sandrl.settings import RuntimeKind, Settings

BUNDLED = "bundled"


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
        max_sandboxes: How many sandboxes to hold at once, those included that are being stopped; None for no bound.
        retries: How often a completion is tried again when its sandbox failed.
        reward: The policy that turns a verdict into a reward.
        components: What is rewarded besides.
        caching: Judge identical completions once.
        cache: Directory of verdicts of earlier runs; None keeps them within this run.
        require_isolated: Give no reward where the checks cannot be kept out of the completion's process.
        runtime: What runs the sandboxes.
        image: Their image; the runtime's own default unless given.
        packages: Installed packages the code may import (local runtime).
        tags: Tags of every sandbox.
        job_id: Id of the job; a random one unless given.
        out: Where to append results as they arrive.
        runs_dir: Where the run directory is made; what the settings say unless given.
        run_name: Its name.
        log_level: How much the run's log has.
        fail_under: The pass rate below which the run fails.
    """

    completions: str | None = None
    problems: str = BUNDLED
    extraction: Extraction = Extraction.AUTO
    limits: Limits = field(default_factory=Limits)
    skip_bad_rows: bool = False
    concurrency: int | None = None
    max_sandboxes: int | None = None
    retries: int = 2
    reward: RewardName = RewardName.BINARY
    components: Components = field(default_factory=Components)
    caching: bool = True
    cache: Path | None = None
    require_isolated: bool = False
    runtime: RuntimeKind = RuntimeKind.AUTO
    image: str | None = None
    packages: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    job_id: str | None = None
    out: Path | None = None
    runs_dir: Path | None = None
    run_name: str | None = None
    log_level: LogLevel = LogLevel.INFO
    fail_under: float | None = None


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
            GateError: If the pass rate is below what was asked for.
        """
        report, results = self.report, self.report.results
        if report.signal_number:
            total = len(results) + report.unfinished
            saved = f"{self.run_dir}" + (f" and {self.request.out}" if self.request.out else "")
            raise InterruptedRunError(
                f"interrupted: {len(results)} of {total} completions are scored and saved in {saved}",
                signal_number=report.signal_number,
                hint=None if self.cleanup_error is None else self.cleanup_error.hint,
            )
        if self.cleanup_error is not None:
            raise self.cleanup_error
        failed = [result for result in results if result.status is Status.INFRASTRUCTURE]
        if failed:
            message = f"{len(failed)} of {len(results)} completions could not be scored: {failed[0].detail}"
            raise InfrastructureError(message, hint="score them again when the runtime is well: sandrl runtime status")
        invalid = [result for result in results if result.status is Status.INVALID_PROBLEM]
        if invalid:
            message = f"{len(invalid)} completions answer problems that are broken: {invalid[0].detail}"
            raise InputError(message, path=self.request.problems, field=invalid[0].task_id)
        self._raise_for_gate(report.summary)

    def _raise_for_gate(self, summary: Summary) -> None:
        gate = self.request.fail_under
        if gate is None or (summary.pass_rate is not None and summary.pass_rate >= gate):
            return
        rate = "none was scored" if summary.pass_rate is None else f"the pass rate is {summary.pass_rate:g}"
        raise GateError(f"{rate}, and --fail-under asks for {gate:g}")


def run_reward(
    request: RewardRequest, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None
) -> RewardRun:
    """Scores completions from a file and leaves a run directory.

    Args:
        request: What to score, and how.
        settings: What the environment says.
        emit: Told what happens.
        interrupt: The user's wish to stop.

    Raises:
        UsageError: If the input cannot be used.
        ServiceError: If the runtime, or the disk, does not do its part.
    """
    interrupt = interrupt or Interrupt()
    _check(request)
    completions, problems = _load(request, emit)
    job_id = checked_job_id(request.job_id) if request.job_id else new_job_id()
    with ExitStack() as stack:
        cache = VerdictCache(request.cache)
        out = None if request.out is None else stack.enter_context(_opened(request.out))
        connection = connect(
            settings, runtime=request.runtime, image=request.image, packages=request.packages, emit=emit
        )
        stack.enter_context(interrupt.heard())
        concurrency = request.concurrency or connection.suggested_concurrency
        if request.completions is None:
            # The demo is there to be seen arriving out of order; its programs mostly sleep.
            concurrency = request.concurrency or max(concurrency, len(completions))
        writer = stack.enter_context(_run_directory(request, settings, connection, job_id, concurrency))
        recorder = stack.enter_context(MetricsRecorder(writer, emit=emit))
        tell = all_of(recorder, RunLog(writer, request.log_level), emit)
        job = Job(
            connection,
            job_id=job_id,
            tags=request.tags,
            command="reward",
            max_sandboxes=request.max_sandboxes,
            run_dir=writer.path,
            ledger=writer.ledger(OwnerRow.model_validate(current_owner())),
            max_lifetime_seconds=lifetime_seconds(problems, request.limits),
            emit=tell,
        )
        at_once = min(concurrency, len(completions), request.max_sandboxes or concurrency)
        tell(JobStarted(job_id, len(completions), at_once))

        def keep(result: ScoredCompletion) -> None:
            writer.write_trajectory(trajectory_row(result, completions[result.index], job_id=job_id))
            if out is not None:
                out.append(to_line(result_document(result)))

        with job:
            report = score(
                completions,
                problems,
                job=job,
                judge=IsolatedJudge(
                    with_site_packages=connection.has_site_packages, require_isolated=request.require_isolated
                ),
                options=ScoreOptions(
                    extraction=request.extraction,
                    limits=request.limits,
                    concurrency=concurrency,
                    retries=request.retries,
                    policy=request.reward.policy,
                    components=request.components,
                    caching=request.caching,
                ),
                cache=cache,
                emit=tell,
                interrupt=interrupt,
                on_result=keep,
            )
        recorder.log(0)
        writer.finish(Outcome.INTERRUPTED if report.signal_number else Outcome.FINISHED)
        return RewardRun(request, report, writer.path, job.cleanup_error())


def _check(request: RewardRequest) -> None:
    check_limits(request.limits)
    if request.retries < 0:
        raise UsageError(f"--retries must be 0 or more, not {request.retries}")
    if request.cache is not None and not request.caching:
        raise UsageError("--cache and --no-cache contradict each other")
    if request.completions is None and request.problems != BUNDLED:
        raise UsageError("--problems needs completions to score", hint="sandrl reward COMPLETIONS.jsonl --problems …")
    if request.completions == request.problems == STANDARD_INPUT:
        raise UsageError("completions and problems cannot both come from standard input")


def _load(request: RewardRequest, emit: Emit) -> tuple[tuple[Completion, ...], Mapping[str, Problem]]:
    if request.completions is None:
        return demo_completions(), demo_problems()
    problems = load_problems(request.problems, skip_bad_rows=request.skip_bad_rows)
    completions = load_completions(request.completions, task_ids=problems.problems, skip_bad_rows=request.skip_bad_rows)
    for noun, skipped in (("problems", problems.skipped), ("completions", completions.skipped)):
        if skipped:
            emit(Warned(f"{len(skipped)} rows of {noun} skipped; the first: {skipped[0].message}"))
    return completions.completions, problems.problems


@contextmanager
def _opened(path: Path) -> Iterator[RowAppender]:
    try:
        appender = RowAppender(path)
    except ServiceError as error:
        raise InputError(error.message, hint="choose another --out") from error
    with appender:
        yield appender


@contextmanager
def _run_directory(
    request: RewardRequest, settings: Settings, connection: Connection, job_id: str, concurrency: int
) -> Iterator[RunWriter]:
    """Makes the run directory, and says in it that the job failed if it did."""
    writer = RunWriter.create(
        request.runs_dir or settings.runs_dir,
        command="reward",
        job_id=job_id,
        state_dir=settings.state_dir,
        name=request.run_name,
        options=_options(request, connection, concurrency),
        versions={"sandrl": __version__, "cwsandbox": version("cwsandbox"), "python": platform.python_version()},
        secrets=settings.secrets,
    )
    with writer:
        try:
            yield writer
        except SandrlError:
            writer.finish(Outcome.FAILED)
            raise


def _options(request: RewardRequest, connection: Connection, concurrency: int) -> dict[str, JsonValue]:
    return {
        "completions": request.completions,
        "problems": request.problems,
        "extract": request.extraction.value,
        "timeout_seconds": request.limits.timeout_seconds,
        "check_timeout_seconds": request.limits.check_timeout_seconds,
        "max_output_bytes": request.limits.max_output_bytes,
        "max_file_bytes": request.limits.max_file_bytes,
        "concurrency": concurrency,
        "max_sandboxes": request.max_sandboxes,
        "retries": request.retries,
        "reward": request.reward.value,
        "format_reward": request.components.format_reward,
        "length_penalty": request.components.length_penalty,
        "timeout_penalty": request.components.timeout_penalty,
        "caching": request.caching,
        "cache": None if request.cache is None else str(request.cache),
        "require_isolated": request.require_isolated,
        "runtime": connection.kind.value,
        "runtime_reason": connection.reason,
        "image": connection.image,
        "packages": list(request.packages),
        "tags": list(request.tags),
        "out": None if request.out is None else str(request.out),
        "log_level": request.log_level.value,
        "fail_under": request.fail_under,
    }
