"""Stops processes of a run from outside for a while, as `scontrol suspend` or a freezer does, and counts lost rewards.

`python -m benchmarks.stops --seconds 6 22` scores right completions of every kind (asserts, calls, cases, files, exit
status, another language, a checker, one process), each of which takes a few seconds. Meanwhile it sends SIGSTOP to a
set of processes of the run, and SIGCONT later. Every set has a local runtime of its own, so that several run at once
(`--at-once`). A line for each set shows how many rewards are below 1.0, and why.

Exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.fork_server import children

from sandrl.events.results import ScoredCompletion
from sandrl.problems import Case, Completion, Problem
from sandrl.problems.calls import Call
from sandrl.problems.checkers import Checker
from sandrl.rewards import Limits, ScoreOptions, score
from sandrl.rewards.scoring import lifetime_seconds
from sandrl.runtime import daemon
from sandrl.sandboxes import Job, connect, new_job_id
from sandrl.settings import RuntimeKind, Settings, load_settings

MODES = ("cells", "fresh")
COPIES = 3
_PAUSE = "import time\ntime.sleep({seconds})\n"
_FUNCTION = _PAUSE + "def f(x):\n    return x + 1\n"
_SLOW_FUNCTION = "import time\ndef f(x):\n    time.sleep({seconds})\n    return x + 1\n"
_PROGRAM = _PAUSE + "print(int(input()) + 1)\n"
_CASES = (Case("1\n", "2\n"), Case("2\n", "3\n"))
_TESTS = ("assert f(1) == 2", "assert f(2) == 3")
_CPP = (
    "#include <iostream>\n#include <unistd.h>\n"
    "int main() {{ int x; std::cin >> x; usleep({seconds} * 1000000); std::cout << x + 1; }}\n"
)
_CHECKER = (
    "import time\ndef check(given, expected, output):\n    time.sleep(1)\n    return int(output) == int(given) + 1\n"
)
# A problem of each kind, a right answer to it, and how long that sleeps in each of its runs.
KINDS: tuple[tuple[Problem, str, float], ...] = (
    (Problem("asserts", "", tests=_TESTS), _FUNCTION, 3.0),
    (Problem("limited asserts", "", tests=("assert f(1) == 2",), check_timeout_seconds=4), _FUNCTION, 2.0),
    (Problem("slow asserts", "", tests=_TESTS), _SLOW_FUNCTION, 1.5),
    (Problem("calls", "", fn="f", calls=(Call.of([1], 2), Call.of([2], 3))), _FUNCTION, 3.0),
    (Problem("cases", "", cases=_CASES), _PROGRAM, 1.5),
    (Problem("files", "", cases=_CASES, input_file="in.txt"), _PROGRAM, 1.5),
    (Problem("exit status", "", check="exit_status"), _PAUSE, 3.0),
    (Problem("checker", "", cases=_CASES, checker=Checker(_CHECKER)), _PROGRAM, 1.0),
    (Problem("cpp", "", cases=_CASES, language="cpp"), _CPP, 1.0),
    (Problem("one process", "", tests=("import sys\nassert f.__code__ and sys._getframe() and f(1) == 2",)),
     _FUNCTION, 3.0),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Family:
    """The processes of a run on this machine.

    Attributes:
        client: The process that scores.
        daemon: The local runtime.
        servers: What starts sandboxes.
        agents: The first process of each sandbox.
        workers: What makes cells, and hands over requests.
        judges: Those that judge one completion each, and those that compare for them.
        completions: The processes of completions.
    """

    client: list[int]
    daemon: list[int]
    servers: list[int]
    agents: list[int]
    workers: list[int]
    judges: list[int]
    completions: list[int]

    @property
    def below(self) -> list[int]:
        """All that the daemon has started."""
        return [*self.servers, *self.agents, *self.workers, *self.judges, *self.completions]


SETS: dict[str, Callable[[Family], list[int]]] = {
    "everything": lambda family: [*family.client, *family.daemon, *family.below],
    "client": lambda family: family.client,
    "daemon": lambda family: family.daemon,
    "below the daemon": lambda family: family.below,
    "sandboxes": lambda family: [*family.agents, *family.workers, *family.judges, *family.completions],
    "workers": lambda family: family.workers,
    "judges": lambda family: family.judges,
    "completions": lambda family: family.completions,
    "some": lambda family: random.sample(family.below, len(family.below) // 2),
}


def find_family(client: int, endpoint: int, mode: str) -> Family:
    """Looks for the processes of a run, and sorts them."""
    family = Family([client], [endpoint], [], [], [], [], [])

    def note(pid: int, above: list[int] | None) -> None:
        """Sorts a process by what its parent is, and all below it."""
        kind = kind_of(pid, above)
        kind.append(pid)
        for child in children(pid):
            note(child, kind)

    def kind_of(pid: int, above: list[int] | None) -> list[int]:
        if above is None or above is family.servers:
            return family.agents if is_agent(pid) else family.servers
        if above is family.agents:
            return family.workers if mode == "cells" else family.judges
        if above is family.workers:
            # The worker goes on as process 1 of a process namespace, and forks the process that hands over requests;
            # then judges, which are in this namespace, too. The first process of a cell judges or waits.
            if len(family.workers) < 3:
                return family.workers
            numbers = numbers_of(pid)
            is_in_cell = len(numbers) > len(numbers_of(family.workers[1]))
            return family.completions if is_in_cell and numbers[-1] != "1" else family.judges
        if above is family.judges and os.getsid(pid) != pid:
            return family.judges
        return family.completions

    for pid in children(endpoint):
        with suppress(ProcessLookupError):
            note(pid, None)
    return family


def numbers_of(pid: int) -> list[str]:
    """The numbers of a process in the process namespaces that it is in, the outermost first."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/status").read_text().partition("\nNSpid:")[2].partition("\n")[0].split()
    return []


def is_agent(pid: int) -> bool:
    """Whether a process is the first of a sandbox: process 1, and not that which starts sandboxes."""
    with suppress(OSError):
        own = numbers_of(pid)
        parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        is_forked = b"sandrl-init" in Path(f"/proc/{pid}/cmdline").read_bytes()
        return own[-1:] == ["1"] and (not is_forked or numbers_of(int(parent))[-1:] == ["1"])
    return False


def completions(copies: int) -> list[Completion]:
    """Right completions of every kind, each of them another text."""
    return [
        Completion(f"{problem.task_id} {copy}", problem.task_id, code=code.format(seconds=seconds + copy / 100))
        for problem, code, seconds in KINDS
        for copy in range(copies)
    ]


def score_all(mode: str, copies: int) -> list[ScoredCompletion]:
    """Scores them in this process."""
    problems = {problem.task_id: problem for problem, _, _ in KINDS}
    options = ScoreOptions(limits=Limits(timeout_seconds=10.0), concurrency=16, backoff_seconds=0.1, caching=False)
    connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
    lifetime = lifetime_seconds(problems, options.limits)
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=lifetime, has_cells=mode == "cells") as job:
        return list(score(completions(copies), problems, job=job, options=options).results)


def stop_while_scoring(name: str, mode: str, seconds: float, copies: int = COPIES) -> list[str]:
    """Stops a set of processes of a run once; returns a line for each reward below 1.0."""
    with tempfile.TemporaryDirectory(prefix="sandrl-stops-") as directory:
        places = {f"SANDRL_{each}_DIR": f"{directory}/{each.lower()}" for each in ("STATE", "RUNS", "CACHE")}
        environment = {**os.environ, **places}
        state = Settings.from_environment(environment).state_dir
        words = [sys.executable, "-m", "benchmarks.stops", "--score", mode, "--copies", str(copies)]
        client = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1])
        try:
            stopped = choose(name, mode, client, state)
            send(stopped, signal.SIGSTOP)
            time.sleep(seconds)
            send(stopped, signal.SIGCONT)
            printed, _ = client.communicate(timeout=1800)
        finally:
            client.kill()
            daemon.stop(state)
    results = json.loads(printed)
    assert len(results) == len(KINDS) * copies
    return [f"{each['id']}: {each['reward']} {each['why']}" for each in results if each["reward"] != 1.0]


def choose(name: str, mode: str, client: subprocess.Popen[bytes], state: Path) -> list[int]:
    """Waits until completions run, and chooses the processes of a set."""
    while client.poll() is None:
        time.sleep(0.2)
        endpoint = daemon.find(state)
        if endpoint is not None and find_family(client.pid, endpoint.pid, mode).completions:
            time.sleep(random.uniform(0.2, 2.5))
            chosen = SETS[name](find_family(client.pid, endpoint.pid, mode))
            if chosen:
                return chosen
    raise RuntimeError(f"the run ended before processes of the set {name!r} were found")


def send(pids: Sequence[int], number: signal.Signals) -> None:
    """Sends a signal to processes, some of which may be gone."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def main() -> int:
    """Stop, count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"which processes: {', '.join(SETS)} (default: all)")
    parser.add_argument("--seconds", type=float, nargs="+", default=[6.0, 22.0], help="how long they are stopped")
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--copies", type=int, default=COPIES, help="completions of each kind")
    parser.add_argument("--score", choices=MODES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.score:
        results = score_all(arguments.score, arguments.copies)
        rows = [
            {"id": each.id, "reward": each.reward, "why": f"{each.status}: {each.detail} {list(each.failures)}"}
            for each in results
        ]
        print(json.dumps(rows))
        return 0
    cases = [
        (name, mode, seconds)
        for seconds in arguments.seconds
        for mode in arguments.modes
        for name in arguments.sets or SETS
        if mode == "cells" or name != "workers"
    ]
    lost = 0
    with ThreadPoolExecutor(arguments.at_once) as pool:
        running = [pool.submit(stop_while_scoring, *case, arguments.copies) for case in cases]
        for (name, mode, seconds), each in zip(cases, running, strict=True):
            below = each.result()
            lost += len(below)
            print(f"{seconds:5g} s, {mode:5}, {name:16}: {len(below)} below 1.0", *below, sep="\n    ", flush=True)
    print(f"{len(cases) * len(KINDS) * arguments.copies} right completions, {lost} below 1.0")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
