"""`sandrl art train`: train a model on episodes in sandboxes, with ART."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli.completion import values
from sandrl.cli.options import (
    OUTPUT_PANEL,
    SANDBOXES_PANEL,
    Image,
    Json,
    MaxSandboxes,
    Packages,
    RunsDir,
    SandboxTags,
    package_names,
)
from sandrl.cli.text import visible
from sandrl.config.parts import PROBLEMS_HELP
from sandrl.rewards.extraction import Extraction
from sandrl.rollouts.kinds import EpisodeKind, ToolSet
from sandrl.settings import ReportTo, RuntimeKind
from sandrl.trainers.art.kinds import ArtBackendKind, ArtPolicy

if TYPE_CHECKING:
    from sandrl.trainers.art.plan import ArtPlan
    from sandrl.trainers.art.results import ArtRun, Round

_WHAT = "What to train"
_WHO = "Who acts"
_EPISODES = "Episodes"


def train(
    backend: Annotated[
        ArtBackendKind | None,
        typer.Option(help="On a GPU of this machine, or by a Tinker service. Default: local.", rich_help_panel=_WHAT),
    ] = None,
    base_model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="The model to train. Default: Qwen/Qwen3-8B.", rich_help_panel=_WHAT),
    ] = None,
    problems: Annotated[
        str | None,
        typer.Option(
            metavar="SET|FILE",
            help=f"{PROBLEMS_HELP} Default: mbpp.",
            rich_help_panel=_WHAT,
            autocompletion=values.problem_sets,
        ),
    ] = None,
    num_problems: Annotated[
        int | None,
        typer.Option(metavar="N", help="Train on the first N of them. Default: 10.", rich_help_panel=_WHAT),
    ] = None,
    problems_per_step: Annotated[
        int | None,
        typer.Option(metavar="N", help="Problems of a step. Default: all of them.", rich_help_panel=_WHAT),
    ] = None,
    num_steps: Annotated[
        int | None, typer.Option(metavar="N", help="Steps to train, in all. Default: 5.", rich_help_panel=_WHAT)
    ] = None,
    trajectories_per_problem: Annotated[
        int | None,
        typer.Option(metavar="N", help="Episodes of each problem: a group. Default: 2.", rich_help_panel=_WHAT),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(metavar="RATE", help="Default: 1e-5.", rich_help_panel=_WHAT)
    ] = None,
    lora_rank: Annotated[
        int | None, typer.Option(metavar="N", help="Rank of the adapters. Default: 8.", rich_help_panel=_WHAT)
    ] = None,
    renderer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How `tinker` writes conversations, in tinker_cookbook's word. Default: by the base model.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    trajectories: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Train on the episodes a run has kept, instead of playing any.",
            rich_help_panel=_WHAT,
            autocompletion=values.run_names,
        ),
    ] = None,
    policy: Annotated[
        ArtPolicy | None,
        typer.Option(
            help="The model that is trained, or a teacher whose words are scored under it. Default: teacher.",
            rich_help_panel=_WHO,
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The teacher. Default: gpt-5.1-codex-mini.", rich_help_panel=_WHO)
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Its endpoint. Default: OPENAI_BASE_URL, else OpenAI's.", rich_help_panel=_WHO
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="Of sampling. Default: 1.", rich_help_panel=_WHO)
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="The longest answer. Default: 2048.", rich_help_panel=_WHO)
    ] = None,
    request_timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time for one answer. Default: 120.", rich_help_panel=_WHO)
    ] = None,
    request_retries: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Further tries when the endpoint does not answer. Default: 4.", rich_help_panel=_WHO
        ),
    ] = None,
    rollout: Annotated[
        EpisodeKind | None,
        typer.Option(
            help="Calls of tools, or code in answers with errors fed back. Default: tools.", rich_help_panel=_EPISODES
        ),
    ] = None,
    tools: Annotated[
        ToolSet | None,
        typer.Option(
            help="Execute and submit code, or shell and files, too. Default: code.", rich_help_panel=_EPISODES
        ),
    ] = None,
    max_tool_calls: Annotated[
        int | None,
        typer.Option(metavar="N", help="Calls in an episode with tools. Default: 20.", rich_help_panel=_EPISODES),
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(metavar="N", help="Answers in an episode of attempts. Default: 3.", rich_help_panel=_EPISODES),
    ] = None,
    show_tests: Annotated[
        int | None, typer.Option(metavar="N", help="Checks a prompt shows. Default: 1.", rich_help_panel=_EPISODES)
    ] = None,
    extract: Annotated[
        Extraction | None,
        typer.Option(help="Where in an attempt its code is. Default: auto.", rich_help_panel=_EPISODES),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Time for one command, and for a solution with its checks. Default: 10.",
            rich_help_panel=_EPISODES,
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency", "-c", metavar="N", help="Episodes at once. Default: 32.", rich_help_panel=_EPISODES
        ),
    ] = None,
    runtime: Annotated[
        RuntimeKind | None, typer.Option(help="What runs the sandboxes.", rich_help_panel=SANDBOXES_PANEL)
    ] = None,
    image: Image = None,
    packages: Packages = None,
    max_sandboxes: MaxSandboxes = None,
    tag: SandboxTags = None,
    project: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="ART's project, and W&B's. Default: aviato-mbpp.", rich_help_panel=OUTPUT_PANEL
        ),
    ] = None,
    run_name: Annotated[
        str | None,
        typer.Option(help="Name of the run and of the model. Default: train-001.", rich_help_panel=OUTPUT_PANEL),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with that run, at its backend's step.", rich_help_panel=OUTPUT_PANEL),
    ] = False,
    runs_dir: RunsDir = None,
    report_to: Annotated[
        ReportTo | None,
        typer.Option(
            "--report-to",
            help="Metrics to W&B, too; `auto`: to an active W&B run, or to one of its own where a key is set.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    json_: Json = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check everything short of spending, say what would run and what it would use, and exit.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = False,
) -> None:
    """Train a model on episodes of several turns in sandboxes, with OpenPipe's ART on a GPU or on Tinker."""
    from sandrl.cli.art import view
    from sandrl.cli.output import print_json
    from sandrl.cli.work import carry_out
    from sandrl.settings import load_settings
    from sandrl.trainers.art.plan import make_request, plan_of

    given: dict[str, Any] = {
        "backend": backend,
        "base_model": base_model,
        "policy": policy,
        "model": model,
        "base_url": base_url,
        "trajectories": trajectories,
        "renderer": renderer,
        "lora_rank": lora_rank,
        "problems": problems,
        "num_problems": num_problems,
        "problems_per_step": problems_per_step,
        "num_steps": num_steps,
        "trajectories_per_problem": trajectories_per_problem,
        "learning_rate": learning_rate,
        "rollout": rollout,
        "tools": tools,
        "max_tool_calls": max_tool_calls,
        "max_attempts": max_attempts,
        "show_tests": show_tests,
        "extract": extract,
        "temperature": temperature,
        "max_tokens": max_tokens,
        "request_timeout_seconds": request_timeout,
        "request_retries": request_retries,
        "concurrency": concurrency,
        "timeout_seconds": timeout,
        "max_sandboxes": max_sandboxes,
        "runtime": runtime,
        "image": image,
        "packages": None if packages is None else list(package_names(packages)),
        "tags": tag,
        "project": project,
        "report_to": report_to,
    }
    request = make_request(
        {key: value for key, value in given.items() if value is not None},
        load_settings(),
        runs_dir=runs_dir,
        run_name=run_name,
        resume=resume,
    )
    if dry_run:
        plan = plan_of(request, load_settings())
        if json_:
            print_json(_plan_document(plan))
        else:
            _print_plan(plan)
        return
    from sandrl.trainers.art.train import run_art

    finished = carry_out(run_art, request, view.choose(is_json=json_))
    if json_:
        print_json(_document(finished))
    else:
        _print_summary(finished)
    typer.echo(f"Run: {finished.run_dir}", err=True)
    finished.raise_for_outcome()


def _print_plan(plan: ArtPlan) -> None:
    lines = [*plan.notes]
    steps = f"Steps: {plan.first_step + 1} to {plan.steps}"
    if plan.first_step >= plan.steps:
        steps = f"Steps: none are left of {plan.steps}; a larger --num-steps adds some"
    if plan.recorded_steps:
        lines += [f"Trajectories: {plan.recorded_steps} steps of {plan.source}", steps]
    else:
        lines += [
            f"Problems: {plan.problems} of {plan.source}, {plan.problems_per_step} in a step",
            f"{steps}, each of {plan.episodes_per_step} episodes",
        ]
    lines.append(
        f"It would use: {plan.episodes} rollouts, {plan.sandboxes} sandboxes,"
        f" roughly {plan.sandbox_seconds} sandbox-seconds"
    )
    typer.echo("\n".join(visible(line) for line in lines))


def _plan_document(plan: ArtPlan) -> dict[str, Any]:
    return {
        "config": plan.config.document(),
        "notes": list(plan.notes),
        "problems": plan.problems,
        "recorded_steps": plan.recorded_steps,
        "first_step": plan.first_step,
        "steps": plan.steps,
        "rollouts": plan.episodes,
        "sandboxes": plan.sandboxes,
        "sandbox_seconds": plan.sandbox_seconds,
    }


def _print_summary(run: ArtRun) -> None:
    trained = [each for each in run.rounds if not each.failure]
    lines = [f"Trained {len(trained)} steps: step {run.step} of {run.of}"]
    if run.is_short:
        lines[0] += "; there are no more recorded steps"
    if run.failures:
        lines.append(f"{len(run.failures)} rounds trained nothing: {run.failures[-1]}")
    if run.dropped:
        lines.append(f"{run.dropped} episodes were lost to infrastructure and count for nothing")
    typer.echo("\n".join(visible(line) for line in lines))


def _document(run: ArtRun) -> dict[str, Any]:
    return {
        "job_id": run.job_id,
        "run_dir": str(run.run_dir),
        "first_step": run.first_step,
        "step": run.step,
        "of": run.of,
        "dropped": run.dropped,
        "rounds": [_round_document(each) for each in run.rounds],
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
