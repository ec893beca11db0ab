"""`sandrl grpo` and `sandrl unsloth`: train a policy with TRL's GRPO on sandbox rewards.

Both names are one function, so both commands always have the same options; the name selects the loader.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli.completion import values
from sandrl.cli.configured import CommandInput, given_to
from sandrl.cli.text import visible
from sandrl.cli.verbosity import note
from sandrl.config.grpo import GrpoConfig
from sandrl.config.words import OWN_TEMPLATE

if TYPE_CHECKING:
    from sandrl.trainers.grpo import GrpoRun
    from sandrl.trainers.plan import GrpoPlan

SUMMARIES = {
    "unsloth": "Train like `sandrl grpo`, with a policy loaded by Unsloth: 4-bit weights and LoRA adapters, on a GPU."
}


@given_to(GrpoConfig)
def grpo(
    given: CommandInput[GrpoConfig],
    context: typer.Context,
    *,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Resume this run from its last checkpoint.", autocompletion=values.run_names),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the configuration, print the plan, and exit. Starts no training.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print the plan of --dry-run as one JSON document.")] = False,
) -> None:
    """Train a policy with TRL's GRPO on rewards from sandboxes. Without a GPU, the default is the tiny policy."""
    from sandrl.cli import notify, signals, training
    from sandrl.errors import UsageError
    from sandrl.settings import load_settings
    from sandrl.trainers.interrupts import TrainingInterrupt
    from sandrl.trainers.loaders import TRL
    from sandrl.trainers.plan import make_plan
    from sandrl.trainers.unsloth import UNSLOTH

    loader = UNSLOTH if context.command.name == UNSLOTH.command else TRL
    loader.check_installed()
    settings = load_settings()
    interrupt = TrainingInterrupt(is_one_of_many=settings.world_size > 1)
    with signals.passed_to(interrupt):
        request = make_plan(given.command_line, settings, loader=loader, file=given.file, resume=resume)
        if given.prints(request.config):
            return
        if dry_run:
            from sandrl.trainers.plan import check_plan

            _print_plan(check_plan(request, settings), json_output=json_)
            return
        if json_:
            raise UsageError(
                "--json requires --dry-run", hint="after a training, sandrl metrics --json prints its metrics"
            )
        from sandrl.trainers.grpo import run_grpo

        with training.choose(is_first=settings.rank == 0) as show:
            run = run_grpo(request, settings, emit=notify.watched(show), interrupt=interrupt)
    if run.is_first:
        _print_summary(run)
    run.raise_for_outcome()


def _print_plan(plan: GrpoPlan, *, json_output: bool) -> None:
    from sandrl.cli.estimate import estimate_lines
    from sandrl.cli.output import print_json
    from sandrl.problems.schedule import counts_of

    config = plan.config
    if json_output:
        print_json(_plan_document(plan))
        return
    lines = [
        f"Model: {config.model}" + (f", LoRA of rank {config.lora_rank}" if config.lora else ""),
        *([] if plan.template == OWN_TEMPLATE else [f"Chat template: {plan.template}"]),
        *([] if plan.origin is None else [f"Starts from the weights of {plan.origin}"]),
        f"Problems: {len(plan.sets.train)} of {config.problems}{counts_of(plan.sets.parts)}",
        f"Evaluation: {_evaluation_plan(plan)}",
        *([] if plan.sets.remark is None else [f"Note: {plan.sets.remark}"]),
        f"Steps: {plan.first_step} to {config.steps}, each of {config.groups} problems"
        f" × {config.samples} completions = {config.batch_size}",
        f"Processes: {plan.processes}, {plan.completions_per_pass} completions in a pass of each,"
        f" on the {'GPU' if plan.on_gpu else 'CPU'}",
    ]
    typer.echo("\n".join([*(visible(line) for line in lines), *estimate_lines(plan.estimate)]))


def _plan_document(plan: GrpoPlan) -> dict[str, Any]:
    return {
        "config": plan.config.document(),
        "chat_template": plan.template,
        "train_problems": len(plan.sets.train),
        "eval_problems": len(plan.sets.evaluation),
        "is_held_out": plan.sets.is_held_out,
        "remark": plan.sets.remark,
        "sources": {part.source: len(part.names) for part in plan.sets.parts},
        "contaminated": [asdict(each) for each in plan.sets.matches],
        "processes": plan.processes,
        "completions_per_pass": plan.completions_per_pass,
        "on_gpu": plan.on_gpu,
        "first_step": plan.first_step,
        "steps": plan.config.steps,
        "origin": None if plan.origin is None else plan.origin.model_dump(mode="json"),
        "outlook": plan.estimate.document(),
    }


def _evaluation_plan(plan: GrpoPlan) -> str:
    config = plan.config
    if not plan.sets.evaluation:
        return "none"
    if config.eval_set is not None:
        what = f"{len(plan.sets.evaluation)} problems of {config.eval_set}"
    elif plan.sets.is_held_out:
        what = f"{len(plan.sets.evaluation)} held-out problems"
    else:
        what = f"{len(plan.sets.evaluation)} of the same problems (too few to hold out)"
    between = "" if config.eval_every is None else f", after every {config.eval_every} steps"
    sampled = f"{config.eval_samples} sampled completion{'s' * (config.eval_samples > 1)}"
    greedy = " and a greedy one" if config.has_greedy_answers else ""
    return f"{what}, before training{between} and at its end, with {sampled}{greedy} per problem"


def _print_summary(run: GrpoRun) -> None:
    from sandrl.cli import training
    from sandrl.cli.health import flag_lines
    from sandrl.cli.scores import held_line
    from sandrl.runs.overview import HELD_OUT

    where = "Held-out pass@1" if run.is_held_out else "pass@1 on the training problems"
    rows = (run.evaluations.get(0), run.evaluations.get(run.of))
    before, after = ({} if row is None else row.metrics for row in rows)
    for name, title in ((HELD_OUT, where), (training.GREEDY, f"{where}, greedy")):
        if name in before or name in after:
            shown = [training.number_cell(metrics, name, ".2f") for metrics in (before, after)]
            typer.echo(f"{title} ({run.eval_problems} problems): {shown[0]} before, {shown[1]} after")
            shown = [training.bounds(metrics, name) for metrics in (before, after)]
            typer.echo(f"  95% intervals: {shown[0]} before, {shown[1]} after")
    if run.optimizations:
        typer.echo("\n".join(["Optimizations:", *(f"  {visible(each)}" for each in run.optimizations)]))
    if run.checkpoint is not None:
        typer.echo(visible(f"Checkpoint: {run.checkpoint.path}"))
    if run.best is not None and run.best.of > 1:
        typer.echo(training.best_text(run.best))
    if run.held is not None:
        note(held_line(run.held))
    for line in flag_lines(run.flags):
        typer.echo(line)
    note(f"Run: {run.run_dir}")
