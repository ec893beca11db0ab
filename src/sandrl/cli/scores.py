"""Prints a finished score: a line per result, and the totals."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from sandrl.cli.progress import reward_text, sample_name, word_for
from sandrl.cli.results import ResultRow, results_table
from sandrl.cli.tables import print_wrapped, terminal_width
from sandrl.cli.text import counted, share_text, visible
from sandrl.cli.verbosity import first, first_lines, is_quiet, is_verbose, note

if TYPE_CHECKING:
    from sandrl.events.results import ScoredCompletion
    from sandrl.rewards import ScoreReport
    from sandrl.runs.held import SandboxTime
    from sandrl.runs.statistics import Estimate
    from sandrl.runs.summary import OpinionTotals, Summary

_LONGEST_DETAIL = 200
_MOST_ROWS = 200


def result_line(result: ScoredCompletion) -> str:
    """One result as a line of the summary."""
    word = word_for(result.status, result.reward)
    if result.status == "passed":
        detail = "OK"
    elif result.status == "failed":
        detail = result.detail or "failed"
    else:
        detail = f"{result.status}: {result.detail}" if result.detail else result.status
    head = f"  {sample_name(result)}: reward={reward_text(result.reward)} [{word}]"
    return f"{head} {visible(detail, _LONGEST_DETAIL)}"


def names_line(what: str, task_ids: Sequence[str]) -> str:
    """Some problems by name, the first of them if they are many."""
    shown = first(task_ids)
    more = f" and {len(task_ids) - len(shown)} more" if len(task_ids) > len(shown) else ""
    return f"{what}: " + ", ".join(visible(name) for name in shown) + more


_PLACES = {"cell": "cells", "sandbox": "fresh sandboxes"}


def total_lines(summary: Summary, *, has_pass_at_1: bool = False) -> list[str]:
    """The totals, as lines; pass@1 is shown beside another pass@k, or if asked for."""
    lines = [f"Total reward: {summary.total_reward:.1f}/{summary.scored}"]
    if summary.pass_rate is None:
        lines.append("Pass rate: – (no completion was scored)")
    else:
        lines.append(f"Pass rate: {summary.passed}/{summary.scored} ({summary.pass_rate:.0%})")
    if len(summary.pass_at_k) > 1 or (summary.pass_at_k and has_pass_at_1):
        lines.append("  ".join(pass_at_text(k, found) for k, found in summary.pass_at.items()))
    if summary.truncated_answers:
        share = summary.truncated_answers / summary.answers_with_reason
        count = f"{summary.truncated_answers}/{summary.answers_with_reason} ({share:.0%})"
        lines.append(f"Truncated: {count} completions were cut off at the token limit")
    if summary.unscorable:
        why = ", ".join(f"{status}: {count}" for status, count in sorted(summary.unscorable_by_status.items()))
        lines.append(f"Unscorable: {summary.unscorable} (no reward, and in no rate; {why})")
    if summary.abstained:
        lines.append(f"Abstained: {summary.abstained} (the reward function gives no reward; in no rate)")
    if summary.components:
        means = ", ".join(f"{name} {mean:+.3f}" for name, mean in summary.components.items())
        lines.append(f"Components, on average: {means} (not in the reward)")
    if summary.cache_hits:
        lines.append(
            f"Cache hits: {summary.cache_hits}/{summary.executed + summary.cache_hits} ({summary.hit_rate:.0%});"
            " these have the verdict of identical code that was judged before"
        )
    if summary.retries:
        lines.append(f"Retries: {summary.retries} (executions that were repeated because their sandboxes failed)")
    if len(summary.isolation) > 1:
        counts = ", ".join(f"{count} in {_PLACES[kind]}" for kind, count in summary.isolation.items())
        lines.append(f"Isolation: {counts}")
    if summary.canaries and summary.retries:
        lines.append(
            f"Canaries: {counted(summary.canaries, 'run')} of known-good code, which shows whether a completion or its"
            " sandbox caused a failure, or calibrates a problem (in no rate)"
        )
    if summary.truncated:
        lines.append(f"Output cut: {counted(summary.truncated, 'completion')} printed more than --max-output-bytes")
    if summary.hash_seed_dependent is not None:
        lines.append(f"Hash seeds: {summary.hash_seed_dependent} of {summary.n} verdicts depend on the hash seed")
    if summary.second_opinion is not None:
        lines.append(opinions_line(summary.second_opinion))
    return lines


def held_line(held: SandboxTime) -> str:
    """The sandbox time of some work, and its cost where a price is known."""
    return f"Sandbox time: {held.text}"


def pass_at_text(k: int, found: Estimate) -> str:
    """An estimate of pass@k with its 95% interval."""
    return f"pass@{k}: {share_text(found.value, found.low, found.high)}"


def reason_lines(reasons: Mapping[str, str]) -> list[str]:
    """Why problems are judged in one process, the first of them if they are many."""
    found = [f"  {visible(name)}, isolated: {visible(why, _LONGEST_DETAIL)}" for name, why in reasons.items()]
    return first_lines(found, more="--json")


def opinions_line(totals: OpinionTotals, noun: str = "failed completions") -> str:
    """What second opinions amount to."""
    notes = [] if totals.rate == 1 else [f"requested for a share of {totals.rate:g}"]
    if totals.unavailable:
        notes.append(f"{totals.unavailable} more have no second opinion: their sandboxes failed")
    line = f"Second opinion: {totals.disagreements} of {totals.answered} {noun} pass in one process"
    return f"{line} ({'; '.join(notes)})" if notes else line


def disagreement_lines(results: Sequence[ScoredCompletion], *, hint: str) -> list[str]:
    """The completions that failed and pass in one process, the first of them if they are many; a hint shows all."""
    found = [each for each in results if each.second_opinion is not None and each.second_opinion.is_disagreement]
    lines = [
        f"  {sample_name(each)}: {each.status.value} isolated, passed in one process:"
        f" {visible(each.detail, _LONGEST_DETAIL)}"
        for each in found
    ]
    return first_lines(lines, more=hint)


def seed_lines(results: Sequence[ScoredCompletion]) -> list[str]:
    """The completions whose verdict depends on the hash seed, the first of them if they are many."""
    lines = []
    for each in (result for result in results if result.depends_on_hash_seed):
        others = ", ".join(f"{outcome} under {seed}" for seed, outcome in each.hash_seeds.items())
        lines.append(f"  {sample_name(each)}: {each.status.value}; under other hash seeds: {others}")
    return first_lines(lines, more="--json")


def print_report(report: ScoreReport, *, run: str) -> None:
    """Prints results in input order, and the totals."""
    if not is_quiet():
        if sys.stdout.isatty():
            _print_table(report, run)
        else:
            _print_lines(report.results, run)
    for line in total_lines(report.summary, has_pass_at_1=report.summary.groups > 0):
        print_wrapped(line)
    for line in (
        *seed_lines(report.results),
        *disagreement_lines(report.results, hint="sandrl runs show --disagreements"),
    ):
        print_wrapped(line)
    if report.held is not None:
        note(held_line(report.held))
    not_isolated = [result.task_id for result in report.results if result.status == "not_isolated"]
    if not_isolated:
        print_wrapped(names_line("Not isolated", list(dict.fromkeys(not_isolated))))


def _print_lines(results: Sequence[ScoredCompletion], run: str) -> None:
    # All results if they are few; otherwise the first of those that did not pass, and how to see the others.
    if len(first(results)) == len(results):
        shown = results
    else:
        shown = first([result for result in results if not result.is_pass])
    for result in shown:
        typer.echo(result_line(result))
    if len(shown) < len(results):
        passed = sum(result.is_pass for result in results)
        failed = len(results) - passed - len(shown)
        others = [f"{failed} more that did not pass"] if failed else []
        others += [f"{passed} that passed"] if passed else []
        typer.echo(f"  … and {' and '.join(others)}: sandrl runs show {shlex.quote(run)}")


def _print_table(report: ScoreReport, run: str) -> None:
    shown = report.results if is_verbose() else report.results[:_MOST_ROWS]
    rows = [ResultRow(r.index, r.id, r.status, r.reward, r.duration_seconds) for r in shown]
    results_table(rows).print()
    if len(report.results) > len(shown):
        typer.echo(f"… and {len(report.results) - len(shown)} more: sandrl runs show {shlex.quote(run)}")
    for result in shown:
        if result.status != "passed":
            typer.echo("  " + visible(result_line(result), max((terminal_width() or 80) - 2, 20)))
