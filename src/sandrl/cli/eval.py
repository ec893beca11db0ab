"""`sandrl eval`: generate completions with a model, score them, print pass@k."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli.completion import values
from sandrl.cli.configured import CommandInput, given_to
from sandrl.cli.estimate import DryRun, print_estimate
from sandrl.cli.evaluation_set import TableFormat, evaluate_set
from sandrl.cli.output import Json
from sandrl.cli.verbosity import note
from sandrl.config.eval import EvalConfig

if TYPE_CHECKING:
    from sandrl.evaluation import EvalRun


@given_to(EvalConfig)
def evaluate(
    given: CommandInput[EvalConfig],
    *,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Use greedy decoding; the same as `--temperature 0`.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Resume this evaluation: generate the missing completions and score the unscored ones.",
            autocompletion=values.run_names,
        ),
    ] = None,
    set_: Annotated[
        Path | None,
        typer.Option(
            "--set",
            metavar="FILE.toml",
            help="Evaluate every combination of models, problem sets and seeds of this file, and print a leaderboard;"
            " the same command continues it.",
        ),
    ] = None,
    table: Annotated[
        TableFormat, typer.Option("--table", metavar="FORMAT", help="Print the leaderboard of --set in this format.")
    ] = TableFormat.TEXT,
    dry_run: DryRun = False,
    json_: Json = False,
) -> None:
    """Evaluate a model: generate completions, score them in sandboxes, and print pass@k."""
    from sandrl.cli import results
    from sandrl.cli.output import print_json
    from sandrl.cli.work import carry_out
    from sandrl.errors import UsageError
    from sandrl.evaluation import make_request, run_eval
    from sandrl.settings import load_settings

    if greedy and "temperature" in given.command_line:
        raise UsageError("--greedy and --temperature cannot be used together", hint="leave one of them out")
    asked = {**given.command_line, **({"temperature": 0.0} if greedy else {})}
    if set_ is not None:
        if resume is not None:
            raise UsageError("--resume cannot be used with --set", hint="the same command continues a set")
        if json_ and table is not TableFormat.TEXT:
            raise UsageError("use only one of --json and --table")
        evaluate_set(set_, given, asked, table, dry_run=dry_run, json_=json_)
        return
    if table is not TableFormat.TEXT:
        raise UsageError("--table is the format of a leaderboard, so it needs --set")
    request = make_request(asked, load_settings(), file=given.file, resume=resume)
    if given.prints(request.config):
        return
    if dry_run:
        from sandrl.evaluation.run import estimate_eval

        print_estimate(estimate_eval(request, load_settings()), json_output=json_)
        return
    finished = carry_out(run_eval, request, results.choose(json_output=True))
    if json_:
        print_json(_document(finished))
    else:
        _print_summary(finished)
    note(f"Run: {finished.run.run_dir}")
    finished.raise_for_outcome()


def _document(finished: EvalRun) -> dict[str, Any]:
    from sandrl.rewards import report_document

    return {
        "model": finished.model,
        "source": finished.config.problems,
        "problems": finished.problems,
        "samples": finished.config.answers,
        "temperature": finished.config.temperature,
        "max_tokens": finished.max_tokens,
        **report_document(finished.run.report),
        "hash_seed": finished.run.request.hash_seed,
    }


def _print_summary(finished: EvalRun) -> None:
    from sandrl.cli.scores import disagreement_lines, held_line, pass_at_text, total_lines
    from sandrl.cli.tables import print_wrapped
    from sandrl.cli.text import counted, visible

    config = finished.config
    how = "greedy" if config.is_greedy else f"sampled at temperature {config.temperature:g}"
    print_wrapped(f"Model: {visible(finished.model)}, {how}")
    answers = counted(config.answers, "completion")
    print_wrapped(f"Problems: {finished.problems} of {visible(config.problems)}, {answers} per problem")
    summary = finished.run.report.summary
    for line in total_lines(summary):
        print_wrapped(line)
    for line in disagreement_lines(finished.run.report.results, hint="sandrl runs show --disagreements"):
        print_wrapped(line)
    if list(summary.pass_at_k) == [1]:
        print_wrapped(pass_at_text(1, summary.pass_at[1]))
    if finished.run.report.held is not None:
        note(held_line(finished.run.report.held))
