"""Agents whose answer is given: a patch, a shell script, the solution of the task, or nothing.

An answer runs in the machine of its task as the agent's user, in the working directory, within the agent's time limit.
A patch that does not fit is the answer's own failure. A script may fail: the verifier judges what it did before.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from sandrl.answers.markup import fences, tagged
from sandrl.answers.text_sources import sources_of
from sandrl.answers.turns import without_reasoning
from sandrl.config.words import Extraction
from sandrl.errors import InputError
from sandrl.problems import Completion
from sandrl.problems.tasks.task import DEFAULT_SECONDS, Task, TaskStep
from sandrl.problems.tasks.templates import resolved
from sandrl.sandboxes import CommandOutcome
from sandrl.trials.artifacts import files_of
from sandrl.trials.machine import ROOT, Machine
from sandrl.trials.trial import Agent, AnswerError, FinalState
from sandrl.trials.verification import last_line

_MOVING_SECONDS = 60.0
_NO_PROGRAM = 125
_PATCH = f"""
file=$(mktemp 2>/dev/null) || file=/tmp/.patch.$$
cat >"$file" || exit {_NO_PROGRAM}
trap 'rm -f "$file"' EXIT
if command -v git >/dev/null 2>&1; then
    git -c safe.directory='*' apply "$file" && exit
    git -c safe.directory='*' apply --recount --ignore-whitespace "$file" && exit
fi
program=patch
if ! command -v patch >/dev/null 2>&1; then
    program="busybox patch"
    case $(busybox patch --help 2>&1) in
        *Usage:*) ;;
        *) command -v git >/dev/null 2>&1 && exit 1; exit {_NO_PROGRAM} ;;
    esac
fi
$program -p1 -N --dry-run -i "$file" >&2 </dev/null || exit 1
$program -p1 -N -i "$file" </dev/null
"""
_SCRIPT = f"""
file=$(mktemp 2>/dev/null) || file=/tmp/.script.$$
cat >"$file" || exit {_NO_PROGRAM}
if command -v bash >/dev/null 2>&1; then bash "$file" </dev/null; else sh "$file" </dev/null; fi
code=$?
rm -f "$file"
exit $code
"""
_IS_PATCH = re.compile(r"^(?:diff --git |--- \S[^\n]*\n\+\+\+ )", re.MULTILINE)
_WHOLE_ANSWER = re.compile(r"\s*<answer>.*</answer>\s*", re.DOTALL | re.IGNORECASE)
_SHELLS = ("sh", "bash", "shell", "zsh", "console")
_PATCHES = ("diff", "patch", "udiff")


@dataclass(frozen=True, slots=True)
class Nothing:
    """Does nothing."""

    is_repeatable = True
    takes_turns = True

    def act(self, machine: Machine, step: TaskStep, number: int) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class Patch:
    """Applies a diff in the working directory, before the first step."""

    text: str = field(repr=False)
    is_repeatable = True
    takes_turns = True

    def act(self, machine: Machine, step: TaskStep, number: int) -> str | None:
        if number:
            return None
        text = self.text if self.text.endswith("\n") else f"{self.text}\n"
        content = text.encode("utf-8", "surrogateescape")
        outcome = machine.run(("sh", "-c", _PATCH), user=step.agent.user, timeout_seconds=_limit(step), stdin=content)
        if outcome.exit_code == 0:
            return None
        if outcome.exit_code == _NO_PROGRAM:
            # No fault of the answer.
            raise InputError("a patch cannot be applied: the image has neither git nor patch, or no place for a file")
        if outcome.timed_out:
            raise AnswerError("the patch could not be applied within the time limit of the agent")
        raise AnswerError(f"the patch does not apply: {last_line(outcome.stderr) or last_line(outcome.stdout)}")


@dataclass(frozen=True, slots=True)
class Script:
    """Runs a shell script, by bash where there is one, before the first step."""

    text: str = field(repr=False)
    is_repeatable = True
    takes_turns = True

    def act(self, machine: Machine, step: TaskStep, number: int) -> str | None:
        if number:
            return None
        seconds = _limit(step)
        return remark_on("the script", run_script(machine, step, self.text, seconds), seconds)


@dataclass(frozen=True, slots=True)
class Oracle:
    """Runs the solution of each step, which is in the machine only meanwhile.

    Args:
        passed_variables: As in `TrialOptions`.
    """

    task: Task
    passed_variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_repeatable = True
    takes_turns = True

    def act(self, machine: Machine, step: TaskStep, number: int) -> str | None:
        solution = step.solution
        if solution is None:
            raise AnswerError("the task has no solution")
        if solution.patch:
            return Patch(solution.patch).act(machine, step, 0)
        machine.put("/solution", files_of(self.task, [solution.directory], solution.files), anew=True)
        script = shlex.quote(posixpath.join("/solution", solution.script))
        machine.run(f"chmod +x {script}", user=ROOT, timeout_seconds=_MOVING_SECONDS, is_own=True)
        seconds = _limit(step)
        variables = {
            "DEBIAN_FRONTEND": "noninteractive",
            **dict(step.agent.variables),
            **resolved(solution.variables, self.passed_variables),
        }
        try:
            outcome = machine.run(script, user=step.agent.user, timeout_seconds=seconds, variables=variables)
        finally:
            machine.run("rm -rf /solution", user=ROOT, timeout_seconds=_MOVING_SECONDS, is_own=True)
        return remark_on("the solution", outcome, seconds)


def answer_of(completion: Completion, extraction: Extraction = Extraction.AUTO) -> Agent | None:
    """The agent that a completion is: its final states, or the patch or script that its text has; None for none."""
    if completion.states:
        return FinalState(completion.states)
    text = completion.code if completion.code is not None else _extracted(completion.completion or "", extraction)
    if text is None or not text.strip():
        return None
    return Patch(text) if _IS_PATCH.search(text) else Script(text)


def _extracted(text: str, extraction: Extraction) -> str | None:
    if extraction is Extraction.RAW:
        return text
    sources = sources_of("bash")
    text = without_reasoning(text.replace("\r\n", "\n"), sources)
    if extraction is Extraction.EXACT and not _WHOLE_ANSWER.fullmatch(text):
        return None
    blocks = fences(text, sources)
    if extraction is not Extraction.FENCE:
        found = tagged(text, "answer", sources, blocks)
        if found:
            content = found[-1].content
            inner = fences(content, sources)
            return _ended(inner[-1].code if inner else content)
        if extraction is not Extraction.AUTO:
            return None
    for languages in ((*_PATCHES, *_SHELLS), ("",)):
        named = [block.code for block in blocks if block.language in languages]
        if named:
            return _ended(named[-1])
    is_plain = extraction is Extraction.AUTO and not blocks
    return text if is_plain and (text.startswith("#!") or _IS_PATCH.match(text.lstrip())) else None


def _ended(text: str) -> str:
    # A script or a patch ends its last line.
    text = text.strip("\n")
    return f"{text}\n" if text else ""


def run_script(machine: Machine, step: TaskStep, text: str, seconds: float) -> CommandOutcome:
    """Runs a script of a shell as the agent's user, by bash where there is one, for at most so many seconds."""
    return machine.run(
        ("sh", "-c", _SCRIPT),
        user=step.agent.user,
        timeout_seconds=seconds,
        variables=dict(step.agent.variables),
        stdin=text.encode("utf-8", "surrogateescape"),
    )


def _limit(step: TaskStep) -> float:
    return DEFAULT_SECONDS if step.agent.timeout_seconds is None else step.agent.timeout_seconds


def remark_on(what: str, outcome: CommandOutcome, seconds: float) -> str | None:
    """What the result says about how a command of an answer ended; None if it ended well."""
    if outcome.timed_out:
        return f"{what} reached the time limit of the agent, {seconds:g} s"
    if not outcome.exit_code:
        return None
    said = last_line(outcome.stderr) or last_line(outcome.stdout)
    return f"{what} exited with {outcome.exit_code}{f': {said}' if said else ''}"
