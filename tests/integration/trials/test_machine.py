"""Commands and files of machines, in sandboxes of the local runtime."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandrl.errors import NoUserError
from sandrl.events import Event, ExecutionFinished
from sandrl.sandboxes import CommandOutcome
from sandrl.trials import guest
from sandrl.trials.entries import Entry, of_archive
from sandrl.trials.machine import Machine, TooLargeError
from sandrl.trials.state import find_state
from sandrl.trials.users import Facts
from tests.support.image_trees import import_tree, make_busybox_tree

Machines = Callable[..., Machine]


def said(outcome: CommandOutcome) -> str:
    assert outcome.exit_code == 0, (outcome, outcome.stdout, outcome.stderr)
    return outcome.stdout.decode().strip()


def test_a_command_has_its_input_output_and_exit_code(machine: Machine) -> None:
    outcome = machine.run("cat; echo error >&2; exit 7", timeout_seconds=10, stdin=b"one\ntwo\0")
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (7, b"one\ntwo\0", b"error\n")
    assert said(machine.run(["echo", "a  b", "$HOME"], timeout_seconds=10)) == "a  b $HOME"
    assert machine.run("kill -9 $$", timeout_seconds=10).exit_code == 137
    assert machine.run(["no-such-program"], timeout_seconds=10).exit_code == 127


def test_its_start_is_measured_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Event] = []
    monkeypatch.setattr(machine._place, "emit", told.append)
    for _ in range(2):
        machine.run("true", timeout_seconds=10)
    assert [isinstance(event, ExecutionFinished) and event.startup_seconds is not None for event in told] == [
        True,
        False,
    ]


def test_variables_have_any_value_and_no_place_in_arguments(machine: Machine) -> None:
    value = 'it\'s "$x" `y`\n\\ two  lines\n'
    variables = {"n": "1\n2", "its": "3", "paths": "4", "V": value}
    outcome = machine.run(
        'printf %s "$n$its$paths$V"\ncat /proc/[0-9]*/cmdline >/tmp/seen', timeout_seconds=10, variables=variables
    )
    assert outcome.stdout.decode() == f"1\n234{value}"
    assert b"two  lines" not in (machine.read("/tmp/seen", 1 << 20) or b"")


def test_no_variable_of_an_image_is_lost_to_the_machines_own_shell(machines: Machines) -> None:
    names = sorted(set(re.findall(r"[A-Za-z_]\w*", guest.RUN + guest.SHELL)) - {"PATH", "IFS", "ENV"})
    assert {"exec", "sandrl_d"} <= set(names)
    names = [name for name in names if not name.startswith("sandrl_")]
    image = import_tree(
        "localhost/tests/named:1", make_busybox_tree, {"Env": ["PATH=/bin", *(f"{n}=kept" for n in names)]}
    )
    found = said(machines("busybox", image=image).run("env", timeout_seconds=10)).splitlines()
    assert [name for name in names if f"{name}=kept" not in found] == []


def test_words_may_have_any_bytes_but_one(machine: Machine) -> None:
    value = bytes(range(1, 256)).decode("utf-8", "surrogateescape")
    outcome = machine.run(
        ["sh", "-c", 'printf %s%s "$V" "$1"', "sh", value], timeout_seconds=10, variables={"V": value}
    )
    assert outcome.stdout == 2 * bytes(range(1, 256))
    outcome = machine.run("echo a\0b", timeout_seconds=10)
    assert (outcome.exit_code, outcome.stderr) == (126, b"a word of the command has a NUL byte\n")


def test_the_directory_is_that_of_the_call(machine: Machine) -> None:
    assert said(machine.run("pwd", timeout_seconds=10, directory="/var/tmp")) == "/var/tmp"
    assert machine.run("pwd", timeout_seconds=10, directory="/nowhere").exit_code == 126


@pytest.mark.parametrize(("user", "ids"), [("app", "1000 1000 1000 50"), ("1000", "1000 1000 1000 50"), ("0", "0 0 0")])
def test_commands_of_a_user_are_its_own(machine: Machine, user: str, ids: str) -> None:
    seen = "echo $(id -u) $(id -g) $(id -G); echo $HOME; touch /tmp/made && ls -n /tmp/made"
    lines = said(machine.run(seen, user=user, timeout_seconds=10, variables={"A": "b"})).splitlines()
    assert lines[0] == ids
    assert lines[1] == ("/root" if user == "0" else "/home/app")
    assert lines[2].split()[2] == ids.split()[0]


def test_a_number_without_a_name_is_a_user(machines: Machines) -> None:
    assert said(machines("debian").run("id -u; id -g", user="77:99", timeout_seconds=10)).split() == ["77", "99"]
    with pytest.raises(NoUserError, match="neither setpriv nor chroot nor su"):
        machines("busybox").run("true", user="77", timeout_seconds=10)


def test_a_user_that_is_made_later_is_found(machine: Machine) -> None:
    with pytest.raises(NoUserError, match="no user 'late'"):
        machine.run("true", user="late", timeout_seconds=10)
    machine.run("echo late:x:77:77::/tmp:/bin/sh >>/etc/passwd", timeout_seconds=10)
    assert said(machine.run("id -u", user="late", timeout_seconds=10)) == "77"


def test_a_late_command_is_ended_with_all_in_its_session(machine: Machine) -> None:
    script = """echo begun; trap '' TERM
    setsid sleep 1001 & (trap '' HUP; exec sleep 1002) & sleep 1003 & sh -c 'sleep 1004; :'; sleep 1005"""
    outcome = machine.run(script, user="app", timeout_seconds=1)
    assert outcome.timed_out
    assert outcome.stdout == b"begun\n"
    left = said(machine.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '", timeout_seconds=10))
    assert [f"sleep {number}" in left for number in range(1001, 1006)] == [True, True, False, False, False]
    assert said(machine.run("ls -A /tmp | grep -c run", timeout_seconds=10)) == "1", "that of this command"


def test_what_a_command_leaves_behind_goes_on(machine: Machine) -> None:
    script = "(while sleep 0.1; do echo alive; echo x >>/tmp/beats; done) & echo done"
    began = time.monotonic()
    assert said(machine.run(script, timeout_seconds=60)) == "done"
    assert time.monotonic() - began < 30
    before = len(machine.read("/tmp/beats", 1 << 20) or b"")
    assert said(machine.run("sleep 1; echo later", timeout_seconds=10)) == "later"
    assert len(machine.read("/tmp/beats", 1 << 20) or b"") > before


def test_interrupts_are_not_ignored(machine: Machine) -> None:
    assert machine.run("sh -c 'kill -INT $$; sleep 5; echo survived'", timeout_seconds=10).stdout == b""


def test_long_output_is_cut_in_the_middle_and_its_size_said(machine: Machine) -> None:
    script = "echo begin; i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; echo end"
    whole = machine.run(script, timeout_seconds=20).stdout
    cut = machine.run(script, timeout_seconds=20, output_bytes=2000).stdout
    head, _, tail = cut.partition(b"\n[... ")
    size, _, tail = tail.partition(b" bytes are left out ...]\n")
    assert len(head) + int(size) + len(tail) == len(whole)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + len(tail) == 2000


def test_output_without_end_takes_no_room(machine: Machine) -> None:
    outcome = machine.run("yes 0123456789 | head -c 300000000; echo the end", timeout_seconds=60)
    assert outcome.exit_code == 0
    assert outcome.stdout.startswith(b"0123456789\n")
    assert outcome.stdout.endswith(b"the end\n")
    assert outcome.stdout.partition(b"[... ")[2].startswith((b"28", b"29")), "nearly the 300 MB"
    assert said(machine.run("ls -A /tmp | grep -c run", timeout_seconds=10)) == "1", "that of this command"


def test_programs_that_were_replaced_are_bounded(machines: Machines) -> None:
    machine = machines("debian")
    liar = b"#!/bin/busybox sh\nexec /bin/busybox yes lies\n"
    machine.put("/bin", [Entry("head", 0o755, liar)])
    with pytest.raises(TooLargeError):
        machine.read("/etc/passwd", 10_000)
    outcome = machine.run("echo x", timeout_seconds=20)
    assert len(outcome.stdout) <= 70_000


def test_files_are_written_with_their_modes_and_owners(machine: Machine) -> None:
    entries = [Entry("a", 0o700), Entry("a/run.sh", 0o755, b"#!/bin/sh\necho ran\n"), Entry("b/c", 0o600, b"\0\xff")]
    machine.put("/new/place", [*entries, Entry("link", target="b/c")], owner="app")
    assert said(machine.run(["/new/place/a/run.sh"], user="app", timeout_seconds=10)) == "ran"
    assert said(machine.run("ls -ln /new/place/b/c /new/place/link", timeout_seconds=10)).startswith("-rw-------")
    assert machine.read("/new/place/b/c", 10) == b"\0\xff"
    assert machine.read("/new/place/link", 10) is None
    machine.put("/new/place", [Entry("only", 0o644, b"")], anew=True)
    assert said(machine.run("ls /new/place", timeout_seconds=10)) == "only"


def test_links_in_the_place_of_files_are_replaced(machine: Machine) -> None:
    machine.run("mkdir -p /t /safe; ln -s /safe /t/d; ln -s /safe/f /t/f; echo kept >/safe/f", timeout_seconds=10)
    machine.put("/t", [Entry("d/x", 0o644, b"new"), Entry("f", 0o644, b"new")])
    assert said(machine.run("cat /safe/*; cat /t/d/x /t/f", timeout_seconds=10)) == "kept\nnewnew"
    machine.run("rm -rf /t; ln -s /safe /t", timeout_seconds=10)
    machine.put("/t", [Entry("y", 0o644, b"new")], anew=True)
    assert said(machine.run("ls /safe", timeout_seconds=10)) == "f"


def test_files_are_collected_and_bounded(machine: Machine) -> None:
    machine.run("mkdir -p /o/in; echo one >/o/in/a; echo two >/o/in/b.log; ln -s a /o/in/l", timeout_seconds=10)
    archive = machine.get("/o/in", exclude=["*.log"], most_bytes=1 << 20)
    assert archive is not None
    found = {entry.name: entry for entry in of_archive(archive)}
    assert set(found) == {"in", "in/a", "in/l"}
    assert (found["in/a"].content, found["in/l"].target) == (b"one\n", "a")
    assert machine.get("/o/none", most_bytes=10) is None
    assert machine.read("/o/none", 10) is None
    with pytest.raises(TooLargeError):
        machine.get("/o/in", most_bytes=100)
    with pytest.raises(TooLargeError):
        machine.read("/o/in/a", 3)
    machine.run("busybox mkfifo /o/pipe", timeout_seconds=10)
    assert machine.read("/o/pipe", 10) is None


def test_processes_of_a_user_are_ended(machine: Machine) -> None:
    machine.run("sleep 2001 &", user="app", timeout_seconds=10)
    machine.run("sleep 2002 &", timeout_seconds=10)

    def running() -> list[bool]:
        seen = said(machine.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '", timeout_seconds=10))
        return ["sleep 2001" in seen, "sleep 2002" in seen]

    assert running() == [True, True]
    machine.end_processes("app")
    assert running() == [False, True]
    machine.end_processes()
    assert running() == [False, False]


def test_an_image_with_next_to_nothing_runs_commands_and_takes_files(machines: Machines) -> None:
    machine = machines("bare")
    machine.put("/x", [Entry("d", 0o755), Entry("d/f", 0o600, b"content"), Entry("l", target="d/f")])
    assert said(machine.run("cat /x/l", timeout_seconds=10)) == "content"
    assert machine.run("exit 3", timeout_seconds=10).exit_code == 3


def test_a_machine_with_more_memory_may_have_more_of_the_kernel(machines: Machines) -> None:
    shown = said(machines("debian").run("ulimit -n; ulimit -u", timeout_seconds=10)).split()
    assert [int(number) for number in shown] == [512 + 512 * 8, 256 + 256], "its memory is 1 GiB"


def test_an_agent_that_has_filled_its_disk_may_tidy_up_and_its_state_is_kept(
    machines: Machines, tmp_path: Path
) -> None:
    machine = machines("debian", states=tmp_path)
    terminal = machine.terminal()
    assert terminal.run("for i in 1 2 3 4; do head -c 600000000 /dev/zero >/srv/large$i; done", 60).exit_code == 137
    assert terminal.run("echo x", 10).output == "x\n", "in a new shell"
    assert said(machine.run("sleep 1; echo small >/srv/small; cat /srv/small", timeout_seconds=10)) == "small"
    assert machine.run("head -c 100000000 /dev/zero >/srv/more; sleep 5", timeout_seconds=10).exit_code == 137
    assert machine.read("/srv/small", 1000) == b"small\n"
    state = machine.save()
    assert state is not None
    assert find_state(tmp_path, state.digest, state.image) == state
    assert said(machine.run("rm /srv/large* /srv/more; sleep 1; echo well", timeout_seconds=10)) == "well"
    assert terminal.run("echo well", 10).output == "well\n"


def test_its_own_programs_are_in_directories_that_root_alone_can_write(machines: Machines) -> None:
    machine = machines("debian")
    script = """cd /opt && mkdir -p roots others group open/roots/bin 'with space' && ln -s ../with\\ space open/link
    chown app others; chmod 775 group; chmod 777 open"""
    machine.run(f"mkdir -p /opt; {script}", timeout_seconds=10)
    path = "/opt/others:relative::/opt/group:/opt/open/roots/bin:/nowhere:/opt/open/link:/opt/roots:/bin/../bin"
    outcome = machine.run(
        ("sh", "-c", guest.program(guest.PROBE)), timeout_seconds=10, variables={"PATH": path}, stdin=b"mark\n"
    )
    assert Facts.read(outcome.stdout.decode(), "mark").path == "/bin:/opt/with space:/opt/roots"


@pytest.mark.parametrize("image", ["elsewhere", "open"])
def test_an_image_that_keeps_its_programs_elsewhere_has_them(machines: Machines, image: str) -> None:
    machine = machines(image)
    machine.put("/x", [Entry("run.sh", 0o755, b"#!/opt/tools/sh\nid -u\n")])
    assert said(machine.run("/x/run.sh", user="app", timeout_seconds=10)) == "1000"
    assert said(machine.run("mkdir /y && command -v mkdir", timeout_seconds=10, is_own=True))
    assert machine.read("/x/run.sh", 100) == b"#!/opt/tools/sh\nid -u\n"
    assert machine.terminal().run("cd /y && pwd", 10).output == "/y\n"
