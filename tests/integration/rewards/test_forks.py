"""Processes forked from one that scores: they score, get an error or end at once, and leave the parent's job alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PRELUDE = """
import asyncio, atexit, multiprocessing, os, signal, sys, threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
import sandrl

problem = sandrl.Problem(task_id="inc", prompt="inc", tests=("assert f(1) == 2",))
RIGHT = "```python\\ndef f(x):\\n    return x + 1\\n```"
score = sandrl.reward_function([problem], runtime="local", caching=False)

def use(function=score):
    return function(["inc"], [RIGHT], task_id=["inc"])

def refused(call):
    try:
        return f"got {call()}"
    except sandrl.UsageError as error:
        return f"refused: {error.message}: {error.hint}"

def in_child(work):
    pid = os.fork()
    if pid == 0:
        work()
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def run(program: str, *arguments: str | Path) -> list[str]:
    """The lines that a program printed; it fails if it does not end."""
    done = subprocess.run(
        [sys.executable, "-u", "-c", PRELUDE + program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_child_of_a_process_that_scored_is_refused_with_the_next_step_and_the_parent_goes_on() -> None:
    lines = run("""
print(use())
print(in_child(lambda: print(refused(use))))
print(in_child(lambda: print(refused(lambda: sandrl.score([sandrl.Completion("1", "inc", RIGHT)], {"inc": problem})))))
print(in_child(lambda: print(refused(lambda: use(sandrl.reward_function([problem], runtime="local"))))))
print(in_child(lambda: print(refused(lambda: asyncio.run(use(score.as_async()))))))
print(use())
""")
    assert lines[0] == lines[-1] == "[1.0]"
    assert lines[2:-1:2] == ["0"] * 4
    for line in lines[1:-1:2]:
        assert line.startswith("refused: this process was forked from a process that had used sandboxes")
        assert "`spawn`" in line


@pytest.mark.parametrize("context", ["multiprocessing", "executor"])
def test_workers_forked_by_a_pool_are_refused_too(context: str) -> None:
    lines = run(
        """
print(use())
fork = multiprocessing.get_context("fork")
def work(_):
    return refused(use)
if sys.argv[1] == "executor":
    with ProcessPoolExecutor(2, mp_context=fork) as pool:
        print(*pool.map(work, [1, 2]), sep="\\n")
else:
    with fork.Pool(2) as pool:
        print(*pool.map(work, [1, 2]), sep="\\n")
print(use())
""",
        context,
    )
    assert [line.partition(":")[0] for line in lines] == ["[1.0]", "refused", "refused", "[1.0]"]


def test_a_child_that_only_exits_ends_and_leaves_the_parents_sandboxes_registry_and_job_alone() -> None:
    lines = run("""
from sandrl.sandboxes import Command, Job, connect, new_job_id, read_jobs
from sandrl.sandboxes.inventory import Inventory
from sandrl.settings import RuntimeKind, load_settings
settings = load_settings()
connection = connect(settings, runtime=RuntimeKind.LOCAL)
job = Job(connection, job_id=new_job_id(), max_lifetime_seconds=300)
launch = job.launch(Command(("true",)))
[ended] = job.wait_any()
job.collect(ended, keep=True)
inventory = Inventory(connection)
def living():
    return len(inventory.list(tags=[job.id])), [entry.job_id for entry in read_jobs(settings.state_dir)].count(job.id)
print(use(), living())
def leave():
    job.cancel(); job.release(launch); job.close()
    print(refused(lambda: job.launch(Command(("true",)))).partition(": job-")[0])
print(in_child(leave), living())
print(in_child(score.close), living())
job.close()
print(living())
""")
    assert lines == ["[1.0] (1, 1)", "refused", "0 (1, 1)", "0 (1, 1)", "(0, 0)"]


def test_a_child_forked_before_any_use_scores_and_so_does_its_parent() -> None:
    lines = run("""
from sandrl.sandboxes import Job
print(in_child(lambda: print(use())))
print(use())
""")
    assert lines == ["[1.0]", "0", "[1.0]"]


def test_locks_held_by_another_thread_at_the_fork_do_not_block_the_child() -> None:
    lines = run("""
held, done = threading.Event(), threading.Event()
def hold():
    with score._lock:
        held.set()
        done.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
print(in_child(lambda: print(use())))
done.set()
thread.join()
""")
    assert lines == ["[1.0]", "0"]


def test_a_child_writes_nothing_into_the_run_of_its_parent_and_does_not_keep_it_locked(tmp_path: Path) -> None:
    lines = run(
        """
from sandrl.runs.directory import is_running
from sandrl.runs.rows import LogRow
from sandrl.runs.session import RunPlan, open_run
from sandrl.sandboxes import Interrupt
from sandrl.settings import load_settings
plan = RunPlan(
    command="test", job_id="job-00000000", options={}, versions={}, runs_dir=Path(sys.argv[1]), name="one"
)
row = LogRow(job_id="job-00000000", level="info", event="x", message="x")
ready, go = os.pipe(), os.pipe()
with open_run(plan, load_settings(), interrupt=Interrupt()) as session:
    writer, recorder = session.writer, session.recorder()
    recorder._has_news = True
    pid = os.fork()
    if pid == 0:
        print(refused(lambda: writer.append(row)).partition(":")[0])
        os.write(ready[1], b"1")
        os.read(go[0], 1)
        sys.exit(0)
    os.read(ready[0], 1)
    writer.append(row)
    print(is_running(writer.path))
    recorder._has_news = False
print(is_running(writer.path))
os.write(go[1], b"1")
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(sorted(path.name for path in writer.path.iterdir()))
print(len((writer.path / "log.jsonl").read_text().splitlines()))
""",
        tmp_path,
    )
    assert lines == ["refused", "True", "False", "0", "['config.json', 'log.jsonl']", "1"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_ends_a_child_that_inherited_the_handlers_and_is_no_request_to_the_parent(name: str) -> None:
    lines = run(
        """
from sandrl.cli.signals import passed_to
from sandrl.sandboxes import Interrupt
number = signal.Signals[sys.argv[1]]
signal.signal(signal.SIGINT, signal.SIG_DFL)
interrupt = Interrupt()
with passed_to(interrupt), interrupt.heard():
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), number)
        signal.pause()
    print(signal.Signals(os.WTERMSIG(os.waitpid(pid, 0)[1])).name, int(interrupt.level))
""",
        name,
    )
    assert lines == [f"{name} 0"]


def test_children_of_children_are_refused_too() -> None:
    lines = run("""
print(use())
print(in_child(lambda: print(in_child(lambda: print(refused(use).partition(":")[0])))))
""")
    assert lines == ["[1.0]", "refused", "0", "0"]
