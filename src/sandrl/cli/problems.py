"""`sandrl problems`: what there is to solve, what a model is told of it, and whether its own answers hold."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli.completion import values
from sandrl.cli.options import PROBLEMS_HELP
from sandrl.settings import RuntimeKind

if TYPE_CHECKING:
    from sandrl.errors import CleanupError
    from sandrl.events import Emit
    from sandrl.problems import Completion, Problem, Prompt
    from sandrl.rewards import ScoreReport

app = typer.Typer(name="problems", help="Sets of problems: ls, show, validate.", no_args_is_help=True)

_SourceOption = Annotated[str, typer.Option(metavar="SET|FILE", help=PROBLEMS_HELP, autocompletion=values.problem_sets)]
_JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
_SANDBOXES = "Sandboxes"
_MOST_NAMES = 20


@app.command("ls")
def list_problems(
    problems: Annotated[
        str, typer.Argument(metavar="SET|FILE", help=PROBLEMS_HELP, autocompletion=values.problem_sets)
    ] = "bundled",
    json_: _JsonOption = False,
) -> None:
    """List problems: id, kind of checks, how many, entry point."""
    from sandrl.cli.output import print_json, print_rows
    from sandrl.cli.text import visible
    from sandrl.problems import load_problems

    found = load_problems(problems).problems.values()
    if json_:
        print_json({"source": problems, "n": len(found), "problems": [_document(problem) for problem in found]})
        return
    rows = [("id", "checks", "number", "entry point")]
    rows += [(visible(p.task_id), p.kind, str(p.check_count), visible(p.entry_point or "-")) for p in found]
    print_rows(rows)


@app.command("show")
def show(
    task_id: Annotated[
        str, typer.Argument(metavar="ID", help="The problem's `task_id`.", autocompletion=values.problem_ids)
    ],
    problems: _SourceOption = "bundled",
    show_tests: Annotated[
        int, typer.Option(metavar="N", min=0, help="Asserts or cases the prompt gives away; the rest stay hidden.")
    ] = 1,
    reference: Annotated[bool, typer.Option("--reference", help="Show the reference solution, too.")] = False,
    json_: _JsonOption = False,
) -> None:
    """Show a problem as a model sees it."""
    from sandrl.cli.output import print_json
    from sandrl.cli.text import visible_block
    from sandrl.problems import load_problems, render_prompt

    problem = load_problems(problems).find(task_id)
    prompt = render_prompt(problem, show_tests=show_tests)
    if json_:
        document = {**_document(problem), "prompt": prompt.text, "shown": prompt.shown, "hidden": prompt.hidden}
        print_json({**document, "reference": problem.reference} if reference else document)
        return
    typer.echo(f"# {_heading(problem, prompt)}\n")
    typer.echo(visible_block(prompt.text))
    if reference:
        typer.echo("\n# Reference\n")
        typer.echo(visible_block(problem.reference or "There is none."))


@app.command("validate")
def validate(
    problems: _SourceOption = "bundled",
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the first N problems.")] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Time for one solution with its checks.")] = 10.0,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", min=1, help="Sandboxes at once.", rich_help_panel=_SANDBOXES)
    ] = None,
    max_sandboxes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Never hold more sandboxes, those being created or stopped included.",
            rich_help_panel=_SANDBOXES,
        ),
    ] = None,
    runtime: Annotated[
        RuntimeKind, typer.Option(help="What runs the sandboxes.", rich_help_panel=_SANDBOXES)
    ] = RuntimeKind.AUTO,
    image: Annotated[
        str | None, typer.Option(help="Container image of the sandboxes.", rich_help_panel=_SANDBOXES)
    ] = None,
    packages: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…", help="Installed packages the code may import (local runtime).", rich_help_panel=_SANDBOXES
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", "-t", help="Tag of every sandbox; repeatable.", rich_help_panel=_SANDBOXES),
    ] = None,
    json_: _JsonOption = False,
) -> None:
    """Run every reference solution through the judge and print those that fail; exit 1 if any does."""
    from sandrl.cli import progress, signals
    from sandrl.cli.output import print_json
    from sandrl.errors import UsageError
    from sandrl.events import JobStarted
    from sandrl.rewards import Limits, ScoreOptions, score
    from sandrl.rewards.scoring import lifetime_seconds
    from sandrl.sandboxes import Interrupt, Job, connect, new_job_id
    from sandrl.settings import load_settings

    if timeout <= 0:
        raise UsageError(f"--timeout must be more than 0 seconds, not {timeout:g}")
    limits = Limits(timeout_seconds=timeout)
    names = [name.strip() for name in (packages or "").split(",") if name.strip()]
    interrupt = Interrupt()
    with progress.choose(json_output=True) as tell, signals.passed_to(interrupt):
        found, references = _load_references(problems, limit, tell)
        connection = connect(load_settings(), runtime=runtime, image=image, packages=names, emit=tell)
        options = ScoreOptions(limits=limits, concurrency=concurrency or connection.suggested_concurrency)
        lifetime = lifetime_seconds(found, limits)
        job = Job(
            connection,
            job_id=new_job_id(),
            command="problems validate",
            max_sandboxes=max_sandboxes,
            tags=("problems-validate", *(tag or ())),
            max_lifetime_seconds=lifetime,
            emit=tell,
        )
        with interrupt.heard(), job:
            at_once = min(options.concurrency or 1, len(references), max_sandboxes or len(references))
            tell(JobStarted(job.id, len(references), at_once))
            began = time.monotonic()
            report = score(references, found, job=job, options=options, emit=tell, interrupt=interrupt)
            seconds = time.monotonic() - began
    if json_:
        print_json(_validation_document(report, problems, len(found) - len(references), seconds))
    else:
        _print_validation(report, seconds)
    _raise_for_validation(report, job.cleanup_error())


def _document(problem: Problem) -> dict[str, Any]:
    return {
        "task_id": problem.task_id,
        "kind": problem.kind,
        "checks": problem.check_count,
        "entry_point": problem.entry_point,
        "has_reference": problem.reference is not None,
        "timeout_seconds": problem.timeout_seconds,
        "check_timeout_seconds": problem.check_timeout_seconds,
        "tolerance": None if problem.tolerance is None else asdict(problem.tolerance),
    }


def _heading(problem: Problem, prompt: Prompt) -> str:
    from sandrl.cli.text import visible

    asked = f", entry point {visible(problem.entry_point)}" if problem.entry_point else ""
    checks = f"{problem.check_count} {problem.kind} ({prompt.shown} shown, {prompt.hidden} hidden)"
    return f"{visible(problem.task_id)}: {checks}{asked}"


def _load_references(source: str, limit: int | None, tell: Emit) -> tuple[dict[str, Problem], tuple[Completion, ...]]:
    from sandrl.errors import InputError
    from sandrl.events import Warned
    from sandrl.problems import load_problems, reference_completions

    found = dict(islice(load_problems(source).problems.items(), limit))
    references = reference_completions(found.values())
    if not references:
        raise InputError("no problem has a reference solution", path=source, field="reference")
    if len(references) < len(found):
        tell(Warned(f"{len(found) - len(references)} problems have no reference solution and are left out"))
    return found, references


def _counts(report: ScoreReport) -> dict[str, dict[str, int]]:
    """How many references ended with each status, and how far their verdicts can be trusted."""
    statuses = Counter(result.status.value for result in report.results)
    trusts = Counter(result.trust.value for result in report.results if result.trust is not None)
    return {"statuses": dict(statuses.most_common()), "trust": dict(trusts.most_common())}


def _in_process(report: ScoreReport) -> list[str]:
    """The problems whose checks could not be kept out of the completion's process."""
    return [result.task_id for result in report.results if result.trust == "in_process"]


def _validation_document(report: ScoreReport, source: str, without: int, seconds: float) -> dict[str, Any]:
    from sandrl.rewards import report_document

    document = report_document(report)
    summary = report.summary
    document["summary"] = {
        "source": source,
        "n": summary.n,
        "passed": summary.passed,
        "unscorable": summary.unscorable,
        "without_reference": without,
        "pass_rate": summary.pass_rate,
        **_counts(report),
        "failed": [result.task_id for result in report.results if not result.is_pass],
        "in_process": _in_process(report),
        "seconds": round(seconds, 3),
    }
    return document


def _print_validation(report: ScoreReport, seconds: float) -> None:
    from sandrl.cli.scores import result_line
    from sandrl.cli.text import visible

    for result in report.results:
        if not result.is_pass:
            typer.echo(result_line(result))
    summary = report.summary
    rate = "" if summary.pass_rate is None else f" ({summary.pass_rate:.1%})"
    typer.echo(f"References that pass: {summary.passed}/{summary.scored}{rate}, in {seconds:.1f} s")
    for name, counts in _counts(report).items():
        typer.echo(f"{name.capitalize()}: " + ", ".join(f"{count} {word}" for word, count in counts.items()))
    if names := _in_process(report):
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        typer.echo("In process: " + ", ".join(visible(name) for name in names[:_MOST_NAMES]) + more)


def _raise_for_validation(report: ScoreReport, cleanup_error: CleanupError | None) -> None:
    """Ends the command with the most urgent of what went wrong."""
    from sandrl.errors import GateError, InfrastructureError, InterruptedRunError
    from sandrl.rewards import Status

    results = report.results
    if report.signal_number:
        total = len(results) + report.unfinished
        message = f"interrupted: {len(results)} of {total} references were judged"
        hint = None if cleanup_error is None else cleanup_error.hint
        raise InterruptedRunError(message, signal_number=report.signal_number, hint=hint)
    if cleanup_error is not None:
        raise cleanup_error
    unjudged = [result for result in results if result.status is Status.INFRASTRUCTURE]
    if unjudged:
        message = f"{len(unjudged)} of {len(results)} references could not be judged: {unjudged[0].detail}"
        raise InfrastructureError(message, hint="validate again when the runtime is well: sandrl runtime status")
    failed = sum(not result.is_pass for result in results)
    if failed:
        raise GateError(f"{failed} of {len(results)} reference solutions fail their own checks")
