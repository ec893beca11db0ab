"""What sandrl relies on in every provider: the checks of `sandrl runtime check`, and what only a test can do."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sandrl.errors import InfrastructureError
from sandrl.runtime import daemon
from sandrl.sandboxes import Command, Connection, connect
from sandrl.sandboxes.conformance import CHECKS, Check, Examination, State
from sandrl.sandboxes.conformance.trial import PATIENCE_SECONDS, SLEEP
from sandrl.sandboxes.providers.protocol import Client, Result
from sandrl.settings import RuntimeKind, Settings
from tests.support.dead_daemon import kill_daemon
from tests.support.fork_server import inner_process

RESULTS = Path(__file__).with_name("results")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_provider_keeps_the_protocol_as_the_page_of_conformance_says(
    check: Check, examination: Examination, runtime: str
) -> None:
    outcome = examination.run(check)
    assert outcome.state is not State.FAILED, outcome.reason
    file = RESULTS / f"{runtime}.json"
    if file.exists():
        said = {each["name"]: each["state"] for each in json.loads(file.read_text())["checks"]}
        assert outcome.state == said[check.name], f"renew it: sandrl runtime check {runtime} --json > {file}"
    if outcome.state is State.ABSENT:
        pytest.skip(outcome.reason)


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Whether something comes true in time."""
    ends_at = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.05)
    return True


# Loss: the runtime itself fails.


def works(client: Client) -> bool:
    try:
        return client.create(()).run(Command(("true",))).result(PATIENCE_SECONDS).exit_code == 0
    except InfrastructureError as error:
        # It was booted ahead by what has failed, and its end was not seen yet.
        if not error.lost_runtime:
            raise
        return False


def test_a_runtime_that_fails_says_so_and_goes_on(settings: Settings, connection: Connection) -> None:
    if not connection.is_local:
        pytest.skip("the fork server of another runtime is its own")
    client = connection.open(tags=["conformance-loss"], max_lifetime_seconds=300)
    try:
        sandbox = client.create(())
        assert sandbox.run(Command(("true",))).result(PATIENCE_SECONDS) == Result(0)
        running = sandbox.run(Command(SLEEP, timeout_seconds=60.0))
        fork_server = inner_process(os.getpid())
        if not fork_server:
            endpoint = daemon.find(settings.state_dir)
            assert endpoint is not None
            fork_server = inner_process(endpoint.pid)
        os.kill(fork_server, signal.SIGKILL)
        with pytest.raises(InfrastructureError) as caught:
            running.result(PATIENCE_SECONDS)
        assert caught.value.lost_runtime
        assert within(30.0, lambda: works(client))
    finally:
        client.close(PATIENCE_SECONDS)


# How a runtime that can be started again is killed; it shows its end without a question.
KILL: dict[str, Callable[[Settings], None]] = {RuntimeKind.LOCAL: lambda settings: kill_daemon(settings.state_dir)}


def test_a_runtime_that_has_ended_shows_it_fails_every_command_and_is_replaced(
    settings: Settings, runtime: str, tmp_path: Path
) -> None:
    own = replace(settings, state_dir=tmp_path)
    connection = connect(own, runtime=runtime)
    if connection.has_ended is None:
        pytest.skip("only a question shows the end of this runtime")
    assert connection.renew is not None
    client = connection.open(tags=["conformance-end"], max_lifetime_seconds=300)
    try:
        sandbox, unused = client.create(()), client.create(())
        assert sandbox.run(Command(("true",))).result(PATIENCE_SECONDS) == Result(0)
        running = sandbox.run(Command(SLEEP, timeout_seconds=60.0))
        KILL[runtime](own)
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
