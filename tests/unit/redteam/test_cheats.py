"""The texts of the cheats: every POSIX shell can read them, and the table can show them."""

from __future__ import annotations

import subprocess

import pytest
from tests.support.programs import require_program

from sandrl.redteam import CHEATS, EXPLOITS, EXPLOITS_IN_CPP, Cheat
from sandrl.redteam.cheat import DOES_NOT_APPLY, script_of
from sandrl.trials.verifier_text import VerifierText

# What a verifier may say to break out of a script that quotes it.
HOSTILE = VerifierText(("/app/a b", "x'; exit 3; '"), ("grep",), ("json",), ("$(exit 3)", "it's", "-n", '"`'))


@pytest.mark.parametrize("shell", [("sh",), ("bash", "--posix"), ("busybox", "sh")], ids=" ".join)
def test_every_shell_reads_every_cheat(shell: tuple[str, ...]) -> None:
    require_program(shell[0])
    for cheat in CHEATS:
        done = subprocess.run([*shell, "-n"], input=script_of(cheat, HOSTILE), text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, ""), cheat.name


def test_names_and_lines_are_those_of_a_table() -> None:
    names = [each.name for each in CHEATS] + [each.name for each in (*EXPLOITS, *EXPLOITS_IN_CPP)]
    assert len(names) == len(set(names))
    for cheat in CHEATS:
        assert all((cheat.aim, cheat.advice, cheat.group, cheat.text.strip()))
        assert not any(mark in line for line in (cheat.aim, cheat.advice) for mark in ("\n", "%", "==="))


def test_what_a_verifier_mentions_is_data_for_a_cheat() -> None:
    for name, words in (("paths", HOSTILE.paths), ("words", HOSTILE.words)):
        script = script_of(Cheat("one", "none", "aim", "advice", f"say_{name}\n"), HOSTILE)
        done = subprocess.run(["sh"], input=script, text=True, capture_output=True)
        assert (done.returncode, done.stdout.splitlines()) == (0, [*words])


def test_a_cheat_that_finds_nothing_says_so() -> None:
    script = script_of(Cheat("one", "none", "aim", "advice", 'have no-such-program || none "there is none"\n'))
    done = subprocess.run(["sh"], input=script, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (DOES_NOT_APPLY, "there is none\n")
