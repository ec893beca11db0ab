"""The daemon comes when needed, is found again, shared, replaced when dead, and takes everything along when it goes."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cwsandbox import Session

from sandrl.errors import RuntimeUnavailableError, SilentDaemonError
from sandrl.runtime import daemon
from sandrl.runtime.state import RuntimeDirectory, find_all, own_name
from sandrl.runtime.usage import family, of_process
from sandrl.sandboxes.daemons import refined
from sandrl.sandboxes.registry import Registration
from tests.integration.runtime.conftest import defaults_for, wait_until
from tests.support.job_entries import job_entry

SOURCE = Path(__file__).resolve().parents[3] / "src"


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    daemon.stop(tmp_path)


def living(pids: list[int]) -> list[int]:
    """Those that have not ended; one whose parent has not asked for its exit status yet has."""
    found = []
    for pid in pids:
        with suppress(OSError):
            if not of_process(pid).has_ended:
                found.append(pid)
    return found


def test_it_starts_on_first_use_and_is_found_again(state: Path) -> None:
    assert daemon.find(state) is None
    assert not daemon.status(state).running
    started: list[str] = []
    first = daemon.ensure_running(state, on_start=started.append)
    assert daemon.ensure_running(state, on_start=started.append) == first
    assert len(started) == 1
    status = daemon.status(state)
    assert status.running
    assert status.isolation in ("native", "bubblewrap")
    assert status.default_image == f"host python3.{sys.version_info[1]}"


def test_its_token_is_for_its_user_alone_and_it_inherits_no_secret(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "a-secret-of-the-user")
    endpoint = daemon.ensure_running(state)
    directory = RuntimeDirectory(state).path
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "token").stat().st_mode) == 0o600
    assert endpoint.token not in repr(endpoint)
    assert len(endpoint.token) >= 32
    for name in ("environ", "cmdline"):
        shown = Path(f"/proc/{endpoint.pid}/{name}").read_bytes()
        assert endpoint.token.encode() not in shown
        assert b"a-secret-of-the-user" not in shown


def test_two_commands_that_start_at_once_share_one(state: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from sandrl.runtime import daemon; "
        "print(daemon.ensure_running(Path(sys.argv[1])).pid)"
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    starting = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(state)], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    pids = {process.communicate(timeout=60)[0].strip() for process in starting}
    assert len(pids) == 1
    assert pids != {""}


def test_stale_files_of_a_dead_one_do_not_block_a_start(state: Path) -> None:
    first = daemon.ensure_running(state)
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: daemon.find(state) is None)
    assert (RuntimeDirectory(state).path / "daemon.json").exists()
    second = daemon.ensure_running(state)
    assert second.pid != first.pid
    assert second.token != first.token


@pytest.mark.parametrize(
    "content", [*(pytest.param(text, marks=pytest.mark.slow) for text in ("", "{")), '{"base_url": 1}', "\x00\xff"]
)
def test_a_broken_state_file_does_not_block_a_start(state: Path, content: str) -> None:
    (RuntimeDirectory(state).path / "daemon.json").write_text(content)
    assert daemon.ensure_running(state).pid > 0


def test_sigkill_leaves_no_process(state: Path) -> None:
    endpoint = daemon.ensure_running(state)
    session = Session(defaults_for(endpoint), report_to=[])
    for _ in range(3):
        session.sandbox().exec(["sh", "-c", "(setsid sleep 1234 >/dev/null 2>&1 &); true"]).result()
    started = family(endpoint.pid)
    assert len(started) >= 9
    os.kill(endpoint.pid, signal.SIGKILL)
    wait_until(lambda: not living(started), seconds=30)


def test_stop_ends_every_sandbox_and_takes_the_files_along(state: Path) -> None:
    endpoint = daemon.ensure_running(state)
    session = Session(defaults_for(endpoint), report_to=[])
    session.sandbox().exec(["sh", "-c", "sleep 1234 >/dev/null 2>&1 &"]).result()
    started = family(endpoint.pid)
    assert daemon.stop(state) is True
    assert not living(started)
    assert not (RuntimeDirectory(state).path / "token").exists()
    assert daemon.stop(state) is False


def test_it_is_gone_after_its_idle_time(state: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from sandrl.runtime import daemon; "
        "daemon.serve(Path(sys.argv[1]), idle_timeout_seconds=1.0, announce=lambda e: print('up', flush=True))"
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", program, str(state)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "up\n"
    assert daemon.find(state) is None


_SLOW_TO_END = """
import asyncio, sys
from pathlib import Path
from sandrl import forks
from sandrl.runtime import daemon
forks.begin_grpc()
from sandrl.runtime.server.sandboxes import SandboxManager
close = SandboxManager.close
async def close_slowly(self):
    while not Path(sys.argv[1], "may-end").exists():
        await asyncio.sleep(0.05)
    await close(self)
SandboxManager.close = close_slowly
daemon.serve(Path(sys.argv[1]), announce=lambda endpoint: print("up", flush=True))
"""


def test_one_that_is_ending_is_not_taken_for_one_that_runs(state: Path) -> None:
    command = [sys.executable, "-c", _SLOW_TO_END, str(state)]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as ending:
        try:
            assert ending.stdout is not None
            ending.stdout.readline()
            endpoint = daemon.find(state)
            assert endpoint is not None
            ending.terminate()
            wait_until(lambda: daemon.find(state) is None)
            assert not daemon.status_of(endpoint).running
            assert ending.poll() is None
        finally:
            (state / "may-end").touch()
    assert daemon.ensure_running(state) != endpoint


def test_a_state_directory_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(RuntimeUnavailableError, match="cannot use") as error:
        daemon.ensure_running(blocked)
    assert error.value.hint
    assert error.value.exit_code == 3


def test_an_interpreter_that_cannot_be_run_is_one_clear_error(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(state / "python"))
    open_before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(RuntimeUnavailableError, match=r"cannot be started: .*/python: No such file"):
        daemon.ensure_running(state)
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_where_nothing_isolates_code_is_not_run(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDRL_RUNTIME_ISOLATION", "none-of-them")
    with pytest.raises(RuntimeUnavailableError, match="cannot isolate code") as error:
        daemon.ensure_running(state)
    assert "CWSANDBOX_API_KEY" in (error.value.hint or "")


def test_a_daemon_that_is_stopped_for_a_while_is_waited_for(state: Path) -> None:
    endpoint = daemon.ensure_running(state)
    said: list[str] = []

    def continue_it(message: str) -> None:
        said.append(message)
        os.kill(endpoint.pid, signal.SIGCONT)

    os.kill(endpoint.pid, signal.SIGSTOP)
    assert daemon.status(state, on_wait=continue_it).running
    assert said == [f"the local runtime (pid {endpoint.pid}) is stopped by a signal; waiting up to 90 s for it"]


def test_a_daemon_that_does_not_answer_is_named_and_nobody_is_told_to_end_it(state: Path) -> None:
    endpoint = daemon.ensure_running(state)
    os.kill(endpoint.pid, signal.SIGSTOP)
    with pytest.raises(SilentDaemonError, match="is stopped by a signal; it was waited for") as error:
        daemon.status_of(endpoint, patience_seconds=0.5)
    assert error.value.hint == f"kill -CONT {endpoint.pid} continues it"
    assert daemon.stop(state)
    assert not daemon.status(state).running


@pytest.mark.parametrize(
    ("work", "is_wedged", "hint"),
    [
        # A process that neither answers nor does anything, and one that is busy with something else.
        (
            "time.sleep(60)",
            True,
            "kill -9 {pid} ends it, and with it 2 sandboxes of reward (job-12ab)",
        ),
        ("while True: pass", False, "try again when the machine is less busy"),
    ],
)
def test_only_the_end_of_a_wedged_daemon_is_advised_with_what_it_takes_along(
    state: Path, work: str, is_wedged: bool, hint: str
) -> None:
    name = own_name()
    directory = RuntimeDirectory(state)
    program = (
        "import fcntl, json, os, socket, sys, time; from pathlib import Path\n"
        "lock = open('alive.lock', 'w'); fcntl.flock(lock, fcntl.LOCK_EX)\n"
        "server = socket.create_server(('127.0.0.1', 0)); address = f'http://127.0.0.1:{server.getsockname()[1]}'\n"
        "Path('token').write_text('x')\n"
        "Path('daemon.json').write_text(json.dumps({'base_url': address, 'pid': os.getpid()}))\n"
        "Path('sandboxes.json').write_text(json.dumps({'sandboxes': [['a', []], ['b', []]]}))\n"
        f"print(flush=True)\n{work}"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=directory.path, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        [endpoint] = find_all(state)
        assert (endpoint.pid, endpoint.name) == (process.pid, name)
        Registration(job_entry(job_id="job-12ab", address=endpoint.base_url), state).renew()
        with pytest.raises(SilentDaemonError) as error:
            daemon.status_of(endpoint, patience_seconds=4)
        assert error.value.is_wedged is is_wedged
        assert hint.format(pid=process.pid) in str(refined(error.value, state).hint)
    finally:
        process.kill()
        process.communicate()
