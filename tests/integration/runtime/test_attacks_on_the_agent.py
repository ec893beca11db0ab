"""Attacks on the runtime itself that once worked: on its agent, watchdog and daemon, and on the host user's quotas."""

from __future__ import annotations

from contextlib import suppress

import pytest
from cwsandbox import Sandbox, SandboxDefaults, SandboxTimeoutError, SandboxValidationError, Session

from sandrl.runtime import daemon
from sandrl.runtime.state import DaemonEndpoint
from tests.integration.runtime.conftest import SYSTEMS, run

MIB = 1 << 20


@SYSTEMS
def test_a_program_inherits_nothing_but_its_standard_streams(sandbox: Sandbox) -> None:
    program = """
import os
for name in os.listdir("/proc/self/fd"):
    try:
        print(name, os.readlink("/proc/self/fd/" + name).partition(":")[0])
    except OSError:
        pass  # the listing's own
"""
    lines = sorted(run(sandbox, program).stdout.splitlines())
    assert lines == ["0 pipe", "1 pipe", "2 pipe"]


def test_the_root_cannot_be_rearranged(sandbox: Sandbox) -> None:
    program = """
import os
for action in (lambda: os.rename("/tmp", "/x"), lambda: os.mkdir("/root/.pyenv"), lambda: os.rmdir("/opt"),
               lambda: open("/x", "w"), lambda: os.rename("/workspace", "/tmp/x"), lambda: os.chmod("/", 0o777)):
    try:
        action()
    except OSError as error:
        print(error.errno)
    else:
        print("done")
"""
    assert "done" not in run(sandbox, program).stdout.split()
    assert sandbox.exec(["ls", "/tmp", "/workspace"]).result().returncode == 0


@SYSTEMS
def test_descriptors_in_flight_do_not_cut_off_the_neighbours(session: Session) -> None:
    attacker, neighbour = session.sandbox(), session.sandbox()
    neighbour.exec(["true"]).result()
    program = """
import os, socket, time
null, kept = os.open("/dev/null", os.O_RDONLY), []
try:
    for _ in range(12):
        left, right = socket.socketpair()
        kept += [left, right]
        for _ in range(5):
            socket.send_fds(left, [b"x"], [null] * 250)
except OSError as error:
    print(error.errno, flush=True)
time.sleep(5)
"""
    attack = attacker.exec(["python", "-c", program])
    assert next(iter(attack.stdout)).strip() == "109"
    assert neighbour.exec(["echo", "well"]).result().stdout == "well\n"
    assert session.sandbox().exec(["echo", "well"]).result().stdout == "well\n"


@SYSTEMS
def test_a_storm_of_orphans_does_not_blind_the_watchdog(sandbox: Sandbox) -> None:
    program = f"""
import mmap, os, time
if os.fork() == 0:
    while True:  # orphans by the hundred, for process 1 to collect
        if os.fork() == 0:
            if os.fork() == 0:
                os._exit(0)
            os._exit(0)
        os.wait()
        time.sleep(0.005)
kept = []
for _ in range(100):
    kept.append(mmap.mmap(-1, {16 * MIB}))
    kept[-1].write(b"x" * {16 * MIB})
print("all of it")
"""
    result = run(sandbox, program)
    assert "all of it" not in result.stdout
    assert result.returncode == 137


@SYSTEMS
def test_memory_is_found_where_the_main_thread_has_ended(sandbox: Sandbox) -> None:
    program = f"""
import ctypes, mmap, platform, threading, time
def take():
    kept = []
    for _ in range(100):
        kept.append(mmap.mmap(-1, {16 * MIB}))
        kept[-1].write(b"x" * {16 * MIB})
        time.sleep(0.005)
    print("all of it", flush=True)
threading.Thread(target=take).start()
ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)
"""
    assert "all of it" not in run(sandbox, program).stdout


@SYSTEMS
def test_page_tables_count_as_memory(sandbox: Sandbox) -> None:
    program = """
import mmap
size = 48 << 30
region = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
for start in range(0, size, 2 << 20):
    region[start]
print("mapped")
try:
    mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
except OSError as error:
    print(error.errno)
"""
    assert run(sandbox, program).stdout.split()[-1:] in (["12"], [])


@SYSTEMS
def test_quotas_of_the_hosts_user_and_the_agent_itself_are_out_of_reach(sandbox: Sandbox) -> None:
    program = """
import ctypes, fcntl, os, resource
libc = ctypes.CDLL(None, use_errno=True)
read, write = os.pipe()
def outcome(action):
    try:
        result = action()
    except OSError as error:
        return error.errno
    return ctypes.get_errno() if result == -1 else "done"
print([outcome(action) for action in (
    libc.inotify_init,
    lambda: fcntl.fcntl(write, 1031, 1 << 20),
    lambda: libc.vmsplice(write, None, 0, 0),
    lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)),
    lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    lambda: os.sched_setaffinity(1, {0}),
)])
print([outcome(action) for action in (
    lambda: os.nice(1), lambda: os.sched_setaffinity(0, {0}), lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)),
)])
"""
    assert run(sandbox, program).stdout == "[38, 1, 1, 1, 1, 1]\n['done', 'done', 'done']\n"


@SYSTEMS
def test_a_program_that_is_stopped_before_it_starts_does_not_stop_the_agent(sandbox: Sandbox) -> None:
    program = """
import os, signal, time
end = time.time() + 4
while time.time() < end:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid()):
            try:
                os.kill(int(name), signal.SIGSTOP)
            except ProcessLookupError:
                pass
"""
    storm = sandbox.exec(["python", "-c", program])
    stopped = [sandbox.exec(["true"], timeout_seconds=1) for _ in range(5)]
    for process in stopped:
        with suppress(SandboxTimeoutError):
            process.result(timeout=20)
    storm.result()
    assert sandbox.exec(["echo", "well"], timeout_seconds=10).result().stdout == "well\n"


@SYSTEMS
def test_sizes_beyond_any_terminal_are_clamped(sandbox: Sandbox) -> None:
    terminal = sandbox.shell(["python", "-c", "import os; print(*os.get_terminal_size())"], width=70_000, height=70_000)
    assert "65535 65535" in b"".join(terminal.output).decode()


@SYSTEMS
def test_a_command_too_long_for_the_kernel_is_refused_as_one(sandbox: Sandbox) -> None:
    result = sandbox.exec(["echo", "x" * (20 * MIB)]).result()
    assert result.returncode == 126
    assert "too long" in result.stderr
    assert sandbox.exec(["echo", "well"]).result().stdout == "well\n"


@SYSTEMS
def test_output_byte_by_byte_costs_the_daemon_little(defaults: SandboxDefaults, endpoint: DaemonEndpoint) -> None:
    before = daemon.status(endpoint.state_dir).resident_bytes
    program = "import os\nfor _ in range(400_000): os.write(1, b'x')"
    with Sandbox.run("python", "-c", program, defaults=defaults) as sandbox:
        sandbox.wait_until_complete(timeout=60).result()
    assert daemon.status(endpoint.state_dir).resident_bytes - before < 40 * MIB


@pytest.mark.parametrize("path", ["relative/x", "/workspace/../usr/x", "/usr/lib/x", "/proc/1/x", "/etc/x"])
def test_files_can_be_mounted_only_where_a_sandbox_has_room(session: Session, path: str) -> None:
    with pytest.raises((SandboxValidationError, ValueError)):
        session.sandbox(mounted_files=[{"mount_path": path, "file_content": b""}]).start().result()
