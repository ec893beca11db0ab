"""The unmodified SDK of E2B with a real service: sandboxes, commands, files, and what becomes of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.support.service import TOKEN, RunningService
from tests.support.tasks.base import BASE, import_task_base

e2b = pytest.importorskip("e2b", reason="not installed: e2b (make test)")


@pytest.fixture
def where(service: RunningService) -> dict[str, str]:
    return {"api_url": service.url, "sandbox_url": service.url, "api_key": TOKEN}


@pytest.fixture
def sandbox(where: dict[str, str]) -> Iterator[Any]:
    sandbox = e2b.Sandbox.create(timeout=300, envs={"NAME": "x"}, metadata={"who": "tests"}, **where)
    yield sandbox
    sandbox.kill()


def fails(work: Callable[[], object], kind: type[BaseException], text: str | None = None) -> Any:
    with pytest.raises(kind, match=text) as raised:
        work()
    return raised.value


def test_a_command_has_its_streams_its_variables_and_its_exit_code(sandbox: Any) -> None:
    result = sandbox.commands.run('echo "$NAME $MORE"; pwd; echo no >&2', envs={"MORE": "y z"}, cwd="/tmp")
    assert (result.stdout, result.stderr, result.exit_code) == ("x y z\n/tmp\n", "no\n", 0)
    own = sandbox.commands.run('echo "$n$its$paths"\necho "$v"', envs={"n": "1", "its": "2", "paths": "3", "v": "a\nb"})
    assert own.stdout == "123\na\nb\n"
    error = fails(lambda: sandbox.commands.run("echo out; exit 3"), e2b.CommandExitException)
    assert (error.exit_code, error.stdout) == (3, "out\n")
    fails(lambda: sandbox.commands.run("true", cwd="/nowhere"), e2b.InvalidArgumentException, "'/nowhere'")
    fails(lambda: sandbox.commands.run("true", user="nobody-here"), e2b.AuthenticationException, "nobody-here")


def test_a_damaged_request_leaves_nothing_and_does_not_stop_others(where: dict[str, str], sandbox: Any) -> None:
    headers = {"X-API-KEY": TOKEN}
    body = '{"templateID": "base", "metadata": {"a": "\\ud800"}}'
    refused = httpx.post(f"{where['api_url']}/sandboxes", content=body, headers=headers)
    assert (refused.status_code, "metadata" in refused.text) == (400, True)
    assert [each["sandboxID"] for each in httpx.get(f"{where['api_url']}/v2/sandboxes", headers=headers).json()] == [
        sandbox.sandbox_id
    ]


def test_output_comes_while_the_command_runs(sandbox: Any) -> None:
    said: list[str] = []

    def hear(text: str) -> None:
        said.append(text)
        if text == "ready\n":
            sandbox.files.write("/tmp/go", "")

    command = "echo ready; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo done"
    assert sandbox.commands.run(command, on_stdout=hear, timeout=60).stdout == "ready\ndone\n"
    assert said == ["ready\n", "done\n"]


def test_much_output_is_whole(sandbox: Any) -> None:
    assert len(sandbox.commands.run("head -c 6000000 /dev/zero | tr '\\0' x", timeout=60).stdout) == 6_000_000


def test_processes_in_the_background_are_listed_joined_fed_and_killed(sandbox: Any) -> None:
    handle = sandbox.commands.run("cat; echo end", background=True, stdin=True)
    assert [(each.pid, each.args[-1]) for each in sandbox.commands.list()] == [(handle.pid, "cat; echo end")]
    handle.disconnect()
    joined = sandbox.commands.connect(handle.pid)
    sandbox.commands.send_stdin(handle.pid, "a\n")
    sandbox.commands.close_stdin(handle.pid)
    assert joined.wait().stdout == "a\nend\n"
    reader = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.stream_input(reader.pid, ["1\n", b"2\n"])
    sandbox.commands.close_stdin(reader.pid)
    assert reader.wait().stdout == "1\n2\n"
    sleeper = sandbox.commands.run("sleep 600", background=True)
    assert sleeper.kill()
    assert fails(sleeper.wait, e2b.CommandExitException).exit_code == 137
    assert not sandbox.commands.kill(sleeper.pid)
    assert sandbox.commands.list() == []


def test_output_that_nobody_reads_is_kept_in_few_pieces_and_ends_a_program_that_writes_too_much(sandbox: Any) -> None:
    many = sandbox.commands.run("i=0; while [ $i -lt 100000 ]; do echo; i=$((i+1)); done", background=True, timeout=0)
    much = sandbox.commands.run("cat /dev/zero", background=True, timeout=0)
    assert len(many.wait().stdout) == 100_000
    fails(much.wait, e2b.SandboxException, "unread")
    assert sandbox.commands.run("echo here").stdout == "here\n"


def test_a_program_that_does_not_take_signals_is_killed_with_what_it_started(sandbox: Any) -> None:
    handle = sandbox.commands.run("trap '' TERM HUP INT; sleep 601 & sleep 602", background=True, timeout=0)
    count = "grep -xs sleep /proc/[0-9]*/comm | wc -l"
    until = time.monotonic() + 30
    while sandbox.commands.run(count).stdout != "2\n":
        assert time.monotonic() < until
    assert handle.kill()
    assert fails(handle.wait, e2b.CommandExitException).exit_code == 137
    while sandbox.commands.run(count).stdout != "0\n":
        assert time.monotonic() < until


def test_a_command_is_killed_at_its_time_limit(sandbox: Any) -> None:
    fails(lambda: sandbox.commands.run("sleep 600", timeout=1), e2b.TimeoutException)
    until = time.monotonic() + 30
    while sandbox.commands.list():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_terminal_has_its_size_and_can_be_resized(sandbox: Any) -> None:
    said = bytearray()
    handle = sandbox.pty.create(size=e2b.PtySize(rows=30, cols=100), timeout=60)
    sandbox.pty.send_stdin(handle.pid, b"stty size; touch /tmp/told\n")
    until = time.monotonic() + 30
    while not sandbox.files.exists("/tmp/told"):
        assert time.monotonic() < until
        time.sleep(0.1)
    sandbox.pty.resize(handle.pid, e2b.PtySize(rows=31, cols=101))
    sandbox.pty.send_stdin(handle.pid, b"stty size; exit\n")
    handle.wait(on_pty=said.extend)
    assert b"30 100" in said
    assert b"31 101" in said


def test_a_terminal_has_variables_of_any_length_and_content(sandbox: Any) -> None:
    said, value = bytearray(), "\x03" + "v" * 5000
    handle = sandbox.pty.create(size=e2b.PtySize(rows=30, cols=100), envs={"LONG": value}, timeout=60)
    sandbox.pty.send_stdin(handle.pid, b"echo length ${#LONG}; exit\n")
    handle.wait(on_pty=said.extend)
    assert b"length 5001" in said


def test_files_are_written_read_listed_moved_and_removed(sandbox: Any) -> None:
    files = sandbox.files
    content = bytes(range(256)) * 100
    files.write("/tmp/d/e/f", content)
    assert bytes(files.read("/tmp/d/e/f", format="bytes")) == content
    assert b"".join(files.read("/tmp/d/e/f", format="stream")) == content
    files.write("näme\nof file", "ä", gzip=True)
    assert files.read("näme\nof file") == "ä"
    assert [
        each.path for each in files.write_files([{"path": "/tmp/d/1", "data": "1"}, {"path": "/tmp/d/2", "data": "2"}])
    ] == [
        "/tmp/d/1",
        "/tmp/d/2",
    ]
    sandbox.commands.run("ln -s e /tmp/d/link; ln -s nowhere /tmp/d/broken; chmod 640 /tmp/d/1")
    found = {each.name: each for each in files.list("/tmp/d")}
    types = {"1": "file", "2": "file", "e": "dir", "link": "dir", "broken": "symlink"}
    assert {name: each.type.value for name, each in found.items()} == types
    assert (found["1"].size, found["1"].permissions, found["link"].symlink_target) == (1, "-rw-r-----", "/tmp/d/e")
    assert "f" in {each.name for each in files.list("/tmp/d", depth=2)}
    assert files.make_dir("/tmp/d/new/deep")
    assert not files.make_dir("/tmp/d/new/deep")
    assert files.rename("/tmp/d/2", "/tmp/d/new/3").path == "/tmp/d/new/3"
    fails(lambda: files.rename("/tmp/d/new/3", "/tmp/d/e"), e2b.SandboxException, "already")
    fails(lambda: files.remove("//"), e2b.InvalidArgumentException, "root")
    files.remove("/tmp/d/1")
    assert (files.exists("/tmp/d/1"), files.exists("/tmp/d/new/3"), files.exists("~")) == (False, True, True)
    fails(lambda: files.read("/tmp/d/1"), e2b.FileNotFoundException, "/tmp/d/1")
    fails(lambda: files.list("/tmp/d/1"), e2b.FileNotFoundException)
    fails(lambda: files.read("/tmp/d"), e2b.InvalidArgumentException, "is a directory")


def test_a_watched_directory_tells_what_has_changed(sandbox: Any) -> None:
    sandbox.files.write("/tmp/w/old", "1")
    watcher = sandbox.files.watch_dir("/tmp/w", recursive=True)
    assert watcher.get_new_events() == []
    sandbox.commands.run("cd /tmp/w; mkdir sub; echo 2 > sub/new; echo longer > old")
    told = {(event.name, event.type.value) for event in watcher.get_new_events()}
    assert {("sub", "create"), ("sub/new", "create"), ("sub/new", "write"), ("old", "write")} <= told
    sandbox.files.remove("/tmp/w/old")
    assert ("old", "remove") in {(event.name, event.type.value) for event in watcher.get_new_events()}
    watcher.stop()


def test_a_sandbox_is_found_and_its_time_is_extended(sandbox: Any, where: dict[str, str]) -> None:
    before = sandbox.get_info()
    assert (before.template_id, before.metadata, before.state.value) == ("base", {"who": "tests"}, "running")
    sandbox.set_timeout(3000)
    after = sandbox.get_info()
    assert (after.end_at - before.end_at).total_seconds() > 2000
    other = e2b.Sandbox.connect(sandbox.sandbox_id, **where)
    assert other.commands.run("echo $NAME").stdout == "x\n"
    query = e2b.SandboxQuery(metadata={"who": "tests"})
    assert sandbox.sandbox_id in {each.sandbox_id for each in e2b.Sandbox.list(query=query, **where).next_items()}
    nobody = e2b.SandboxQuery(metadata={"who": "nobody"})
    assert e2b.Sandbox.list(query=nobody, **where).next_items() == []
    for query, count in (
        (e2b.SandboxQuery(template="base", started_after=before.started_at - timedelta(seconds=1)), 1),
        (e2b.SandboxQuery(template="other"), 0),
        (e2b.SandboxQuery(started_after=before.started_at + timedelta(seconds=1)), 0),
    ):
        assert len(e2b.Sandbox.list(query=query, **where).next_items()) == count
    sandbox.set_timeout(86_400)
    time.sleep(1)
    sandbox.set_timeout(86_400)
    assert sandbox.get_info().end_at - before.started_at == timedelta(days=1)
    for query in ("limit=-1", "limit=0.5", "nextToken=-1", "startedAfter=now"):
        answer = httpx.get(f"{where['api_url']}/v2/sandboxes?{query}", headers={"X-API-KEY": where["api_key"]})
        assert answer.status_code == 400
    fails(lambda: sandbox.set_timeout(10**6), e2b.SandboxException, "from 0 to 86400")
    fails(lambda: sandbox.pause(), e2b.SandboxException, "no pauses")


def test_an_ended_sandbox_is_not_there_any_more(where: dict[str, str]) -> None:
    killed = e2b.Sandbox.create(**where)
    assert killed.is_running()
    assert killed.kill()
    assert not killed.is_running()
    assert not killed.kill()
    fails(lambda: killed.commands.run("true"), e2b.SandboxNotRunningException)
    short = e2b.Sandbox.create(timeout=1, **where)
    until = time.monotonic() + 30
    while short.is_running():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_sandbox_that_was_stopped_in_the_middle_is_not_an_exit_code(sandbox: Any) -> None:
    handle = sandbox.commands.run("sleep 600", background=True, timeout=120)
    stopped = [sys.executable, "-m", "sandrl", "sandboxes", "cleanup", "--tag", "e2b", "--force", "--yes"]
    subprocess.run(stopped, check=True, capture_output=True, env=dict(os.environ))
    fails(handle.wait, e2b.SandboxNotRunningException)
    assert not sandbox.is_running()


def test_the_template_is_an_image_with_its_users(where: dict[str, str]) -> None:
    import_task_base(os.environ)
    sandbox = e2b.Sandbox.create(BASE, timeout=120, **where)
    assert sandbox.get_info().template_id == BASE
    assert sandbox.commands.run("id -u", user="root").stdout == "0\n"
    sandbox.files.write("/root/secret", "1", user="root")
    fails(lambda: sandbox.files.read("/root/secret", user="app"), e2b.SandboxException)
    assert sandbox.commands.run("id -un; echo $HOME", user="app").stdout.split()[0] == "app"
    sandbox.kill()
    fails(lambda: e2b.Sandbox.create("no image", **where), e2b.SandboxException, "400.*not made")
    unreachable = "localhost:1/no/such:image"
    fails(lambda: e2b.Sandbox.create(unreachable, **where), e2b.ServiceBusyException, "not made")


def test_links_to_files_are_signed(sandbox: Any, where: dict[str, str]) -> None:
    other = e2b.Sandbox.create(**where)
    link = sandbox.upload_url("/tmp/a")
    assert httpx.post(link, files={"file": b"content"}).status_code == 200
    link = sandbox.download_url("/tmp/a", use_signature_expiration=60)
    assert httpx.get(link).content == b"content"
    assert httpx.get(link.replace("%2Fa", "%2Fb")).status_code == 401
    assert httpx.get(sandbox.upload_url("/tmp/a")).status_code == 401
    assert httpx.get(sandbox.download_url("/tmp/a", use_signature_expiration=-60)).status_code == 401
    endless = link.split("&signature_expiration=")[0] + f"&signature_expiration={'9' * 5000}"
    assert httpx.get(endless).status_code == 401
    other.kill()


def test_many_at_once_are_apart(where: dict[str, str]) -> None:
    async def work(number: int) -> str:
        sandbox = await e2b.AsyncSandbox.create(timeout=300, request_timeout=300, **where)
        await sandbox.files.write("own", str(number))
        await sandbox.commands.run("sleep 0.2")
        said = await sandbox.commands.run("cat own; ls | wc -l")
        assert said.stdout == f"{number}1\n"
        await sandbox.kill()
        return str(sandbox.sandbox_id)

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*map(work, range(24)))

    assert len(set(asyncio.run(all_of_them()))) == 24


def test_only_the_right_tokens_open_anything(sandbox: Any, service: RunningService, where: dict[str, str]) -> None:
    fails(lambda: e2b.Sandbox.create(**{**where, "api_key": "e2b_wrong"}), e2b.AuthenticationException)
    other = e2b.Sandbox.create(**where)
    path = {"path": "/etc/hostname"}
    with httpx.Client(base_url=service.url, trust_env=False) as client:

        def status(identifier: str, token: str) -> int:
            headers = {"E2b-Sandbox-Id": identifier, "X-Access-Token": token}
            return client.get("/files", params=path, headers=headers).status_code

        token, others = (each.connection_config.sandbox_headers["X-Access-Token"] for each in (sandbox, other))
        assert status(sandbox.sandbox_id, token) == 200
        assert [status(sandbox.sandbox_id, each) for each in (others, TOKEN, "")] == [401, 401, 401]
        assert status("no-such-sandbox", token) == 502
        assert client.get("/sandboxes").status_code == 401
        assert client.get("/v1/episodes", headers={"X-API-Key": TOKEN}).status_code == 401
        own = {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": token}
        calls = {**own, "content-type": "application/json"}
        for content in (b"[" * 100_000, b'{"path": "a\\u0000b"}', b"1", b'{"path": 1}'):
            answer = client.post("/filesystem.Filesystem/Stat", content=content, headers=calls)
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
        large = b"\0" + (1 << 30).to_bytes(4, "big")
        answer = client.post(
            "/process.Process/Start", content=large, headers={**own, "content-type": "application/connect+json"}
        )
        assert answer.status_code == 200
        assert b"resource_exhausted" in answer.content
    other.kill()
