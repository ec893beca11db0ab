"""Terminals of machines: shells that keep their state."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from sandrl.errors import InfrastructureError
from sandrl.sandboxes import Job
from sandrl.trials.machine import Machine
from sandrl.trials.terminal import Screen, StillRunningError, Terminal


@pytest.fixture
def terminal(machine: Machine) -> Terminal:
    return machine.terminal()


def done(screen: Screen) -> tuple[str, int | None]:
    assert not screen.is_running, screen
    return screen.output, screen.exit_code


def shown(terminal: Terminal, words: str) -> str:
    text = ""
    for _ in range(100):
        screen = terminal.read(0.1)
        text += screen.output
        if words in text:
            return text
    raise AssertionError(text)


def test_a_shell_keeps_its_state(terminal: Terminal) -> None:
    assert done(terminal.run("cd /var/tmp; A='x  y'; f() { echo \"f $A $1\"; return 3; }", 10)) == ("", 0)
    assert done(terminal.run("pwd; f 1", 10)) == ("/var/tmp\nf x  y 1\n", 3)
    assert done(terminal.run("sleep 300 & echo started", 10))[0].endswith("started\n")
    assert "sleep" in done(terminal.run("jobs", 10))[0]


def test_output_without_a_last_newline_is_as_it_is(terminal: Terminal) -> None:
    assert done(terminal.run("printf abc", 10)) == ("abc", 0)
    assert done(terminal.run("", 10)) == ("", 0)


def test_commands_of_many_lines_and_errors_of_syntax(terminal: Terminal) -> None:
    script = "cat <<'EOF'\nit's $x\nEOF\nfor i in 1 2; do\n  echo $i\ndone"
    assert done(terminal.run(script, 10)) == ("it's $x\n1\n2\n", 0)
    assert done(terminal.run("echo 'open", 10))[1] not in (0, None)
    assert done(terminal.run("echo " + "x" * 10_000, 10)) == ("x" * 10_000 + "\n", 0)


def test_a_long_command_goes_on_and_can_be_waited_for(terminal: Terminal) -> None:
    screen = terminal.run("echo begun; sleep 2; echo over; exit_code() { return 4; }; exit_code", 0.5)
    assert (screen.output, screen.exit_code, screen.is_running) == ("begun\n", None, True)
    with pytest.raises(StillRunningError):
        terminal.run("echo", 1)
    assert done(terminal.read(20)) == ("over\n", 4)


def test_programs_read_what_is_typed(terminal: Terminal) -> None:
    assert terminal.run("read line; echo got $line; cat", 0.5).is_running
    terminal.send("some words\n")
    assert "got some words" in shown(terminal, "got some words")
    terminal.send("for cat\n")
    assert "for cat" in shown(terminal, "for cat")
    terminal.press("ctrl-d")
    assert done(terminal.read(10)) == ("", 0)


def test_a_command_is_interrupted(terminal: Terminal) -> None:
    for command in ("sleep 1000", "while :; do :; done"):
        assert terminal.run(command, 0.5).is_running
        terminal.press("ctrl-c")
        screen = terminal.read(10)
        assert (screen.is_running, screen.exit_code) == (False, 130)
    assert done(terminal.run("echo goes on", 10)) == ("goes on\n", 0)


def test_a_shell_that_has_ended_is_followed_by_a_new_one(terminal: Terminal) -> None:
    screen = terminal.run("A=1; exit 7", 10)
    assert (screen.exit_code, screen.is_running, screen.has_ended) == (7, False, True)
    assert done(terminal.run("echo new $A", 10)) == ("new\n", 0)


def test_the_prompt_may_be_changed_back(terminal: Terminal) -> None:
    assert done(terminal.run('OLD=$PS1; PS1="(env) $PS1"', 10))[1] == 0
    assert done(terminal.run("PS1=$OLD; echo back", 10))[0].startswith("back\n")


def test_a_user_has_its_variables_and_directory(machine: Machine) -> None:
    terminal = machine.terminal(user="app", directory="/tmp", variables={"SECRET": "a 'secret'\nof two lines"})
    output, code = done(terminal.run('id -u; pwd; echo "$HOME"; echo "$SECRET"; ls -A /tmp/.terminal*', 10))
    assert (output, code) == ("1000\n/tmp\n/home/app\na 'secret'\nof two lines\ncommand\n", 0)
    assert b"of two lines" not in machine.run("cat /proc/[0-9]*/cmdline", timeout_seconds=10).stdout


def test_long_output_is_cut_and_its_size_told(terminal: Terminal) -> None:
    output, code = done(terminal.run("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done", 60))
    assert code == 0
    assert output.startswith("line 0\nline 1\n")
    assert output.endswith("line 19999\n")
    assert "bytes are left out ...]" in output
    assert len(output) < 40_000


def test_output_without_end_is_bounded_and_interrupted(terminal: Terminal) -> None:
    screen = terminal.run("yes 0123456789", 2)
    assert screen.is_running
    assert len(screen.output) < 40_000
    terminal.press("ctrl-c")
    assert not terminal.read(30).is_running


def test_a_terminal_that_is_closed_ends_its_command_and_nothing_else(machine: Machine) -> None:
    terminal = machine.terminal()
    terminal.run("(while :; do echo beat >>/tmp/beats; sleep 0.1; echo noise; done) &", 10)
    terminal.run("trap '' INT TERM; sh -c \"trap '' INT TERM; while :; do sleep 7001; done\"", 0.5)
    terminal.close()
    seen = machine.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '", timeout_seconds=10).stdout
    assert b"sleep 7001" not in seen
    before = len(machine.read("/tmp/beats", 1 << 20) or b"")
    time.sleep(1)
    assert len(machine.read("/tmp/beats", 1 << 20) or b"") > before
    with pytest.raises(InfrastructureError, match="was closed"):
        terminal.run("echo", 1)


def test_a_lost_sandbox_is_no_end_of_a_command(machines: Callable[[str], Machine], job: Job) -> None:
    machine = machines("debian")
    terminal = machine.terminal()
    assert terminal.run("sleep 1000", 0.5).is_running
    job.connection.open().get(machine.sandbox_id or "").result(30).stop().result(30)
    with pytest.raises(InfrastructureError):
        terminal.read(30)
    with pytest.raises(InfrastructureError):
        terminal.run("echo", 1)
