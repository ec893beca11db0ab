"""Runs one `sandrl redteam`, from its request to its report, without its presentation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sandrl.answers.builds import has_tools, language_of
from sandrl.config.scoring import RedteamConfig
from sandrl.config.words import BUNDLED
from sandrl.errors import CleanupError, GateError, InfrastructureError, InputError, UsageError, raise_for_end
from sandrl.events import Emit, Warned, ignore
from sandrl.judge.judge import Judge
from sandrl.problems import Problem, load_problems
from sandrl.problems.loading import reading_of
from sandrl.redteam.campaign import RedteamReport, attack, count_runs
from sandrl.redteam.corpus import EXPLOITS, EXPLOITS_IN_CPP
from sandrl.redteam.corpus.compiled import PRIMES
from sandrl.redteam.exploit import COMPILED, Exploit, ExploitKind, aim_at
from sandrl.rewards.estimate import SandboxEstimate, estimate_sandboxes
from sandrl.rewards.scoring import lifetime_seconds
from sandrl.runs.held import SandboxTime
from sandrl.sandboxes import Interrupt, SandboxRequest
from sandrl.scoring.options import ScoreOptions
from sandrl.settings import Settings


@dataclass(frozen=True, slots=True)
class RedteamRun:
    """A finished campaign.

    Attributes:
        cleanup_error: Set if sandboxes were left behind.
        held: The sandbox time that was used, and its cost.
        exhausted: Says that the budget is used up; empty if it is not.
    """

    report: RedteamReport
    cleanup_error: CleanupError | None = None
    held: SandboxTime = field(default_factory=SandboxTime)
    exhausted: str = ""

    def raise_for_outcome(self) -> None:
        """Raises what the command should end with, the most urgent first.

        Raises:
            InterruptedRunError: If the user asked to stop.
            BudgetError: If the budget is used up.
            CleanupError: If sandboxes were left behind.
            InfrastructureError: If something could not be judged because its sandboxes failed.
            GateError: If an exploit was rewarded or has no reward, or a control failed.
        """
        report = self.report
        message = (
            f"interrupted: {len(report.attempts)} attempts were judged, {report.unfinished} runs were not finished"
        )
        raise_for_end(
            message,
            signal_number=report.signal_number,
            cleanup_error=self.cleanup_error,
            exhausted=self.exhausted if report.unfinished else "",
        )
        if failed := report.unscorable:
            message = f"{len(failed)} runs could not be judged: {failed[0].detail}"
            raise InfrastructureError(message, hint="check the runtime, and try again: sandrl runtime status")
        complaints = []
        for attempts, what in (
            (report.rewarded, f"of {len(report.attempts)} exploits were rewarded"),
            (report.excused, "exploits got a null reward instead of 0.0"),
        ):
            if attempts:
                first = f"{attempts[0].exploit.name} on {attempts[0].target.problem.task_id}"
                complaints.append(f"{len(attempts)} {what} (first: {first})")
        if disturbed := report.disturbed:
            first = f"{disturbed[0].task_id}: {disturbed[0].detail or disturbed[0].status}"
            complaints.append(f"{len(disturbed)} of {len(report.neighbours)} controls failed (first: {first})")
        if complaints:
            raise GateError(
                "; ".join(complaints), hint="list the exploits and what each one does with `sandrl redteam --list`"
            )


def run_redteam(
    request: RedteamConfig, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None
) -> RedteamRun:
    """Tries the corpus on problems.

    Raises:
        UsageError: If the input cannot be used.
        ServiceError: If the runtime does not do its part.
    """
    interrupt = interrupt or Interrupt()
    options = ScoreOptions.of(request)
    exploits, problems = _targets(request)
    if not problems:
        raise InputError(
            "no problem can be attacked: exploits are code, for problems that check what code returns or prints",
            path=request.problems,
            hint="name another set; tasks are left out, and problems that reward every program that ends with status 0",
        )
    sandboxes = SandboxRequest.of(request, "redteam")
    allowance = sandboxes.allowance(settings)
    connection = sandboxes.connect(settings, emit=emit)
    if _needs_compiled(request, exploits):
        if connection.is_local and not has_tools(language_of(PRIMES)):
            packages = ", ".join(language_of(PRIMES).forms[-1].packages)
            emit(
                Warned(
                    "exploits in C++ are skipped, because there is no compiler",
                    f"install the Debian package {packages}",
                )
            )
        else:
            problems.append(PRIMES)
    lifetime = lifetime_seconds({problem.task_id: problem for problem in problems}, options.limits)
    job = sandboxes.job(
        connection,
        command="redteam",
        max_lifetime_seconds=lifetime,
        allowance=allowance,
        interrupt=interrupt,
        emit=emit,
    )
    with interrupt.heard(), job:
        report = attack(
            problems,
            exploits,
            job=job,
            judge=Judge.on(connection, require_isolated=request.require_isolated),
            options=replace(options, concurrency=connection.concurrency(request.concurrency)),
            emit=emit,
            interrupt=interrupt,
        )
    return RedteamRun(report, job.cleanup_error(), job.spending.held, job.exhausted)


def estimate_redteam(request: RedteamConfig, settings: Settings) -> SandboxEstimate:
    """What a campaign would take; nothing is started, and exploits in C++ count where there is a compiler here.

    Raises:
        UsageError: If the input cannot be used.
    """
    exploits, problems = _targets(request)
    if _needs_compiled(request, exploits) and has_tools(language_of(PRIMES)):
        problems.append(PRIMES)
    counts = count_runs(problems, exploits)
    return estimate_sandboxes(request, ScoreOptions.of(request).limits, settings, command="redteam", counts=counts)


def _targets(request: RedteamConfig) -> tuple[tuple[Exploit, ...], list[Problem]]:
    exploits = find_exploits(request.exploits)
    loaded = load_problems(request.problems, **reading_of(request))
    problems = first_of_each_kind(loaded.problems.values(), request.num_problems or None)
    if request.problems == BUNDLED:
        problems += dict.fromkeys(problem for exploit in exploits for problem in exploit.problems)
    return exploits, problems


# No bundled problem is in C++.
def _needs_compiled(request: RedteamConfig, exploits: Iterable[Exploit]) -> bool:
    return request.problems == BUNDLED and any(exploit.kinds >= COMPILED for exploit in exploits)


def find_exploits(names: Iterable[str]) -> tuple[Exploit, ...]:
    """The exploits with these names, or of these groups; all of them if there are no names.

    Raises:
        UsageError: If there is none of a name.
    """
    wanted, every = set(names), (*EXPLOITS, *EXPLOITS_IN_CPP)
    if not wanted:
        return every
    known = {exploit.name for exploit in every} | {exploit.group for exploit in every}
    for name in sorted(wanted - known):
        raise UsageError(f"no exploit or group of exploits is called {name!r}", hint="list them: sandrl redteam --list")
    return tuple(exploit for exploit in every if {exploit.name, exploit.group} & wanted)


def first_of_each_kind(problems: Iterable[Problem], limit: int | None) -> list[Problem]:
    """The first problems of each kind; without those that reward whatever ends well."""
    seen: Counter[ExploitKind] = Counter()
    kept = []
    for problem in problems:
        target = aim_at(problem)
        if target is None or (limit is not None and seen[target.kind] >= limit):
            continue
        seen[target.kind] += 1
        kept.append(problem)
    return kept
