"""Shows scoring in a notebook: its progress while a cell runs, and its report as a table.

IPython's own display is used, which every notebook has and which needs no widgets. It is not a dependency: a kernel has
loaded IPython before any cell runs. All texts are escaped, because a model has written some of them.
"""

from __future__ import annotations

import html
import importlib
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sandrl.events import CompletionFinished, Emit, Event, JobStarted, PackagesInstalling, RuntimeStarting, Warned
from sandrl.events.results import ScoredCompletion
from sandrl.runs.summary import Summary

_SECONDS_BETWEEN = 0.2
_SECONDS_BETWEEN_LINES = 5.0
_MOST_ROWS = 20
_MOST_WARNINGS = 5
_LONGEST_TEXT = 120


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook: a Jupyter server, VS Code, Colab."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def shown_progress() -> Iterator[Emit]:
    """Shows the progress of one call for the length of a `with` block: below the cell, or on standard error.

    Yields:
        What is told the events.
    """
    progress = _Progress(_Cell() if is_notebook() else _Lines())
    try:
        yield progress
    except BaseException as error:
        progress.end("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    progress.end()


class _Cell:
    seconds_between = _SECONDS_BETWEEN

    def __init__(self) -> None:
        self._handle: Any = importlib.import_module("IPython.display").DisplayHandle()
        self._is_shown = False

    def show(self, share: float | None, words: str, warnings: Sequence[str]) -> None:
        bar = "" if share is None else f'<progress value="{share:.4f}" max="1" aria-label="scored"></progress> '
        below = "".join(f"<br>warning: {_escaped(warning)}" for warning in warnings)
        data = {
            "text/html": f"<div>{bar}{_escaped(words)}{below}</div>",
            "text/plain": "\n".join([words, *(f"warning: {warning}" for warning in warnings)]),
        }
        # Ctrl-C may come once it is shown, and before the call returns.
        show, self._is_shown = self._handle.update if self._is_shown else self._handle.display, True
        show(data, raw=True)


class _Lines:
    seconds_between = _SECONDS_BETWEEN_LINES

    def __init__(self) -> None:
        self._told = 0

    def show(self, share: float | None, words: str, warnings: Sequence[str]) -> None:
        new, self._told = warnings[self._told :], len(warnings)
        for line in [*(f"warning: {each}" for each in new), words]:
            sys.stderr.write(f"sandrl: {''.join(c if c.isprintable() else ' ' for c in line)}\n")


class _Progress:
    def __init__(self, output: _Cell | _Lines) -> None:
        self._output = output
        self._words = "starting"
        self._of = self._finished = self._scored = self._passed = 0
        self._warnings: list[str] = []
        self._shown_at = 0.0

    def __call__(self, event: Event) -> None:
        match event:
            case JobStarted(total=total):
                self._of = total
            case RuntimeStarting(message):
                self._words = message
            case PackagesInstalling(requirements):
                self._words = f"installing {', '.join(requirements)}"
            case CompletionFinished(result, finished, of):
                self._of, self._finished = of, finished
                self._scored += result.reward is not None
                self._passed += result.is_pass
            case Warned(message, _, _) if len(self._warnings) < _MOST_WARNINGS:
                self._warnings.append(message)
            case _:
                return
        if time.monotonic() - self._shown_at >= self._output.seconds_between:
            self._show()

    def end(self, how: str = "") -> None:
        self._show(how)

    def _show(self, how: str = "") -> None:
        self._shown_at = time.monotonic()
        share = self._finished / self._of if self._of else None
        words = self._words if share is None else self._counts()
        self._output.show(share, f"{words}, {how}" if how else words, self._warnings)

    def _counts(self) -> str:
        rate = f", {_rate(self._passed, self._scored)}" if self._scored else ""
        unscorable = self._finished - self._scored
        return f"{self._finished}/{self._of} scored{rate}" + (f", {unscorable} without a reward" if unscorable else "")


def report_html(results: Sequence[ScoredCompletion], summary: Summary) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in ("id", "problem", "reward", "status", "detail"))
    rows = "".join(f"<tr>{''.join(map(_cell, _shown(result)))}</tr>" for result in results[:_MOST_ROWS])
    more = len(results) - _MOST_ROWS
    foot = f"<p>{more} more: <code>report.rows()</code> has all.</p>" if more > 0 else ""
    words = [f"{summary.n} completions"]
    if summary.scored:
        words.append(_rate(summary.passed, summary.scored))
        words.append(f"total reward {summary.total_reward:.6g}")
    if summary.unscorable:
        words.append(f"{summary.unscorable} without a reward")
    if summary.abstained:
        words.append(f"{summary.abstained} abstained")
    return f"<p>{', '.join(words)}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{foot}"


def _rate(passed: int, scored: int) -> str:
    return f"{passed} passed ({passed / scored:.0%})"


def _shown(result: ScoredCompletion) -> tuple[str, ...]:
    reward = "null" if result.reward is None else f"{result.reward:.3g}"
    return result.id, result.task_id, reward, result.status.value, result.detail


def _cell(text: str) -> str:
    short = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
    return f"<td>{_escaped(short)}</td>"


def _escaped(text: str) -> str:
    # A kernel cannot send halves of characters.
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"))
