"""`sandrl sandboxes exec` and `logs`: inside a sandbox that exists."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cwsandbox import AuthHeaders, Sandbox, SandboxDefaults, Session

from sandrl.runtime import daemon
from sandrl.settings import load_settings
from tests.cli.conftest import SANDRL, Run
from tests.support.terminal import CTRL_C, run_on_terminal

Create = Callable[..., Sandbox]


@pytest.fixture
def create() -> Iterator[Create]:
    """Makes sandboxes as any program of the SDK does."""
    endpoint = daemon.ensure_running(load_settings().state_dir)
    auth = AuthHeaders(headers={"Authorization": f"Bearer {endpoint.token}"}, strategy="test")
    defaults = SandboxDefaults(base_url=endpoint.base_url, auth=auth, data_plane_mode="gateway")
    with Session(defaults, report_to=[]) as session:

        def make(*command: str) -> Sandbox:
            words: dict[str, Any] = {"command": command[0], "args": list(command[1:])} if command else {}
            sandbox = session.sandbox(**words)
            sandbox.start().result()
            return sandbox

        yield make


@pytest.fixture
def sandbox_id(create: Create) -> str:
    return str(create().sandbox_id)


def execute(sandbox_id: str, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [*SANDRL, "sandboxes", "exec", sandbox_id, *words]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)


def test_a_program_s_exit_code_and_streams_are_passed_through(sandbox_id: str) -> None:
    done = execute(sandbox_id, "--", "sh", "-c", "cat; echo problem >&2; exit 42", stdin=b"given\n")
    assert (done.returncode, done.stdout, done.stderr) == (42, b"given\n", b"problem\n")
    assert execute(sandbox_id, "true").returncode == 0


@pytest.mark.parametrize("size", [3_000_000, 70_001])
def test_bytes_arrive_as_they_are_in_both_directions(sandbox_id: str, size: int) -> None:
    # Text whose characters are cut by any block size, followed by bytes that are no text.
    data = ("ä€😀" * (size // 18)).encode() + os.urandom(size // 2)
    done = execute(sandbox_id, "--", "cat", stdin=data)
    assert (done.returncode, done.stdout == data, done.stderr) == (0, True, b"")


def test_output_is_shown_while_the_program_runs(sandbox_id: str) -> None:
    command = [*SANDRL, "sandboxes", "exec", sandbox_id, "--", "sh", "-c", "echo one; cat; echo two"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        process.stdin.close()
        assert process.stdout.read() == b"two\n"


def test_a_program_that_reads_nothing_ends_although_there_is_more_to_read(sandbox_id: str) -> None:
    reading, writing = os.pipe()
    try:
        command = [*SANDRL, "sandboxes", "exec", sandbox_id, "--", "sh", "-c", "exit 3"]
        assert subprocess.run(command, stdin=reading, timeout=60, check=False).returncode == 3
    finally:
        os.close(reading)
        os.close(writing)


def test_a_time_limit_kills_the_program_and_keeps_what_it_printed(sandbox_id: str) -> None:
    done = execute(sandbox_id, "--timeout", "2", "--", "sh", "-c", "echo early; sleep 600")
    assert (done.returncode, done.stdout) == (124, b"early\n")
    assert b"killed after 2 s" in done.stderr


def test_ctrl_c_kills_the_program_in_the_sandbox(sandbox_id: str) -> None:
    command = [*SANDRL, "sandboxes", "exec", sandbox_id, "--", "sh", "-c", "echo up; exec sleep 600.125"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert b"the program in the sandbox was killed" in process.stderr.read()
    deadline = time.monotonic() + 20
    # Not a shell, whose own command line would match.
    look = (
        "import os\n"
        "pids = [pid for pid in os.listdir('/proc') if pid.isdigit() and pid != str(os.getpid())]\n"
        "print(sum(b'600.125' in open(f'/proc/{pid}/cmdline', 'rb').read() for pid in pids))\n"
    )
    while execute(sandbox_id, "--", "python", "-", stdin=look.encode()).stdout != b"0\n":
        assert time.monotonic() < deadline, "it still runs"


def test_a_reader_that_goes_away_ends_the_program_quietly(sandbox_id: str) -> None:
    script = f"{' '.join(SANDRL)} sandboxes exec {sandbox_id} -- yes | head -n 1"
    done = subprocess.run(
        ["sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("y\n", "")


def test_what_cannot_be_run_is_said_in_two_lines(sandrl: Run, create: Create) -> None:
    ended = create()
    ended.stop().result()
    done = sandrl("sandboxes", "exec", str(ended.sandbox_id), "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not running" in done.stderr
    assert len(done.stderr.splitlines()) == 2
    assert sandrl("sandboxes", "exec", "never-there", "true").returncode == 2
    assert sandrl("sandboxes", "exec", "some-id").returncode == 2
    missing = sandrl("sandboxes", "exec", str(create().sandbox_id), "--", "no-such-program")
    assert missing.returncode != 0
    assert "Traceback" not in missing.stderr


def test_escape_sequences_do_not_reach_a_terminal_but_a_pipe(sandbox_id: str) -> None:
    program = "printf 'a\\tb\\033]0;title\\007c\\n'"
    shown = run_on_terminal([*SANDRL, "sandboxes", "exec", sandbox_id, "--", "sh", "-c", program])
    assert shown.text.strip() == "a       b\\x1b]0;title\\x07c" or shown.text.strip() == "a\tb\\x1b]0;title\\x07c"
    assert execute(sandbox_id, "--", "sh", "-c", program).stdout == b"a\tb\x1b]0;title\x07c\n"


def test_logs_show_the_main_program_s_output(sandrl: Run, create: Create) -> None:
    program = "import sys\nfor i in range(5): print(i, flush=True)\nsys.stderr.write('\\x1b[31mred\\n')\nsys.exit(3)"
    sandbox = create("python", "-c", program)
    sandbox.wait_until_complete().result()
    sandbox_id = str(sandbox.sandbox_id)
    assert sandrl("sandboxes", "logs", sandbox_id).stdout == "0\n1\n2\n3\n4\n\x1b[31mred\n"
    assert sandrl("sandboxes", "logs", sandbox_id, "--tail", "2").stdout == "4\n\x1b[31mred\n"
    assert "\\x1b[31mred" in run_on_terminal([*SANDRL, "sandboxes", "logs", sandbox_id]).text
    shown = sandrl("sandboxes", "show", sandbox_id).stdout
    assert re.search(r"^exit code +3$", shown, re.MULTILINE)
    assert sandrl("sandboxes", "logs", "never-there").returncode == 2


def test_following_logs_ends_with_the_sandbox_or_with_ctrl_c(create: Create) -> None:
    sandbox = create("sh", "-c", "echo one; sleep 600")
    follow = [*SANDRL, "sandboxes", "logs", "-f", str(sandbox.sandbox_id)]
    shown = run_on_terminal(follow, typed=[(lambda text: "one" in text, CTRL_C)])
    assert shown.exit_code == 130
    assert "Traceback" not in shown.text
    with subprocess.Popen(follow, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        sandbox.stop().result()
        assert process.wait(30) == 0
