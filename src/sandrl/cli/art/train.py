"""`sandrl art train`: trains a model on episodes in sandboxes, with ART."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli.completion import values
from sandrl.cli.configured import CommandInput, given_to
from sandrl.cli.estimate import estimate_lines
from sandrl.cli.output import Json
from sandrl.cli.text import visible
from sandrl.cli.verbosity import note
from sandrl.config.art import ArtTrainConfig

if TYPE_CHECKING:
    from sandrl.trainers.art.plan import ArtPlan
    from sandrl.trainers.art.results import ArtRun, Round


@given_to(ArtTrainConfig)
def train(
    given: CommandInput[ArtTrainConfig],
    *,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Resume this run from the last step of its backend.", autocompletion=values.run_names
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check the configuration, the Tinker service and the teacher's endpoint, print the plan with its"
            " sandbox time and cost, and exit. Starts no sandbox and requests no completion.",
        ),
    ] = False,
    json_: Json = False,
) -> None:
    """Train a model on episodes of several turns in sandboxes with OpenPipe's ART, on a GPU, Tinker or the CPU."""
    from sandrl.cli import training
    from sandrl.cli.output import print_json
    from sandrl.cli.work import carry_out
    from sandrl.settings import load_settings
    from sandrl.trainers.art.plan import make_request, plan_of

    request = make_request(given.command_line, load_settings(), file=given.file, resume=resume)
    if given.prints(request.config):
        return
    if dry_run:
        plan = plan_of(request, load_settings())
        if json_:
            print_json(_plan_document(plan))
        else:
            _print_plan(plan)
        return
    from sandrl.trainers.art.train import run_art

    finished = carry_out(run_art, request, training.choose(training.ART, is_json=json_))
    if json_:
        print_json(_document(finished))
    else:
        _print_summary(finished)
    note(f"Run: {finished.run_dir}")
    finished.raise_for_outcome()


def _print_plan(plan: ArtPlan) -> None:
    from sandrl.problems.schedule import counts_of

    config, lines = plan.config, [*plan.notes]
    steps = f"Steps: {plan.first_step + 1} to {config.steps}"
    if plan.first_step >= config.steps:
        steps = f"Steps: all {config.steps} are done; a larger --steps adds more"
    if plan.recorded_steps:
        lines += [f"Trajectories: {plan.recorded_steps} steps of the run {config.trajectories}", steps]
    else:
        lines += [
            f"Problems: {plan.problems} of {config.problems}{counts_of(plan.parts)}, {config.groups} in a step",
            f"{steps}, each of {config.episodes_per_step} episodes",
        ]
    lines.append(f"Rollouts: {plan.episodes}")
    typer.echo("\n".join(visible(line) for line in lines))
    if plan.estimate is not None:
        typer.echo("\n".join(estimate_lines(plan.estimate)))


def _plan_document(plan: ArtPlan) -> dict[str, Any]:
    return {
        "config": plan.config.document(),
        "notes": list(plan.notes),
        "problems": plan.problems,
        "sources": {part.source: len(part.names) for part in plan.parts},
        "recorded_steps": plan.recorded_steps,
        "first_step": plan.first_step,
        "steps": plan.config.steps,
        "rollouts": plan.episodes,
        "outlook": None if plan.estimate is None else plan.estimate.document(),
    }


def _print_summary(run: ArtRun) -> None:
    from sandrl.cli.health import flag_lines
    from sandrl.cli.scores import held_line

    trained = [each for each in run.rounds if not each.failure]
    lines = [f"Trained {len(trained)} steps: step {run.steps} of {run.of}"]
    if run.is_short:
        lines[0] += "; there are no more recorded steps"
    if run.failures:
        lines.append(f"{len(run.failures)} attempts trained nothing: {run.failures[-1]}")
    if run.dropped:
        lines.append(f"{run.dropped} episodes were dropped because of infrastructure errors")
    typer.echo("\n".join([*(visible(line) for line in lines), *flag_lines(run.flags)]))
    if run.held is not None:
        note(held_line(run.held))


def _document(run: ArtRun) -> dict[str, Any]:
    return {
        "job_id": run.job_id,
        "run_dir": str(run.run_dir),
        "first_step": run.first_step,
        "step": run.steps,
        "of": run.of,
        "dropped": run.dropped,
        **({} if run.held is None else run.held.document()),
        "rounds": [_round_document(each) for each in run.rounds],
        "flags": [asdict(flag) for flag in run.flags],
    }


def _round_document(each: Round) -> dict[str, Any]:
    return {
        "step": each.step,
        "trajectories": each.trajectories,
        "dropped": each.dropped,
        "reward": each.reward,
        "failure": each.failure or None,
        "metrics": dict(each.metrics),
    }
