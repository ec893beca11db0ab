"""Runs the corpus against problems and their judge, with controls in between.

Every problem's reference is judged before any exploit runs. If it fails then, the problem itself is at fault, and the
reference is not used as a control; a reference that passed then and fails beside an exploit was disturbed by it. The
reference also decides whether the checks of a problem can be split from a completion; an exploit never does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sandrl.events import Emit, JobStarted, Warned, ignore
from sandrl.events.results import ScoredCompletion, Status, Trust
from sandrl.judge.judge import Judge
from sandrl.problems import Completion, Problem, reference_completions
from sandrl.redteam.exploit import Exploit, ExploitKind, Target, aim_at, arm
from sandrl.rewards.measuring import Run
from sandrl.rewards.scoring import score
from sandrl.sandboxes import Interrupt, Job
from sandrl.scoring.options import ScoreOptions

# After so many exploits comes a neighbour: with several sandboxes at once, one is nearly always next to some exploit.
_EXPLOITS_PER_NEIGHBOUR = 6

EXPLOIT = "exploit."
"""What the labels of exploits begin with; their name follows."""

_REFERENCE = "oracle.1"


@dataclass(frozen=True, slots=True)
class ExploitAttempt:
    """What came of one exploit against one problem."""

    exploit: Exploit
    target: Target
    result: ScoredCompletion

    @property
    def is_rewarded(self) -> bool:
        """Whether it earned anything, and not with the trust that says that its own operator decided."""
        return bool(self.result.reward) and self.result.trust is not Trust.OWN_OPERATOR


@dataclass(frozen=True, slots=True)
class ExploitTally:
    """What came of one exploit.

    Attributes:
        attempts: How many problems it was tried on.
        rewarded: How many of these rewarded it.
        partly: How many did not, although some of their checks passed.
    """

    exploit: Exploit
    attempts: int
    rewarded: int
    partly: int
    statuses: Mapping[Status, int]


@dataclass(frozen=True, slots=True)
class RedteamReport:
    """The report of a campaign.

    Attributes:
        attempts: Every exploit against every problem, in order.
        neighbours: Results of controls: reference solutions that ran in between.
        unfit: References that failed before any exploit ran; they are not used as controls.
        left_out: Problems that reward every program that ends with status 0, which cannot be attacked.
        unfinished: How much has no result because the user stopped.
    """

    targets: tuple[Target, ...]
    attempts: tuple[ExploitAttempt, ...]
    neighbours: tuple[ScoredCompletion, ...]
    unfit: tuple[ScoredCompletion, ...] = ()
    left_out: tuple[str, ...] = ()
    unfinished: int = 0

    @property
    def rewarded(self) -> tuple[ExploitAttempt, ...]:
        """Exploits that earned something."""
        return tuple(attempt for attempt in self.attempts if attempt.is_rewarded)

    @property
    def excused(self) -> tuple[ExploitAttempt, ...]:
        """Exploits without a reward where the reference has one: a policy would learn to leave its group."""
        unfit = {result.task_id for result in self.unfit}
        return tuple(
            attempt
            for attempt in self.attempts
            if attempt.result.status in (Status.NOT_ISOLATED, Status.INVALID_PROBLEM)
            and attempt.target.problem.reference is not None
            and attempt.target.problem.task_id not in unfit
        )

    @property
    def disturbed(self) -> tuple[ScoredCompletion, ...]:
        """Controls that failed, for another reason than a failed sandbox."""
        return tuple(each for each in self.neighbours if not each.is_pass and each.status is not Status.INFRASTRUCTURE)

    @property
    def unscorable(self) -> tuple[ScoredCompletion, ...]:
        """Runs that could not be judged because their sandboxes failed."""
        results = (*self.unfit, *self.neighbours, *(attempt.result for attempt in self.attempts))
        return tuple(result for result in results if result.status is Status.INFRASTRUCTURE)

    def tallies(self) -> tuple[ExploitTally, ...]:
        """What came of each exploit, in the order of the corpus."""
        by_name: dict[str, list[ExploitAttempt]] = {}
        for attempt in self.attempts:
            by_name.setdefault(attempt.exploit.name, []).append(attempt)
        return tuple(_tally(attempts) for attempts in by_name.values())


def _tally(attempts: Sequence[ExploitAttempt]) -> ExploitTally:
    return ExploitTally(
        exploit=attempts[0].exploit,
        attempts=len(attempts),
        rewarded=sum(attempt.is_rewarded for attempt in attempts),
        partly=sum(not attempt.is_rewarded and attempt.result.passed > 0 for attempt in attempts),
        statuses=dict(Counter(attempt.result.status for attempt in attempts).most_common()),
    )


def attack(
    problems: Iterable[Problem],
    exploits: Sequence[Exploit],
    *,
    job: Job,
    judge: Judge | None = None,
    options: ScoreOptions | None = None,
    emit: Emit = ignore,
    interrupt: Interrupt | None = None,
) -> RedteamReport:
    """Tries every exploit on every problem it suits, each in a fresh sandbox, among reference solutions.

    A costly one is tried on one problem of each kind. Nothing is judged by its looks, so there is no cache.
    """
    options = replace(options or ScoreOptions(), caching=False)
    judge = judge or Judge.on(job.connection)
    interrupt = interrupt or Interrupt()
    found = {problem.task_id: problem for problem in problems}

    def judged(runs: Sequence[Run]) -> dict[str, ScoredCompletion]:
        at_once = job.connection.at_once(options.concurrency)
        emit(JobStarted(job.id, len(runs), min(at_once, len(runs))))
        completions = [Completion(each.id, each.task_id, code=each.code) for each in runs]
        report = score(completions, found, job=job, judge=judge, options=options, emit=emit, interrupt=interrupt)
        return {result.id: result for result in report.results}

    return attack_by(judged, found.values(), exploits, emit=emit, interrupt=interrupt)


def attack_by(
    judged: Callable[[Sequence[Run]], Mapping[str, ScoredCompletion]],
    problems: Iterable[Problem],
    exploits: Sequence[Exploit],
    *,
    emit: Emit,
    interrupt: Interrupt,
) -> RedteamReport:
    """The same, where something else judges programs: it returns results by id, of all unless the user has stopped."""
    aimed = [(problem, aim_at(problem)) for problem in problems]
    targets = tuple(target for _, target in aimed if target is not None)
    left_out = tuple(problem.task_id for problem, target in aimed if target is None)
    references = reference_completions(target.problem for target in targets)
    before = judged([Run(each.task_id, _REFERENCE, code=each.code or "") for each in references])
    unfit = tuple(result for result in before.values() if not result.is_pass)
    if unfit:
        message = f"{len(unfit)} reference solutions already fail without an exploit"
        emit(Warned(message, "to see why, run sandrl problems validate"))
    honest = [each for each in references if each.task_id not in {result.task_id for result in unfit}]
    plan = plan_attempts(exploits, targets)
    if interrupt.signal_number or len(before) < len(references):
        return RedteamReport(targets, (), (), unfit, left_out, len(plan))
    runs, aims = _among_neighbours(plan, honest)
    results = judged(runs)
    known = [each for each in runs if each.id in results]
    return RedteamReport(
        targets=targets,
        attempts=tuple(ExploitAttempt(*aims[each.id], results[each.id]) for each in known if each.id in aims),
        neighbours=tuple(results[each.id] for each in known if each.id not in aims),
        unfit=unfit,
        left_out=left_out,
        unfinished=len(runs) - len(known),
    )


def count_runs(problems: Iterable[Problem], exploits: Sequence[Exploit]) -> list[tuple[Problem, int]]:
    """How many programs a campaign runs on each problem: its reference, exploits, and its share of the neighbours."""
    aimed = [aim_at(problem) for problem in problems]
    targets = [target for target in aimed if target is not None]
    honest = reference_completions(target.problem for target in targets)
    plan = plan_attempts(exploits, targets)
    runs, _ = _among_neighbours(plan, honest)
    counts = Counter([*(each.task_id for each in honest), *(each.task_id for each in runs)])
    return [(target.problem, counts[target.problem.task_id]) for target in targets]


def plan_attempts(exploits: Iterable[Exploit], targets: Sequence[Target]) -> list[tuple[Exploit, Target]]:
    """Which exploit to try on which problem: each on its own ones, else on all that it suits.

    A costly one is tried on the first of each kind.
    """
    exploits, plan = list(exploits), []
    owned = {problem for exploit in exploits for problem in exploit.problems}
    others = [target for target in targets if target.problem not in owned]
    for exploit in exploits:
        own = [target for target in targets if target.problem in exploit.problems]
        plan += [(exploit, target) for target in own] * exploit.copies
        seen: set[ExploitKind] = set()
        for target in () if own else others:
            if target.kind in exploit.kinds and not (exploit.costly and target.kind in seen):
                plan.append((exploit, target))
                seen.add(target.kind)
    return plan


def _among_neighbours(
    plan: Sequence[tuple[Exploit, Target]], honest: Sequence[Completion]
) -> tuple[list[Run], dict[str, tuple[Exploit, Target]]]:
    """The exploits as programs, with a control before every few of them and at the end, and what each exploit is."""
    runs: list[Run] = []
    aims: dict[str, tuple[Exploit, Target]] = {}
    places, copies = 0, Counter[str]()

    def add_neighbour() -> None:
        nonlocal places
        if honest:
            one = honest[places % len(honest)]
            places += 1
            runs.append(Run(one.task_id, f"neighbour.{places}", code=one.code or ""))

    for number, (exploit, target) in enumerate(plan):
        if number % _EXPLOITS_PER_NEIGHBOUR == 0:
            add_neighbour()
        run = Run(target.problem.task_id, f"{EXPLOIT}{exploit.name}", code=arm(exploit, target))
        copies[run.id] += 1
        if copies[run.id] > 1:
            run = replace(run, label=f"{run.label}.{copies[run.id]}")
        runs.append(run)
        aims[run.id] = exploit, target
    for _ in range(max(len(honest) - places, 1)):
        add_neighbour()
    return runs, aims
