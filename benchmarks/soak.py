"""Scores correct and hostile completions, four to one, while the local runtime is killed and stopped repeatedly.

`python -m benchmarks.soak --minutes 30` scores batches: solutions from `tests/honest/corpus` that plain Python
passes, and exploits from `sandrl redteam` aimed at the bundled problems. Meanwhile a thread sends SIGKILL, alternately
to the daemon and to a process of its fork server, every 20 to 60 seconds, and before each of these stops the daemon
and some of the processes below it, or all, for some seconds. A line a minute shows the state.

Exits with 1 if a correct completion got 0.0, if a hostile one was rewarded, or if a completion has no result. A reward
of null is correct if the sandboxes of a completion were killed too often; the reasons are counted.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.honest.entries import Entry, load_entries
from tests.honest.oracle import judge_in_plain_python
from tests.honest.test_corpus import KNOWN
from tests.support.fork_server import children, inner_process, outer_process

from benchmarks.reward_throughput import a_job
from sandrl.errors import SandrlError
from sandrl.events.results import ScoredCompletion
from sandrl.problems import Completion, Problem, load_problems
from sandrl.redteam import EXPLOITS, Exploit, Target, aim_at, arm
from sandrl.rewards import Extraction, Limits, ScoreOptions, score
from sandrl.runtime import daemon
from sandrl.sandboxes import connect
from sandrl.settings import RuntimeKind, load_settings

HONEST_PER_HOSTILE = 4
HEARTBEAT_SECONDS = 60.0
STOP_SECONDS = 2.0, 12.0
_HOSTILE = "hostile "
# The daemon is every second victim.
_VICTIMS: tuple[tuple[str, Callable[[int], int]], ...] = (
    ("daemon", lambda pid: pid),
    ("fork server, inner process", inner_process),
    ("daemon", lambda pid: pid),
    ("fork server, outer process", outer_process),
)


@dataclass
class Tally:
    """What has happened so far.

    Attributes:
        honest: Results of honest completions: `1.0`, `0.0`, or the reason for null.
        hostile: Results of hostile completions by status.
        bad: Each result that must not be, in a line.
        errors: Each error that ended a batch early.
        lost: Completions without a result.
        kills: Kills by victim.
        stops: How often processes were stopped.
        orphans: Processes below a daemon when it was killed, as pid and start time.
        sandboxes: Sandboxes since the daemon was started last.
        killed_at: Monotonic time of the last kill.
        slowest: Seconds of the slowest honest completion, and what it was.
    """

    honest: Counter[str] = field(default_factory=Counter)
    hostile: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    lost: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    stops: int = 0
    orphans: set[tuple[int, str]] = field(default_factory=set)
    sandboxes: int = 0
    killed_at: float = 0.0
    slowest: tuple[float, str] = (0.0, "none")

    @property
    def completions(self) -> int:
        """How many have a result."""
        return self.honest.total() + self.hostile.total()

    def add(self, result: ScoredCompletion) -> None:
        """Count a result, and print it if it must not be."""
        self.sandboxes += result.sandboxes + result.canaries
        is_hostile = result.id.startswith(_HOSTILE)
        if is_hostile:
            self.hostile["rewarded" if result.reward else result.status.value] += 1
        else:
            self.honest[f"null, {result.status.value}" if result.reward is None else str(result.reward)] += 1
            self.slowest = max(self.slowest, (result.duration_seconds, in_a_line(result)))
        if (result.reward or 0.0) > 0 if is_hostile else result.reward not in (None, 1.0):
            self.bad.append(f"{in_a_line(result)}; last kill {time.monotonic() - self.killed_at:.1f} s before")
            print(f"BAD: {self.bad[-1]}", flush=True)


def in_a_line(result: ScoredCompletion) -> str:
    """A result with all that explains it."""
    line = f"{result.id} on {result.task_id}: reward {result.reward}, {result.status}: {result.detail!r}"
    return f"{line}; {result.duration_seconds:.1f} s, {result.sandboxes} sandboxes, failures {result.failures}"


class Killer:
    """Kills parts of the runtime at random moments between the two ends of a `with` block.

    Args:
        state_dir: Where the daemon is found.
        tally: Where kills are counted.
        pauses: Shortest and longest pause between two kills, in seconds.
        chance: Chooses the moments.
    """

    def __init__(self, state_dir: Path, tally: Tally, pauses: tuple[float, float], chance: random.Random) -> None:
        self._state_dir = state_dir
        self._tally = tally
        self._pauses = pauses
        self._chance = chance
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="killer")

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        for name, find in itertools.cycle(_VICTIMS):
            half = self._chance.uniform(*self._pauses) / 2
            if self._over.wait(half):
                return
            self._stop()
            if self._over.wait(half):
                return
            while not self._kill(name, find):  # it is being restarted
                if self._over.wait(0.1):
                    return

    def _stop(self) -> None:
        """Stops the daemon and processes below it, all or some, and continues them."""
        endpoint = daemon.find(self._state_dir)
        if endpoint is None:
            return
        family = [endpoint.pid, *descendants(endpoint.pid)]
        if self._chance.random() < 0.5:
            family = self._chance.sample(family, (len(family) + 1) // 2)
        self._tally.stops += 1
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in family:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            if number is signal.SIGSTOP:
                self._over.wait(self._chance.uniform(*STOP_SECONDS))

    def _kill(self, name: str, find: Callable[[int], int]) -> bool:
        endpoint = daemon.find(self._state_dir)
        pid = find(endpoint.pid) if endpoint is not None else 0
        if endpoint is None or not pid:
            return False
        below = {(each, start) for each in descendants(endpoint.pid) if (start := start_time(each))}
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self._tally.orphans |= below
            self._tally.kills[name] += 1
            self._tally.killed_at = time.monotonic()
            if name == "daemon":
                self._tally.sandboxes = 0
            return True
        return False


def main() -> int:
    """Run the soak and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--batch", type=int, default=400, help="completions per batch")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds per completion")
    parser.add_argument("--pause", type=float, nargs=2, default=(20.0, 60.0), metavar="SECONDS", help="between kills")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    settings = load_settings()
    honest, hostile = honest_entries(arguments.concurrency), targets()
    print(f"{len(honest)} correct solutions, {len(EXPLOITS)} exploits, {len(hostile)} problems to attack")
    tally = Tally()
    before = memory()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, {before}", flush=True)
    chance = random.Random(arguments.seed)
    pauses = (arguments.pause[0], arguments.pause[1])
    with heartbeat(tally), Killer(settings.state_dir, tally, pauses, random.Random(arguments.seed + 1)):
        deadline = time.monotonic() + 60 * arguments.minutes
        while time.monotonic() < deadline:
            run_batch(make_batch(honest, hostile, arguments.batch, chance), tally, arguments)
    return report(tally, before)


def honest_entries(concurrency: int) -> list[Entry]:
    """The corpus without wrong solutions, known disagreements, and what plain Python does not pass."""
    entries = [entry for entry in load_entries() if not entry.is_wrong and entry.id not in KNOWN]
    entries = [entry for entry in entries if entry.extraction is Extraction.AUTO]
    with a_job(connect(load_settings(), runtime=RuntimeKind.LOCAL)) as job:
        failures = judge_in_plain_python(entries, job, concurrency)
    return [entry for entry in entries if not failures[entry.id]]


def targets() -> list[Target]:
    """The bundled problems that can be attacked."""
    return [target for problem in load_problems("bundled").problems.values() if (target := aim_at(problem))]


def make_batch(
    honest: list[Entry], hostile: list[Target], size: int, chance: random.Random
) -> list[tuple[Completion, Problem]]:
    """Completions in random order, and the problem of each.

    Exploits that take all their time come in the first half: at the end of a batch nothing would run beside them.
    """
    attacks = max(1, size // (1 + HONEST_PER_HOSTILE))
    places: list[tuple[float, Completion, Problem]] = []
    for number in range(attacks):
        exploit, target = aim(hostile, chance)
        name = f"{_HOSTILE}{number} ({exploit.name})"
        completion = Completion(id=name, task_id=target.problem.task_id, code=arm(exploit, target))
        places.append((chance.random() * (0.5 if exploit.costly else 1.0), completion, target.problem))
    for number in range(size - attacks):
        entry = chance.choice(honest)
        completion = replace(entry.completion, id=f"honest {number}")
        places.append((chance.random(), completion, entry.problem))
    places.sort(key=lambda place: place[0])
    return [(completion, problem) for _, completion, problem in places]


def aim(hostile: list[Target], chance: random.Random) -> tuple[Exploit, Target]:
    """A random problem, and a random exploit that suits it."""
    target = chance.choice(hostile)
    return chance.choice([exploit for exploit in EXPLOITS if target.kind in exploit.kinds]), target


def run_batch(batch: list[tuple[Completion, Problem]], tally: Tally, arguments: argparse.Namespace) -> None:
    """Score a batch in a job of its own, as a command does."""
    problems = {problem.task_id: problem for _, problem in batch}
    limits = Limits(timeout_seconds=arguments.timeout)
    options = ScoreOptions(limits=limits, concurrency=arguments.concurrency, caching=False)
    counted = tally.completions
    try:
        with a_job(connect(load_settings(), runtime=RuntimeKind.LOCAL)) as job:
            score([completion for completion, _ in batch], problems, job=job, options=options, on_result=tally.add)
    except SandrlError as error:
        tally.errors.append(f"{type(error).__name__}: {error.message}")
        print(f"ERROR: {tally.errors[-1]}", flush=True)
    tally.lost += len(batch) - (tally.completions - counted)


@contextmanager
def heartbeat(tally: Tally) -> Iterator[None]:
    """Print a line a minute."""
    over, begun = threading.Event(), time.monotonic()

    def beat() -> None:
        while not over.wait(HEARTBEAT_SECONDS):
            print(
                f"{(time.monotonic() - begun) / 60:5.1f} min: {tally.completions} completions, "
                f"correct {dict(tally.honest)}, {tally.hostile['rewarded']} hostile rewarded, "
                f"{tally.kills.total()} kills, {tally.stops} stops, {memory()} after {tally.sandboxes} sandboxes, "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )

    thread = threading.Thread(target=beat, name="heartbeat")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def report(tally: Tally, before: str) -> int:
    """Print the totals; returns the exit code."""
    time.sleep(2)  # killed processes are gone by then
    left = sum(start_time(pid) == start for pid, start in tally.orphans)
    print(f"\n{tally.completions} completions, {tally.lost} without a result")
    print(f"  correct: {tally.honest.total()}: {shown(tally.honest)}")
    print(f"  hostile: {tally.hostile.total()}: {shown(tally.hostile)}")
    print(f"  kills: {shown(tally.kills)}; {tally.stops} stops")
    print(f"  slowest correct: {tally.slowest[1]}")
    for title, lines in (("must not be", tally.bad), ("ended a batch", tally.errors)):
        for line in lines:
            print(f"  {title}: {line}")
    status = daemon.status(load_settings().state_dir)
    print(f"  left: {status.sandboxes} sandboxes, {left} processes of killed runtimes")
    print(f"  before: {before}\n  after:  {memory()}")
    return int(bool(tally.bad or tally.lost))


def shown(counts: Counter[str]) -> str:
    """Counts in a line, the largest first."""
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none"


def memory() -> str:
    """Available memory of the machine, and resident memory of the daemon."""
    available = _kib("/proc/meminfo", "MemAvailable") >> 10
    endpoint = daemon.find(load_settings().state_dir)
    resident = _kib(f"/proc/{endpoint.pid}/status", "VmRSS") / 1024 if endpoint is not None else 0.0
    return f"{available} MiB available, daemon {resident:.1f} MiB"


def _kib(path: str, name: str) -> int:
    with suppress(OSError):
        for line in Path(path).read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return 0


def descendants(pid: int) -> list[int]:
    """The processes below a process."""
    found = children(pid)
    return [*found, *itertools.chain.from_iterable(descendants(child) for child in found)]


def start_time(pid: int) -> str:
    """When a living process started, in ticks; empty if there is none."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    return ""


if __name__ == "__main__":
    sys.exit(main())
