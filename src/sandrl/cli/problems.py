"""`sandrl problems`: lists and shows problems, converts them, and validates their references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli import results
from sandrl.cli.cards import ResumeMeasuring, cards
from sandrl.cli.completion import values
from sandrl.cli.configured import CommandInput, given_to
from sandrl.cli.estimate import DryRun, print_estimate
from sandrl.cli.output import Json, print_json
from sandrl.cli.tables import Column, Table
from sandrl.cli.text import visible, visible_block
from sandrl.cli.verbosity import note, print_first
from sandrl.cli.work import carry_out
from sandrl.config.parts import LANGUAGE_HELP, MAP_HELP, PROBLEMS_HELP
from sandrl.config.scoring import ValidateConfig
from sandrl.settings import load_settings

if TYPE_CHECKING:
    from sandrl.problems import Problem, Prompt
    from sandrl.problems.tasks.task import Task

app = typer.Typer(name="problems", help="Sets of problems: ls, show, convert, duplicates, validate, cards.")
app.command("cards")(cards)

# The fields of a row that `show --checks` adds.
_SHOWN = ("setup", "tests", "fn", "cases", "check", "checker", "files", "input_file", "output_file")

_Fields = Annotated[
    str | None,
    typer.Option("--map", metavar="FIELD=PATH,…", help=MAP_HELP),
]
_Language = Annotated[str | None, typer.Option("--language", metavar="NAME", help=LANGUAGE_HELP)]
_SkipBadRows = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Skip and count unusable rows instead of stopping.")
]
_SourceOption = Annotated[str, typer.Option(metavar="SET|FILE", help=PROBLEMS_HELP, autocompletion=values.problem_sets)]


@app.command("ls")
def list_problems(
    problems: Annotated[
        str, typer.Argument(metavar="SET|FILE", help=PROBLEMS_HELP, autocompletion=values.problem_sets)
    ] = "bundled",
    fields: _Fields = None,
    language: _Language = None,
    skip_bad_rows: _SkipBadRows = False,
    json_: Json = False,
) -> None:
    """List problems: id, kind and number of checks, entry point; of a task its format."""
    from sandrl.problems import load_problems

    documents: list[dict[str, Any]] = []
    table = Table([Column("id"), Column("checks"), Column("number"), Column("entry point", rank=1, least=12)])

    def add(found: Problem) -> None:
        if json_:
            documents.append(_document(found))
        else:
            asked = found.entry_point or "-" if found.task is None else found.task.format
            table.add(visible(found.task_id), found.kind, str(found.check_count), visible(asked))

    loaded = load_problems(
        problems, fields=_pairs(fields), language=language, skip_bad_rows=skip_bad_rows, only=(), on_problem=add
    )
    if loaded.note:
        typer.echo(f"warning: {visible(loaded.note)}", err=True)
    if json_:
        formats = [
            {"format": each.name, "recognised_by": list(each.fields), "kind": each.kind, "rows": count}
            for each, count in loaded.formats.items()
        ]
        print_json({"source": problems, "n": len(documents), "formats": formats, "problems": documents})
        return
    for each, count in loaded.formats.items():
        by = ", ".join(map(visible, each.fields))
        typer.echo(
            f"Format: {each.name}, by {by}: {count} {'row' if count == 1 else 'rows'} with {each.kind}", err=True
        )
    table.print()


@app.command("show")
def show(
    task_id: Annotated[
        str, typer.Argument(metavar="ID", help="The problem's `task_id`.", autocompletion=values.problem_ids)
    ],
    problems: _SourceOption = "bundled",
    fields: _Fields = None,
    language: _Language = None,
    show_tests: Annotated[
        int, typer.Option(metavar="N", min=0, help="Number of checks that the prompt shows; the others are hidden.")
    ] = 1,
    checks: Annotated[bool, typer.Option("--checks", help="Also show the checks, including the hidden ones.")] = False,
    reference: Annotated[bool, typer.Option("--reference", help="Also show the reference.")] = False,
    json_: Json = False,
) -> None:
    """Show a problem: the prompt for a model, and optionally its checks and reference."""
    from sandrl.problems import load_problems, own_row, render_prompt

    loaded = load_problems(problems, fields=_pairs(fields), language=language, skip_bad_rows=True, only=(task_id,))
    if loaded.skipped and task_id not in loaded.problems:
        # A row that cannot be read may be the one: that which has its name, or the first.
        raise next((error for error in loaded.skipped if task_id in error.message), loaded.skipped[0])
    problem = loaded.find(task_id)
    prompt = render_prompt(problem, show_tests=show_tests)
    if json_:
        document = {**_document(problem), "prompt": prompt.text, "shown": prompt.shown, "hidden": prompt.hidden}
        if checks:
            row = own_row(problem)
            document |= {name: row[name] for name in _SHOWN if name in row}
        print_json({**document, "reference": problem.reference} if reference else document)
        return
    if problem.task is not None:
        _print_task(problem.task, with_script=checks, with_solution=reference)
        return
    typer.echo(f"# {_heading(problem, prompt)}\n")
    typer.echo(visible_block(prompt.text))
    if checks:
        _print_checks(problem)
    if reference:
        typer.echo("\n# Reference\n")
        typer.echo(visible_block(problem.reference or "The problem has no reference."))


@app.command("convert")
def convert_problems(
    problems: Annotated[
        str, typer.Argument(metavar="SET|FILE", help=PROBLEMS_HELP, autocompletion=values.problem_sets)
    ],
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="A new file (.jsonl or .jsonl.gz) of rows; any other name: a new directory of tasks."
        ),
    ],
    fields: _Fields = None,
    language: _Language = None,
    skip_bad_rows: _SkipBadRows = False,
) -> None:
    """Convert problems of any supported format to sandrl's own format, or to task directories of Harbor.

    Tasks that were written so become problems again. The output names each problem that is left out.
    """
    from sandrl.problems import load_problems
    from sandrl.rewards.conversion import convert

    loaded = load_problems(problems, fields=_pairs(fields), language=language, skip_bad_rows=skip_bad_rows)
    converted = convert(loaded.problems.values(), out)
    if loaded.skipped:
        typer.echo(f"{len(loaded.skipped)} rows skipped; the first: {loaded.skipped[0].message}", err=True)
    print_first([f"Left out: {visible(name)}: {visible(why)}" for name, why in converted.left_out.items()])
    typer.echo(f"{converted.written} problems written to {out}", err=True)


@app.command("duplicates")
def duplicates(
    problems: Annotated[
        str, typer.Argument(metavar="SET|FILE", help=PROBLEMS_HELP, autocompletion=values.problem_sets)
    ],
    evaluation: Annotated[
        str | None,
        typer.Argument(
            metavar="[SET|FILE]",
            help="A set to evaluate on: compare its problems with those of the first set.",
            autocompletion=values.problem_sets,
        ),
    ] = None,
    fields: _Fields = None,
    language: _Language = None,
    skip_bad_rows: _SkipBadRows = False,
    json_: Json = False,
) -> None:
    """List near duplicates within a set, or what an evaluation set has in common with a training set.

    Near duplicates have 80% of their runs of 3 words in common. A problem of the evaluation set is listed if half of
    its words or more are in runs of 8 words that a training problem also has.
    """
    from sandrl.problems import load_problems
    from sandrl.problems.similarity import contaminated, near_duplicates
    from sandrl.problems.splits import without_duplicates

    def load(source: str) -> Mapping[str, Problem]:
        loaded = load_problems(source, fields=_pairs(fields), language=language, skip_bad_rows=skip_bad_rows)
        if loaded.note:
            typer.echo(f"warning: {visible(loaded.note)}", err=True)
        return loaded.problems

    first = load(problems)
    second = first if evaluation is None else load(evaluation)
    found = near_duplicates(first) if evaluation is None else contaminated(second, first)
    equal = 0 if evaluation is None else len(second) - len(without_duplicates(second, first))
    count = len({each.task_id for each in found})
    if json_:
        pairs = [asdict(each) for each in found]
        print_json(
            {"source": problems, "evaluation": evaluation, "n": len(second), "duplicates": equal, "matches": pairs}
        )
        return
    table = Table([Column("problem"), Column("like"), Column("in common", is_number=True)])
    for each in found:
        table.add(visible(each.task_id), visible(each.other), f"{each.share:.0%}")
    table.print()
    if evaluation is None:
        typer.echo(f"{count} of {len(first)} problems are near duplicates of earlier ones", err=True)
    else:
        typer.echo(f"{count} of {len(second)} problems are contaminated by problems of {visible(problems)}", err=True)
        typer.echo(f"{equal} of {len(second)} have the same checks or the same prompt as one of them", err=True)


@app.command("validate")
@given_to(ValidateConfig)
def validate(
    given: CommandInput[ValidateConfig],
    *,
    resume: ResumeMeasuring = None,
    dry_run: DryRun = False,
    json_: Json = False,
) -> None:
    """Judge the reference of every problem and answers that do nothing, and print those that are wrong.

    Of a task, the solution is the reference. It must earn 1 each time, an agent that does nothing must earn 0, and the
    outcome must not change from run to run. Exits with 1 if something that was measured is wrong, and with 5 if
    nothing is, but a task has no solution.
    """
    from sandrl.cli.validation import print_validation, validation_document
    from sandrl.rewards import validate as judge_references
    from sandrl.rewards.validation import estimate_validation, validation_request

    request = validation_request(given.command_line, load_settings(), file=given.file, resume=resume)
    if given.prints(request.config):
        return
    if dry_run:
        print_estimate(estimate_validation(request, load_settings()), json_output=json_)
        return
    work = partial(judge_references, resume=request.resume)
    finished = carry_out(work, request.config, results.choose(json_output=True))
    if json_:
        print_json(validation_document(finished))
    else:
        print_validation(finished)
    note(f"Run: {finished.end.path}")
    finished.raise_for_outcome()


def _print_checks(problem: Problem) -> None:
    from sandrl.problems.calls import expression_of

    if problem.setup:
        typer.echo(f"\n# Setup\n\n{visible_block(problem.setup)}")
    if problem.check is not None:
        typer.echo("\n# Check\n\nThe program exits with 0.")
    for number, test in enumerate(problem.tests, 1):
        typer.echo(f"\n# Check {number}\n\n{visible_block(test)}")
    for number, (call, name) in enumerate(zip(problem.calls, problem.check_names, strict=False), 1):
        named = f" ({visible(name)})" if name else ""
        typer.echo(f"\n# Check {number}{named}\n\n{visible_block(call.as_assert(expression_of(problem.fn or '')))}")
    for number, case in enumerate(problem.cases, 1):
        typer.echo(f"\n# Check {number}: input\n\n{visible_block(case.stdin)}\n# Check {number}: output\n")
        typer.echo(visible_block(case.stdout))
    for path, content in problem.files:
        typer.echo(f"\n# File {visible(path)}: {len(content)} bytes")
    if problem.checker is not None:
        typer.echo(f"\n# Checker\n\n{visible_block(problem.checker.code)}")


def _print_task(task: Task, *, with_script: bool, with_solution: bool) -> None:
    from sandrl.problems.tasks.description import described, script_of, solution_of

    typer.echo(f"# {visible(task.name)}: a task ({visible(task.format)})\n")
    for name, value in described(task):
        typer.echo(f"{visible(name)}: {visible(value)}")
    for step in task.steps:
        of_step = f" of step {visible(step.name)}" if step.name else ""
        typer.echo(f"\n# Instruction{of_step}\n\n{visible_block(step.instruction)}")
        if with_script:
            typer.echo(f"\n# Verifier{of_step}\n\n{visible_block(script_of(task, step))}")
        if with_solution:
            typer.echo(f"\n# Solution{of_step}\n\n{visible_block(solution_of(task, step))}")


def _pairs(fields: str | None) -> list[str]:
    return [] if fields is None else fields.split(",")


def _document(problem: Problem) -> dict[str, Any]:
    from sandrl.problems.formats.own import tolerance_row

    if problem.task is not None:
        from sandrl.problems.tasks.description import task_document

        return {"task_id": problem.task_id, "kind": problem.kind, "task": task_document(problem.task)}
    return {
        "task_id": problem.task_id,
        "kind": problem.kind,
        "checks": problem.check_count,
        "entry_point": problem.entry_point,
        "has_reference": problem.reference is not None,
        "timeout_seconds": problem.timeout_seconds,
        "check_timeout_seconds": problem.check_timeout_seconds,
        "tolerance": tolerance_row(problem.tolerance),
    } | ({} if problem.memory_bytes is None else {"memory_bytes": problem.memory_bytes})


def _heading(problem: Problem, prompt: Prompt) -> str:
    asked = f", entry point {visible(problem.entry_point)}" if problem.entry_point else ""
    checks = f"{problem.check_count} {problem.kind} ({prompt.shown} shown, {prompt.hidden} hidden)"
    return f"{visible(problem.task_id)}: {checks}{asked}"
