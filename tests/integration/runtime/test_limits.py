"""Bombs, fills and floods: what they do stays inside, and the next sandbox does not notice."""

from __future__ import annotations

import pytest
from cwsandbox import Sandbox, SandboxTimeoutError, Session

from sandrl.runtime import daemon
from sandrl.runtime.state import DaemonEndpoint
from tests.integration.runtime.conftest import SYSTEMS, run, wait_until

pytestmark = SYSTEMS
MIB = 1 << 20


@pytest.fixture
def neighbour(session: Session) -> Sandbox:
    """An honest sandbox that lives through the attack."""
    neighbour = session.sandbox()
    assert run(neighbour, "open('/tmp/mine', 'w').write('kept')").returncode == 0
    return neighbour


def still_well(neighbour: Sandbox, session: Session) -> bool:
    fresh = session.sandbox()
    return (
        run(neighbour, "print(open('/tmp/mine').read())").stdout == "kept\n"
        and run(fresh, "print(6 * 7)").stdout == "42\n"
    )


def test_a_fork_bomb_is_stopped_at_256_processes(sandbox: Sandbox, neighbour: Sandbox, session: Session) -> None:
    program = """
import os, time
read, write = os.pipe()
children = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        children += 1
except OSError as error:
    print(children, error.errno)
"""
    children, error = run(sandbox, program).stdout.split()
    assert 200 <= int(children) < 256
    assert error == "11"
    assert still_well(neighbour, session)


def test_processes_that_ended_and_nobody_waits_for_count_as_nothing_hidden(sandbox: Sandbox) -> None:
    program = """
import os, time
for _ in range(60):
    if os.fork() == 0:
        os._exit(0)
for _ in range(20):
    time.sleep(0.05)
print('still here')
"""
    result = run(sandbox, program)
    assert (result.returncode, result.stdout) == (0, "still here\n")


def test_an_endless_fork_bomb_ends_with_its_timeout(sandbox: Sandbox, neighbour: Sandbox, session: Session) -> None:
    with pytest.raises(SandboxTimeoutError):
        run(sandbox, "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", timeout=3)
    assert still_well(neighbour, session)


def test_an_allocation_far_beyond_the_limit_fails_at_once(sandbox: Sandbox) -> None:
    assert "MemoryError" in run(sandbox, f"bytearray({1600 * MIB})").stderr


def test_a_thread_may_have_a_stack_as_large_as_the_memory_limit(sandbox: Sandbox) -> None:
    program = f"""
import sys, threading
sys.setrecursionlimit(10**6)
threading.stack_size({512 * MIB})
def deep(n): return n and 1 + deep(n - 1)
thread = threading.Thread(target=lambda: print(deep(50_000)))
thread.start()
thread.join()
"""
    assert run(sandbox, program).stdout == "50000\n"


@pytest.mark.parametrize(
    "program",
    [
        f"""
import mmap
kept = []
while True:
    kept.append(mmap.mmap(-1, {16 * MIB}))
    kept[-1].write(b"x" * {16 * MIB})
""",
        f"""
import os, sys, time
for _ in range(16):
    if os.fork() == 0:
        kept = b"x" * {128 * MIB}
        time.sleep(3)
        os._exit(0)
ends = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(16)]
sys.exit(137 if ends.count(-9) >= 10 else 0)
""",
    ],
    ids=["shared memory", "many processes"],
)
def test_all_processes_together_get_no_more_memory_than_the_limit(
    sandbox: Sandbox, neighbour: Sandbox, session: Session, program: str
) -> None:
    assert run(sandbox, program).returncode == 137
    assert still_well(neighbour, session)


def test_the_memory_limit_follows_the_resources(session: Session) -> None:
    allocate = f"kept = b'x' * {700 * MIB}; print(len(kept))"
    with_more = session.sandbox(resources={"memory": "1Gi"})
    assert run(with_more, allocate).stdout == f"{700 * MIB}\n"
    assert run(session.sandbox(), allocate).returncode == 137


def test_the_disk_is_full_at_its_limit(sandbox: Sandbox, neighbour: Sandbox, session: Session) -> None:
    program = """
import os
written = 0
for place in ("/tmp", "/workspace", "/dev/shm", "/var/tmp"):
    try:
        with open(place + "/fill", "wb") as file:
            while True:
                written += file.write(b"x" * 1048576)
                file.flush()
    except OSError as error:
        assert error.errno == 28, error
print(written // 1048576)
"""
    assert 200 <= int(run(sandbox, program).stdout) <= 258
    assert still_well(neighbour, session)


def test_the_number_of_files_is_limited(sandbox: Sandbox, neighbour: Sandbox, session: Session) -> None:
    program = """
count = 0
try:
    while True:
        open(f"/tmp/{count}", "w").close()
        count += 1
except OSError as error:
    print(count, error.errno)
"""
    count, error = run(sandbox, program).stdout.split()
    assert int(count) <= 32_768
    assert error == "28"
    assert still_well(neighbour, session)


def test_a_flood_of_output_is_held_back_not_buffered(
    sandbox: Sandbox, neighbour: Sandbox, session: Session, endpoint: DaemonEndpoint
) -> None:
    before = daemon.status(endpoint.state_dir).resident_bytes
    process = sandbox.exec(["sh", "-c", "yes | head -c 200000000"], timeout_seconds=60)
    assert process.result().returncode == 0
    assert daemon.status(endpoint.state_dir).resident_bytes - before < 100 * MIB
    assert still_well(neighbour, session)


def test_killing_everything_inside_harms_only_the_sandbox(
    sandbox: Sandbox, neighbour: Sandbox, session: Session
) -> None:
    victim = sandbox.exec(["sleep", "60"])
    assert run(sandbox, "import os; os.kill(-1, 9); os.kill(1, 9); print('still here')").stdout == "still here\n"
    assert victim.result().returncode == 137
    assert still_well(neighbour, session)


def test_a_timeout_kills_the_whole_tree(sandbox: Sandbox) -> None:
    tree = "setsid sleep 1001 & (sleep 1002 &) ; sh -c 'sleep 1003' ; sleep 1004"
    with pytest.raises(SandboxTimeoutError):
        sandbox.exec(["sh", "-c", tree], timeout_seconds=1).result()
    listing = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    wait_until(lambda: "sleep 100" not in sandbox.exec(["sh", "-c", listing]).result().stdout)
