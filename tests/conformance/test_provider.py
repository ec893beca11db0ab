"""What sandrl relies on in every provider, see `sandrl.sandboxes.providers.protocol`."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sandrl.errors import InfrastructureError, NotRunningError, UnknownSandboxError, UsageError
from sandrl.runtime import daemon
from sandrl.sandboxes import Command, Connection, Shape, connect
from sandrl.sandboxes.providers.protocol import AttachedProgram, Client, Output, Result, Sandbox
from sandrl.settings import RuntimeKind, Settings
from tests.conformance.conftest import PATIENCE_SECONDS, Run
from tests.support.dead_daemon import kill_daemon
from tests.support.fork_server import inner_process

SLEEP = ("sleep", "1000")
BYTES = bytes(range(256)) * 40
COUNT_SLEEPERS = (
    "import os\n"
    "def name(pid):\n"
    "    try:\n"
    "        return open(f'/proc/{pid}/cmdline', 'rb').read().split(b'\\0')[:2]\n"
    "    except OSError:\n"
    "        return []\n"
    "print(sum(name(pid) == [b'sleep', b'1000'] for pid in os.listdir('/proc') if pid.isdigit()))"
)


def python(program: str) -> tuple[str, ...]:
    return ("python", "-I", "-S", "-c", program)


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Whether something comes true in time."""
    ends_at = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.05)
    return True


def sleepers(run: Run) -> int:
    return int(run(*python(COUNT_SLEEPERS)).stdout)


def ids(found: Future[list[Sandbox]]) -> set[str | None]:
    return {sandbox.id for sandbox in found.result(PATIENCE_SECONDS)}


# What a command is, and how it ends.


def test_a_command_reads_its_input_and_its_outputs_are_told_apart(run: Run) -> None:
    program = "import sys; sys.stdout.write(sys.stdin.read()[::-1]); sys.stderr.write('beside'); sys.exit(7)"
    assert run(*python(program), stdin=b"input") == Result(7, b"tupni", b"beside")


def test_bytes_pass_unchanged_in_both_directions(run: Run) -> None:
    assert run("cat", stdin=BYTES).stdout == BYTES
    assert run("cat") == Result(0)


def test_megabytes_of_output_arrive_whole(run: Run) -> None:
    result = run(*python("import sys; sys.stdout.write('0123456789' * 400_000)"))
    assert (result.exit_code, len(result.stdout)) == (0, 4_000_000)


def test_input_that_nobody_reads_hinders_nothing(run: Run) -> None:
    assert run("true", stdin=b"x" * 1_000_000).exit_code == 0


def test_a_program_that_does_not_exist_is_an_outcome_and_no_error(run: Run) -> None:
    result = run("no-such-program")
    assert result.exit_code == 127
    assert b"no-such-program" in result.stderr


def test_the_signal_that_ended_a_program_shows_in_its_exit_code(run: Run) -> None:
    result = run(*python("import os; os.kill(os.getpid(), 9)"))
    assert result.exit_code == 128 + signal.SIGKILL


def test_a_command_that_runs_out_of_time_is_killed_with_all_that_it_started(run: Run) -> None:
    result = run("sh", "-c", "sleep 1000 & sleep 1000", timeout_seconds=1.0)
    assert result == Result(None)
    assert within(10.0, lambda: sleepers(run) == 0)


def test_the_time_of_a_command_counts_from_its_own_start(client: Client) -> None:
    fresh = [client.create(()).run(Command(("true",), timeout_seconds=5.0)) for _ in range(6)]
    assert [each.result(PATIENCE_SECONDS).exit_code for each in fresh] == [0] * 6


def test_a_command_that_is_cancelled_is_killed(sandbox: Sandbox, run: Run) -> None:
    running = sandbox.run(Command(SLEEP, timeout_seconds=60.0))
    assert within(10.0, lambda: sleepers(run) == 1)
    running.cancel()
    assert within(10.0, lambda: sleepers(run) == 0)


def test_commands_of_one_sandbox_share_it_and_those_of_two_do_not(client: Client, run: Run) -> None:
    assert run("sh", "-c", "echo mine > ~/note").exit_code == 0
    assert run("sh", "-c", "cat ~/note").stdout == b"mine\n"
    other = client.create(()).run(Command(("sh", "-c", "cat ~/note")))
    assert other.result(PATIENCE_SECONDS).exit_code != 0


def test_many_sandboxes_run_at_once(client: Client) -> None:
    results = [client.create(()).run(Command(("cat",), str(number).encode())) for number in range(12)]
    assert [int(each.result(PATIENCE_SECONDS).stdout) for each in results] == list(range(12))


def test_a_worker_sandbox_may_make_namespaces_where_others_may_not(client: Client, connection: Connection) -> None:
    """Where cells are not possible, a worker is a sandbox as any other."""
    # A namespace of users and one of mounts; as root in it, with a file system of its own in place of `/srv`.
    program = (
        "import ctypes\n"
        "call = ctypes.CDLL(None)\n"
        "print(call.unshare(0x10020000), call.mount(b'none', b'/srv', b'tmpfs', 0, None))\n"
    )
    command = Command(("python3", "-c", program))
    worker, other = (client.create((), cells=cells).run(command) for cells in (2, 0))
    found = worker.result(PATIENCE_SECONDS)
    assert found.exit_code == 0
    assert other.result(PATIENCE_SECONDS).exit_code == 0
    if connection.isolation == "native":
        assert found.stdout == b"0 0\n"
    if connection.is_local:
        assert other.result(PATIENCE_SECONDS).stdout == b"-1 -1\n"


# Files.


def test_a_file_is_written_read_and_seen_by_programs(sandbox: Sandbox, run: Run) -> None:
    sandbox.start().result(PATIENCE_SECONDS)
    sandbox.write_file("/tmp/data.bin", BYTES).result(PATIENCE_SECONDS)
    assert sandbox.read_file("/tmp/data.bin").result(PATIENCE_SECONDS) == BYTES
    assert run("wc", "-c", "/tmp/data.bin").stdout.split()[0] == str(len(BYTES)).encode()


def test_errors_of_files_are_told_apart(sandbox: Sandbox) -> None:
    sandbox.start().result(PATIENCE_SECONDS)
    with pytest.raises(FileNotFoundError):
        sandbox.read_file("/tmp/none").result(PATIENCE_SECONDS)
    with pytest.raises(IsADirectoryError):
        sandbox.read_file("/tmp").result(PATIENCE_SECONDS)


# What there is: tags, ids, ends.


def test_sandboxes_are_found_by_all_of_their_tags(client: Client, tag: str) -> None:
    one, two = client.create(["one"]), client.create(["two"])
    for each in (one, two):
        each.start().result(PATIENCE_SECONDS)
    assert ids(client.list([tag])) == {one.id, two.id}
    assert ids(client.list([tag, "two"])) == {two.id}
    assert ids(client.list([tag, "three"])) == set()


def test_another_client_of_this_process_finds_them_too(connection: Connection, sandbox: Sandbox, tag: str) -> None:
    sandbox.start().result(PATIENCE_SECONDS)
    other = connection.open()
    assert ids(other.list([tag])) == {sandbox.id}
    other.close(PATIENCE_SECONDS)


def test_a_sandbox_is_described_as_it_is(client: Client, connection: Connection, tag: str) -> None:
    begun = datetime.now(UTC)
    sandbox = client.create(["seen"])
    assert (sandbox.id,) == (None,)
    sandbox.start().result(PATIENCE_SECONDS)
    assert sandbox.id is not None
    info = client.get(sandbox.id).result(PATIENCE_SECONDS).info
    assert (info.id, info.status, info.image, info.exit_code) == (sandbox.id, "running", connection.image, None)
    assert {tag, "seen"} <= set(info.tags)
    assert info.max_lifetime_seconds == 300
    assert info.created_at is not None
    assert info.created_at > begun - timedelta(seconds=60)
    assert not info.has_ended


def test_a_sandbox_that_was_stopped_is_gone_and_stays_so(client: Client, sandbox: Sandbox, tag: str) -> None:
    sandbox.start().result(PATIENCE_SECONDS)
    sandbox.stop().result(PATIENCE_SECONDS)
    assert ids(client.list([tag])) == set()
    assert sandbox.id is not None
    assert client.get(sandbox.id).result(PATIENCE_SECONDS).info.has_ended
    sandbox.stop().result(PATIENCE_SECONDS)
    assert ids(client.list([tag], ended=True)) == {sandbox.id}


def test_stopping_kills_what_runs(sandbox: Sandbox, run: Run) -> None:
    running = sandbox.run(Command(SLEEP, timeout_seconds=60.0))
    assert within(10.0, lambda: sleepers(run) == 1)
    sandbox.stop().result(PATIENCE_SECONDS)
    with pytest.raises(InfrastructureError):
        running.result(PATIENCE_SECONDS)


def test_one_that_is_stopped_while_it_is_created_is_gone_or_found_by_its_tags(client: Client, tag: str) -> None:
    sandboxes = [client.create(()) for _ in range(4)]
    for each in sandboxes:
        each.run(Command(SLEEP))
    for stop in [each.stop() for each in sandboxes]:
        stop.result(PATIENCE_SECONDS)
    # A creation that was in flight may show up later; whatever shows up can be stopped.
    for pause in (0.0, 1.0):
        time.sleep(pause)
        assert within(PATIENCE_SECONDS, lambda: not stopped_by_tag(client, tag))


def stopped_by_tag(client: Client, tag: str) -> list[Sandbox]:
    """Stops what has a tag, and returns it."""
    found = list(client.list([tag]).result(PATIENCE_SECONDS))
    for each in found:
        each.stop().result(PATIENCE_SECONDS)
    return found


def test_a_sandbox_that_was_never_created_is_stopped_by_doing_nothing(client: Client, tag: str) -> None:
    client.create(()).stop().result(PATIENCE_SECONDS)
    assert ids(client.list([tag])) == set()


def test_a_lifetime_ends_a_sandbox_whatever_runs_in_it(connection: Connection, tag: str) -> None:
    short = connection.open(tags=[tag], max_lifetime_seconds=2)
    sandbox = short.create(())
    running = sandbox.run(Command(SLEEP, timeout_seconds=60.0))
    with pytest.raises(InfrastructureError):
        running.result(PATIENCE_SECONDS)
    assert within(10.0, lambda: ids(short.list([tag])) == set())
    short.close(PATIENCE_SECONDS)


def test_a_sign_of_life_is_cheap(client: Client) -> None:
    assert client.ping().result(PATIENCE_SECONDS) is None


# Errors are told apart.


def test_an_unknown_id_is_said_to_be_one(client: Client) -> None:
    with pytest.raises(UnknownSandboxError):
        client.get("00000000-0000-4000-8000-000000000000").result(PATIENCE_SECONDS)


def test_a_command_for_a_sandbox_that_has_ended_blames_the_sandbox(sandbox: Sandbox) -> None:
    sandbox.start().result(PATIENCE_SECONDS)
    sandbox.stop().result(PATIENCE_SECONDS)
    with pytest.raises(InfrastructureError):
        sandbox.run(Command(("true",))).result(PATIENCE_SECONDS)


@pytest.mark.usefixtures("on_this_machine")
def test_an_image_that_cannot_be_had_is_refused_by_its_name(settings: Settings, kind: RuntimeKind) -> None:
    def use() -> None:
        client = connect(settings, runtime=kind, image="host:2.7").open()
        try:
            client.create(()).run(Command(("true",))).result(PATIENCE_SECONDS)
        finally:
            client.close(PATIENCE_SECONDS)

    with pytest.raises(UsageError, match=r"host:2\.7"):
        use()


# A program with its streams attached.


class Attachment:
    """A program of a sandbox, and what came of its streams."""

    def __init__(self, client: Client, sandbox: Sandbox, *argv: str, timeout_seconds: float = 30.0) -> None:
        sandbox.start().result(PATIENCE_SECONDS)
        assert sandbox.id is not None
        self.out, self.err = bytearray(), bytearray()
        found = client.get(sandbox.id).result(PATIENCE_SECONDS)
        self.program: AttachedProgram = found.attach(
            argv,
            stdin=True,
            stdout=Output(self.out.extend),
            stderr=Output(self.err.extend),
            timeout_seconds=timeout_seconds,
        )

    def end(self) -> int | None:
        self.program.ended.result(PATIENCE_SECONDS)
        return self.program.finish()


def test_output_comes_while_the_program_runs_and_input_reaches_it(client: Client, sandbox: Sandbox) -> None:
    attached = Attachment(
        client, sandbox, *python("print('name?', flush=True); print('hello', input()); raise SystemExit(3)")
    )
    assert within(20.0, lambda: bytes(attached.out) == b"name?\n")
    assert not attached.program.ended.done()
    attached.program.write(b"you\n")
    attached.program.close_input()
    assert attached.end() == 3
    assert (bytes(attached.out), bytes(attached.err)) == (b"name?\nhello you\n", b"")


def test_the_input_of_a_program_that_has_ended_can_be_closed(client: Client, sandbox: Sandbox) -> None:
    attached = Attachment(client, sandbox, *python("raise SystemExit(3)"))
    attached.program.ended.result(PATIENCE_SECONDS)
    attached.program.close_input()
    assert attached.end() == 3


def test_attached_output_is_byte_for_byte(client: Client, sandbox: Sandbox) -> None:
    attached = Attachment(client, sandbox, "cat")
    attached.program.write(BYTES)
    attached.program.close_input()
    assert attached.end() == 0
    assert bytes(attached.out) == BYTES


def test_an_attached_program_ends_when_its_time_is_over_or_it_is_cancelled(client: Client, sandbox: Sandbox) -> None:
    assert Attachment(client, sandbox, *SLEEP, timeout_seconds=1.0).end() is None
    cancelled = Attachment(client, sandbox, *SLEEP)
    cancelled.program.cancel()
    with pytest.raises(InfrastructureError):
        cancelled.end()


def test_a_program_whose_output_nobody_reads_is_killed(client: Client, sandbox: Sandbox, run: Run) -> None:
    sandbox.start().result(PATIENCE_SECONDS)
    assert sandbox.id is not None

    def refuse(_: bytes) -> None:
        raise BrokenPipeError

    program = (
        client.get(sandbox.id)
        .result(PATIENCE_SECONDS)
        .attach(
            ("sh", "-c", "echo something; sleep 1000"),
            stdin=False,
            stdout=Output(refuse),
            stderr=Output(refuse),
            timeout_seconds=60.0,
        )
    )
    program.ended.result(PATIENCE_SECONDS)
    with pytest.raises(BrokenPipeError):
        program.finish()
    assert within(10.0, lambda: sleepers(run) == 0)


def test_nothing_is_attached_to_a_sandbox_that_has_ended(client: Client, sandbox: Sandbox) -> None:
    sandbox.start().result(PATIENCE_SECONDS)
    sandbox.stop().result(PATIENCE_SECONDS)
    out, err = Output(bytearray().extend), Output(bytearray().extend)
    program = sandbox.attach(("true",), stdin=False, stdout=out, stderr=err, timeout_seconds=5.0)
    program.ended.result(PATIENCE_SECONDS)
    with pytest.raises(NotRunningError):
        program.finish()


# Limits and isolation of this machine's own sandboxes.


@pytest.mark.usefixtures("on_this_machine")
def test_a_program_cannot_take_more_memory_than_its_sandbox_has(client: Client, run: Run) -> None:
    neighbour = client.create(())
    neighbour.start().result(PATIENCE_SECONDS)
    result = run(*python("blocks = [b'x' * (1 << 20) for _ in range(2048)]; print('took all')"))
    assert result.exit_code != 0
    assert b"took all" not in result.stdout
    assert neighbour.run(Command(("echo", "well"))).result(PATIENCE_SECONDS).stdout == b"well\n"


# Loss: the runtime itself fails.


@pytest.mark.usefixtures("on_this_machine")
def test_a_runtime_that_fails_says_so_and_goes_on(
    client: Client, sandbox: Sandbox, settings: Settings, run: Run
) -> None:
    running = sandbox.run(Command(SLEEP, timeout_seconds=60.0))
    assert within(10.0, lambda: sleepers(run) == 1)
    fork_server = inner_process(os.getpid())
    if not fork_server:
        endpoint = daemon.find(settings.state_dir)
        assert endpoint is not None
        fork_server = inner_process(endpoint.pid)
    os.kill(fork_server, signal.SIGKILL)
    with pytest.raises(InfrastructureError) as caught:
        running.result(PATIENCE_SECONDS)
    assert caught.value.lost_runtime

    def works() -> bool:
        try:
            return client.create(()).run(Command(("true",))).result(PATIENCE_SECONDS).exit_code == 0
        except InfrastructureError as error:
            # It was booted ahead by what has failed, and its end was not seen yet.
            if not error.lost_runtime:
                raise
            return False

    assert within(30.0, works)


def test_a_runtime_that_lives_is_never_taken_for_one_that_has_ended(connection: Connection, sandbox: Sandbox) -> None:
    if connection.has_ended is None:
        assert connection.renew is None, "a runtime that can be started again shows its end without a question"
        return
    assert not connection.has_ended()
    sandbox.start().result(PATIENCE_SECONDS)
    sandbox.stop().result(PATIENCE_SECONDS)
    assert not connection.has_ended()


def test_a_client_that_has_abandoned_its_sandboxes_can_do_so_again_and_be_closed(
    connection: Connection, client: Client, tag: str
) -> None:
    other = connection.open(tags=[tag], max_lifetime_seconds=300)
    running = other.create(()).run(Command(SLEEP, timeout_seconds=60.0))
    assert within(20.0, lambda: len(ids(client.list([tag]))) == 1)
    other.abandon()
    other.abandon()
    other.close(PATIENCE_SECONDS)
    running.cancel()


# How a runtime that can be started again is killed; it shows its end without a question.
KILL: dict[RuntimeKind, Callable[[Settings], None]] = {
    RuntimeKind.LOCAL: lambda settings: kill_daemon(settings.state_dir)
}


def test_a_runtime_that_has_ended_shows_it_fails_every_command_and_is_replaced(
    settings: Settings, kind: RuntimeKind, tmp_path: Path
) -> None:
    own = replace(settings, state_dir=tmp_path)
    connection = connect(own, runtime=kind)
    if connection.has_ended is None:
        pytest.skip("only a question shows the end of this runtime")
    assert connection.renew is not None
    client = connection.open(tags=["conformance-end"], max_lifetime_seconds=300)
    try:
        sandbox, unused = client.create(()), client.create(())
        assert sandbox.run(Command(("true",))).result(PATIENCE_SECONDS) == Result(0)
        running = sandbox.run(Command(SLEEP, timeout_seconds=60.0))
        KILL[kind](own)
        assert within(10.0, connection.has_ended)
        # Some fail while their input is still being handed over.
        failed = [running, unused.run(Command(("true",)))]
        failed += [sandbox.run(Command(("cat",), b"input")) for _ in range(50)]
        for each in failed:
            with pytest.raises(InfrastructureError) as caught:
                each.result(PATIENCE_SECONDS)
            assert caught.value.lost_runtime
        client.abandon()
        began = time.monotonic()
        client.close(PATIENCE_SECONDS)
        assert time.monotonic() - began < PATIENCE_SECONDS / 2
        found = connection.renew()
        assert found.address != connection.address
        assert found.has_ended is not None
        assert (connection.has_ended(), found.has_ended()) == (True, False)
        other = found.open(max_lifetime_seconds=300)
        assert other.create(()).run(Command(("true",))).result(PATIENCE_SECONDS) == Result(0)
        other.close(PATIENCE_SECONDS)
    finally:
        daemon.stop(tmp_path)


def test_futures_are_completed_off_the_thread_that_waits(sandbox: Sandbox) -> None:
    ended: list[str] = []
    running = sandbox.run(Command(("sleep", "0.2")))
    running.add_done_callback(lambda _: ended.append(threading.current_thread().name))
    running.result(PATIENCE_SECONDS)
    assert within(5.0, lambda: bool(ended))
    assert ended != [threading.current_thread().name]


def test_a_sandbox_may_have_a_shape_of_its_own(client: Client, kind: RuntimeKind) -> None:
    shape = Shape(variables=(("GREETING", "it's me"),), memory_bytes=1 << 30, lifetime_seconds=100)
    if kind is RuntimeKind.DAEMONLESS:
        with pytest.raises(UsageError, match="gives no sandbox a shape of its own"):
            client.create((), shape=shape)
        return
    sandbox = client.create((), shape=shape)
    result = sandbox.run(Command(("sh", "-c", 'echo "$GREETING"'))).result(PATIENCE_SECONDS)
    assert result.stdout == b"it's me\n"
    found = client.get(sandbox.id or "").result(PATIENCE_SECONDS).info
    assert found.max_lifetime_seconds == 100
    assert dict(found.resources)["memory"] == str(1 << 30)


def test_a_command_that_writes_more_than_it_may_is_killed(sandbox: Sandbox) -> None:
    endless = sandbox.run(Command(("yes", "x" * 1000), timeout_seconds=60.0, most_output_bytes=1 << 20))
    assert endless.result(PATIENCE_SECONDS).exit_code == 141
    few = sandbox.run(Command(("echo", "few"), most_output_bytes=1 << 20)).result(PATIENCE_SECONDS)
    assert (few.exit_code, few.stdout) == (0, b"few\n")


def test_a_program_may_have_a_terminal(sandbox: Sandbox, kind: RuntimeKind) -> None:
    shown: list[bytes] = []
    argv = ("sh", "-c", "test -t 0 && read line && echo got $line; exit 3")
    if kind is RuntimeKind.DAEMONLESS:
        with pytest.raises(UsageError, match="has no terminals"):
            sandbox.open_terminal(argv, columns=80, rows=24, output=shown.append)
        return
    program = sandbox.open_terminal(argv, columns=80, rows=24, output=shown.append)
    program.write(b"words\r")
    program.ended.result(PATIENCE_SECONDS)
    assert program.finish() == 3
    assert b"got words\r\n" in b"".join(shown)
    left = sandbox.open_terminal(("sleep", "1000"), columns=80, rows=24, output=shown.append)
    left.cancel()
    left.ended.result(PATIENCE_SECONDS)
    with pytest.raises(InfrastructureError):
        left.finish()
