"""Prints trajectories: the messages, the code, its output and the verdict.

All texts come from the model or its code, so each passes through `visible_block`. Long texts are cut unless `--full` is
given, so a line of ten megabytes cannot hide the next trajectory.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

from sandrl.cli.health import flag_lines
from sandrl.cli.progress import word_for
from sandrl.cli.scores import held_line, opinions_line
from sandrl.cli.text import counted, share_text, visible, visible_block
from sandrl.cli.training import best_text
from sandrl.cli.why import print_failed_checks, print_prompt
from sandrl.events.results import is_cut_off

if TYPE_CHECKING:
    from rich.console import Console

    from sandrl.runs import CheckRow, MessageRow, OpinionPart, ProblemRow, TrajectoryRow
    from sandrl.runs.flags import Flag
    from sandrl.runs.overview import RunOverview

_MOST_LINES = 80
_LONGEST_LINE = 2_000
_PIPED_WIDTH = 200
_STYLES = {"PASS": "bold green", "FAIL": "bold red", "ERROR": "bold magenta"}
_CHECKS = {
    "passed": ("passed", "green"),
    "failed": ("failed", "red"),
    "timeout": ("timed out", "yellow"),
    "not_reached": ("not reached", "dim"),
    "not_run": ("not run", "dim"),
    "uncounted": ("passed, but not counted", "dim"),
    "invalid": ("its checker failed", "yellow"),
}


def pieces(
    run: RunOverview,
    opinions: Iterable[OpinionPart],
    chosen: Iterable[TrajectoryRow],
    problems: Mapping[str, ProblemRow],
    *,
    flags: Iterable[Flag] = (),
    full: bool,
) -> Iterator[str]:
    """A run's trajectories, piece by piece."""
    console = _console()
    yield _heading(run) + _opinions(opinions) + "".join(f"{line}\n" for line in flag_lines(flags))
    shown: set[str] = set()
    for row in chosen:
        console.file = io.StringIO()
        _print_trajectory(console, row, problems, shown, full=full)
        yield console.file.getvalue()


def _console() -> Console:
    from rich.console import Console

    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else _PIPED_WIDTH
    return Console(file=io.StringIO(), force_terminal=is_terminal, width=width, highlight=False, soft_wrap=True)


def _heading(run: RunOverview) -> str:
    numbers = [f"{run.completions} completion{'s' * (run.completions != 1)}"]
    if run.unscorable:
        numbers.append(f"{run.unscorable} unscorable")
    if run.reward_mean is not None:
        numbers.append(f"mean reward {run.reward_mean:.3f}")
    if run.pass_rate is not None:
        numbers.append(f"pass rate {run.pass_rate:.0%}")
    lines = [f"Run {visible(run.run_id)}: {visible(run.command)}, {run.state}, {', '.join(numbers)}", str(run.path)]
    rate = run.pass_at_1
    facts = {"model": run.subject, "problems": run.source, "pass@1": rate and share_text(**asdict(rate))}
    if any(facts.values()):
        lines.append("  ".join(f"{name}: {visible(value)}" for name, value in facts.items() if value))
    if run.hash_seed:
        lines.append(f"Hash seed: {run.hash_seed}")
    if run.judge_agreement is not None:
        lines.append(f"Judge: {visible(run.judge_agreement)}")
    if run.origin is not None:
        lines.append(f"Started from the weights of {visible(str(run.origin))}")
    if run.best is not None:
        lines.append(best_text(run.best))
    if run.held is not None and run.held.seconds:
        lines.append(held_line(run.held))
    if run.error is not None:
        lines.append(f"{run.state}: {visible(run.error)}")
    return "\n".join(lines) + "\n"


def _opinions(opinions: Iterable[OpinionPart]) -> str:
    from sandrl.runs.summary import count_opinions

    statuses = [opinion.status for opinion in opinions]
    answered = count_opinions([status for status in statuses if status != "infrastructure"])
    return f"{opinions_line(answered)}\n" if statuses else ""


def _print_trajectory(
    console: Console, row: TrajectoryRow, problems: Mapping[str, ProblemRow], shown: set[str], *, full: bool
) -> None:
    from rich.text import Text

    from sandrl.runs.explanations import failed_checks

    word = word_for(row.status, row.reward)
    reward = "null" if row.reward is None else f"{row.reward:g}"
    console.print()
    title = Text(f"── {row.index}: {visible(row.task_id)} ({visible(row.id)})  ", style="bold", overflow="fold")
    title.append(word, style=_STYLES[word])
    title.append(f"  {row.status}, reward {reward}, {row.passed}/{row.total} checks")
    console.print(title)
    console.print(Text("   " + "  ".join(_facts(row))), style="dim")
    for failure in row.failures:
        console.print(Text(f"   sandbox failed: {visible(failure)}"), style="magenta")
    problem = problems.get(row.problem or "")
    if problem is not None and not row.messages and problem.digest not in shown:
        shown.add(problem.digest)
        print_prompt(console, problem, full=full)
    for message in row.messages:
        _print_message(console, message, full=full)
    for number, branch in enumerate(row.branches, 1):
        console.print(Text(f"   branch {number}, another conversation of the agent:"), style="bold")
        for message in branch.messages:
            _print_message(console, message, full=full)
    if row.reasoning and not row.messages:
        _print_block(console, "reasoning", row.reasoning, full=full)
    if row.completion is not None and not row.messages:
        _print_block(console, "completion", row.completion, full=full)
    if row.code is not None and row.code != row.completion:
        _print_block(console, "code", row.code, full=full, is_code=True)
    if row.checks:
        _print_checks(console, row.checks, full=full)
        explained = [check for check in failed_checks(row, problems) if check.is_explained]
        print_failed_checks(console, explained, full=full)
    if row.detail:
        console.print(Text(f"verdict: {visible(row.detail)}"), style="bold")
    if row.second_opinion is not None:
        style = "bold yellow" if row.second_opinion.is_disagreement else "dim"
        console.print(Text(f"second opinion: {_opinion_words(row.second_opinion)}"), style=style)
    said = row.episode.get("agent_output")
    for name, text in (("output of the agent", said), ("stdout", row.stdout), ("stderr", row.stderr)):
        if isinstance(text, str) and text:
            _print_block(console, name, text, full=full)
    if row.truncated:
        console.print(Text("(the output was cut at the limit)"), style="dim")


def _opinion_words(opinion: OpinionPart) -> str:
    if opinion.is_disagreement:
        return "passes in one process"
    detail = f": {visible(opinion.detail)}" if opinion.detail else ""
    if opinion.status == "infrastructure":
        return f"not available{detail}"
    return f"also {visible(opinion.status)} in one process{detail}"


def _facts(row: TrajectoryRow) -> list[str]:
    facts = [] if row.step is None else [f"step {row.step}"]
    if row.held_out:
        facts.append("held out")
    if row.greedy:
        facts.append("greedy")
    facts.append(f"trust {row.trust or '-'}")
    facts.append(f"{row.duration_seconds:.2f} s")
    facts += [f"{visible(part)} {seconds:.2f} s" for part, seconds in row.timing.items()]
    facts += [f"{visible(part)} {count} tokens" for part, count in row.tokens.items()]
    facts += [f"{visible(name)} {value:+g}" for name, value in row.components.items()]
    facts += [f"{visible(name)} = {value:g}" for name, value in row.scores.items()]
    if row.is_cut_off:
        facts.append("truncated: cut off at the token limit")
    if row.cached:
        facts.append("verdict of an identical completion")
    counts = (
        (row.retries, "retry after a failed sandbox", "retries after failed sandboxes"),
        (row.reruns, "rerun in one process", "reruns in one process"),
        (row.canaries, "canary (run of known-good code)", "canaries (runs of known-good code)"),
    )
    facts += [counted(count, one, many) for count, one, many in counts if count]
    if row.isolation == "cell":
        facts.append("in a cell")
    return facts if row.sandbox_id is None else [*facts, f"sandbox {visible(row.sandbox_id)}"]


def _print_checks(console: Console, checks: Sequence[CheckRow], *, full: bool) -> None:
    # A line for each check; neighbours of which the same is to be said share one.
    from rich.text import Text

    lines = []
    same = groupby(enumerate(checks, 1), key=lambda each: (each[1].name, each[1].status, each[1].detail))
    for (name, status, detail), group in same:
        numbers = [number for number, _ in group]
        place = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"
        place += f" {visible(name)}" if name else ""
        words, style = _CHECKS.get(status, (visible(status), ""))
        line = Text(f"   {place} ").append(words, style=style)
        lines.append(line.append(f": {visible(detail)}" if detail else ""))
    shown = lines if full else lines[:_MOST_LINES]
    console.print(Text("checks:"), style="cyan")
    for line in shown:
        console.print(line)
    if len(shown) < len(lines):
        console.print(Text(f"   … {len(lines) - len(shown)} more lines"), style="dim")


def _print_message(console: Console, message: MessageRow, *, full: bool) -> None:
    title = message.role if message.name is None else f"{message.role} {message.name}"
    if message.is_given:
        title += " (said elsewhere)"
    if message.reasoning:
        _print_block(console, f"{title}, reasoning", message.reasoning, full=full)
    if is_cut_off(message.finish_reason):
        title += " (cut off at the token limit)"
    if message.content or not message.tool_calls:
        _print_block(console, title, message.content, full=full)
    for call in message.tool_calls:
        title = f"{message.role} calls {call.name}"
        texts = _texts(call.arguments)
        if texts is None:
            _print_block(console, title, call.arguments, full=full)
        for name, text in (texts or {}).items():
            _print_block(console, title if name == "code" else f"{title}, {name}", text, full=full, is_code=True)


def _texts(arguments: str) -> dict[str, str] | None:
    # The arguments of a call by name, if all of them are texts: code in JSON is no code that anyone can read.
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    is_read = isinstance(values, dict) and values and all(isinstance(value, str) for value in values.values())
    return values if is_read else None


def _print_block(console: Console, title: str, text: str, *, full: bool, is_code: bool = False) -> None:
    from rich.syntax import Syntax
    from rich.text import Text

    limits = (None, None) if full else (_MOST_LINES, _LONGEST_LINE)
    block = visible_block(text.rstrip("\n"), most_lines=limits[0], longest_line=limits[1])
    console.print(Text(f"{visible(title)}:"), style="cyan")
    shown = Syntax("", "python", theme="ansi_dark").highlight(block) if is_code else Text(block)
    shown.rstrip()
    console.print(shown, overflow="fold", no_wrap=False)
