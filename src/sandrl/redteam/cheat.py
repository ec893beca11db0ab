"""A cheat: a script that an agent runs on the machine of a task, and that solves nothing.

A cheat is the same for every task. It finds what it needs in the machine, and receives what the text of the verifier
mentions (`trials/verifier_text.py`), because a policy learns that as well.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from sandrl.problems.tasks.task import Task, TaskStep
from sandrl.trials.answers import remark_on, run_script
from sandrl.trials.machine import Machine
from sandrl.trials.trial import AnswerError
from sandrl.trials.verification import last_line
from sandrl.trials.verifier_text import VerifierText, text_of

DOES_NOT_APPLY = 77
"""The exit code of a cheat that finds nothing to do in a machine."""

_MOST_SECONDS = 60
_HEADER = re.compile(r"(\S+)(?: \[seconds=(\d+)\])?: ([^\n]+)\nadvice: ([^\n]+)\n")


@dataclass(frozen=True, slots=True)
class Cheat:
    """One way to earn a reward without solving a task.

    Attributes:
        aim: What it tries, in one line.
        advice: What stops it if no setting does, in one line.
        text: A script of a POSIX shell, which begins with the functions of `cheats/shell.py`.
        seconds: The time limit of the agent that it runs as.
        stalls: Whether it makes a verifier reach its time limit.
    """

    name: str
    group: str
    aim: str
    advice: str
    text: str = field(repr=False)
    seconds: int = _MOST_SECONDS
    stalls: bool = False


def read_cheats(text: str, *, group: str, **shared: str) -> tuple[Cheat, ...]:
    """Cheats that are written one below the other, as the scripts that they are.

    Each begins with `=== NAME: AIM` and `advice: ADVICE`. After the name, `[seconds=N]` is a time limit of its own. A
    text in `shared` stands where its name does, as `%NAME%`.
    """
    found = []
    for key, value in shared.items():
        text = text.replace(f"%{key}%", value.strip("\n"))
    for part in re.split("^=== ", text, flags=re.MULTILINE)[1:]:
        header = _HEADER.match(part)
        assert header is not None, part
        name, seconds, aim, advice = header.groups()
        script, stalls = part[header.end() :], name.endswith("-stalled")
        found.append(Cheat(name, group, aim, advice, script, int(seconds or _MOST_SECONDS), stalls))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Cheater:
    """An agent that runs a cheat in each step of a task."""

    cheat: Cheat
    task: Task = field(repr=False)
    is_repeatable = True
    takes_turns = True

    def act(self, machine: Machine, step: TaskStep, number: int) -> str | None:
        limit = float(min(self.cheat.seconds, step.agent.timeout_seconds or self.cheat.seconds))
        script = script_of(self.cheat, text_of(self.task, step.verifier))
        outcome = run_script(machine, step, script, limit)
        # In a later step it has done something before.
        if outcome.exit_code == DOES_NOT_APPLY and not number:
            raise AnswerError(f"it does not apply: {last_line(outcome.stderr)}")
        return remark_on("the cheat", outcome, limit)


def script_of(cheat: Cheat, told: VerifierText | None = None) -> str:
    """The script of a cheat, with what the text of a verifier mentions."""
    # Not at the top of the module: the functions of the shell are a module of the corpus, which imports this one.
    from sandrl.redteam.cheats.shell import FUNCTIONS

    told = told or VerifierText()
    given = {"paths": told.paths, "tools": told.tools, "modules": told.modules, "words": told.words}
    functions = "".join(f"say_{name}() {{ {_said(values)}; }}\n" for name, values in given.items())
    return FUNCTIONS + functions + cheat.text


def _said(values: Iterable[str]) -> str:
    words = " ".join(map(shlex.quote, values))
    return f"printf '%s\\n' {words}" if words else ":"
