"""`sandrl grpo` and `sandrl unsloth`: train a policy with TRL's GRPO on sandbox rewards.

The design decision: they are one function under two names, so that no option can be in one of them only; its name says
which engine trains.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sandrl.cli.completion import values
from sandrl.cli.options import SANDBOXES_PANEL, Concurrency, Image, MaxSandboxes, Packages, SandboxTags, package_names
from sandrl.rewards.extraction import Extraction
from sandrl.rollouts.kinds import ToolSet
from sandrl.settings import ReportTo, RuntimeKind

_WHAT = "What to train"
_HOW = "How to train"
_GENERATION = "Generation"
_OUTPUT = "Output"


UNSLOTH_HELP = "Train as `sandrl grpo` does, but a policy that Unsloth has loaded: on a GPU in 4 bits, with adapters."


class Rollout(StrEnum):
    """How an episode goes."""

    SINGLE = "single"
    TOOLS = "tools"


class Vllm(StrEnum):
    """Where vLLM generates."""

    COLOCATE = "colocate"
    SERVER = "server"


def grpo(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="`tiny`, a model of the hub, or a directory. Default: `tiny` without a GPU, else"
            " Qwen/Qwen2.5-0.5B-Instruct (`unsloth`: in 4 bits).",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    problems: Annotated[
        str | None,
        typer.Option(
            metavar="SET|FILE",
            help="What to train on. Default: `tiny` for the tiny policy, else `mbpp`.",
            rich_help_panel=_WHAT,
            autocompletion=values.problem_sets,
        ),
    ] = None,
    num_problems: Annotated[
        int | None, typer.Option(metavar="N", help="Train on so many of them; all by default.", rich_help_panel=_WHAT)
    ] = None,
    eval_problems: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Evaluate on so many held-out problems, before and after; 0: not at all. Default: 128.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    show_tests: Annotated[
        int | None,
        typer.Option(metavar="N", help="Checks a prompt shows. Default: 1.", rich_help_panel=_WHAT),
    ] = None,
    extract: Annotated[
        Extraction | None,
        typer.Option(
            help="Where in a completion its code is. Default: exact for the tiny policy, else auto.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", help="Optimizer steps. Default: 80 (tiny), 200.", rich_help_panel=_HOW)
    ] = None,
    num_generations: Annotated[
        int | None,
        typer.Option(metavar="N", help="Completions per problem: a group. Default: 8.", rich_help_panel=_HOW),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Completions per step, over all processes. Default: 128 (tiny), 32.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(metavar="RATE", help="Default: 4e-4 (tiny), 1e-6.", rich_help_panel=_HOW)
    ] = None,
    lr_schedule: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="How the learning rate changes: constant, linear, cosine, …", rich_help_panel=_HOW
        ),
    ] = None,
    beta: Annotated[
        float | None, typer.Option(metavar="WEIGHT", help="Weight of the KL term. Default: 0.", rich_help_panel=_HOW)
    ] = None,
    loss_type: Annotated[
        str | None, typer.Option(metavar="NAME", help="TRL's name of the loss. Default: dapo.", rich_help_panel=_HOW)
    ] = None,
    lora: Annotated[
        bool | None,
        typer.Option(
            "--lora/--no-lora", help="Train low-rank adapters; `unsloth` does by default.", rich_help_panel=_HOW
        ),
    ] = None,
    lora_rank: Annotated[
        int | None, typer.Option(metavar="N", help="Their rank. Default: 16.", rich_help_panel=_HOW)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Decides all that is random. Default: 0.", rich_help_panel=_HOW)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any other field of TRL's GRPOConfig; repeatable.", rich_help_panel=_HOW
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="Of sampling. Default: 1.", rich_help_panel=_GENERATION)
    ] = None,
    max_completion_length: Annotated[
        int | None,
        typer.Option(metavar="TOKENS", help="Of one completion. Default: 48 (tiny), 512.", rich_help_panel=_GENERATION),
    ] = None,
    rollout: Annotated[
        Rollout | None,
        typer.Option(help="One answer, or several turns with tools. Default: single.", rich_help_panel=_GENERATION),
    ] = None,
    tools: Annotated[
        ToolSet | None,
        typer.Option(
            help="With --rollout tools: execute and submit code, or shell and files, too. Default: code.",
            rich_help_panel=_GENERATION,
        ),
    ] = None,
    max_tool_calls: Annotated[
        int | None,
        typer.Option(metavar="N", help="Calls in an episode with tools. Default: 4.", rich_help_panel=_GENERATION),
    ] = None,
    use_vllm: Annotated[
        Vllm | None,
        typer.Option(help="Generate with vLLM, here or through its server.", rich_help_panel=_GENERATION),
    ] = None,
    vllm_server_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where that server is.", rich_help_panel=_GENERATION)
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Time for one completion with its checks.", rich_help_panel=SANDBOXES_PANEL
        ),
    ] = None,
    concurrency: Concurrency = None,
    max_sandboxes: MaxSandboxes = None,
    warm_sandboxes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Create so many at most while the policy generates. Default: 64.",
            rich_help_panel=SANDBOXES_PANEL,
        ),
    ] = None,
    retries: Annotated[
        int | None,
        typer.Option(metavar="N", help="Further tries when a sandbox fails.", rich_help_panel=SANDBOXES_PANEL),
    ] = None,
    require_isolated: Annotated[
        bool | None,
        typer.Option(
            "--require-isolated/--no-require-isolated",
            help="No reward where the checks cannot be kept out of the completion's process.",
            rich_help_panel=SANDBOXES_PANEL,
        ),
    ] = None,
    second_opinion: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="Judge this share of failed isolated verdicts again in one process; report those that pass there.",
            rich_help_panel=SANDBOXES_PANEL,
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep verdicts there, and use those of earlier runs.", rich_help_panel=SANDBOXES_PANEL
        ),
    ] = None,
    runtime: Annotated[
        RuntimeKind | None, typer.Option(help="What runs the sandboxes.", rich_help_panel=SANDBOXES_PANEL)
    ] = None,
    image: Image = None,
    packages: Packages = None,
    tag: SandboxTags = None,
    save_steps: Annotated[
        int | None,
        typer.Option(metavar="N", help="Steps between checkpoints. Default: 10 (tiny), 20.", rich_help_panel=_OUTPUT),
    ] = None,
    keep_checkpoints: Annotated[
        int | None, typer.Option(metavar="N", help="How many stay. Default: 3.", rich_help_panel=_OUTPUT)
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where checkpoints are kept; in the run directory by default.", rich_help_panel=_OUTPUT
        ),
    ] = None,
    runs_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the run directory is made.", rich_help_panel=_OUTPUT)
    ] = None,
    run_name: Annotated[str | None, typer.Option(help="Name of the run.", rich_help_panel=_OUTPUT)] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Go on with a run from its last checkpoint.",
            rich_help_panel=_OUTPUT,
            autocompletion=values.run_names,
        ),
    ] = None,
    project: Annotated[str | None, typer.Option(help="The W&B project.", rich_help_panel=_OUTPUT)] = None,
    report_to: Annotated[
        ReportTo | None,
        typer.Option(
            help="Metrics to W&B, too; `auto`: to an active W&B run, or to one of its own where a key is set.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Options from a file; the command line beats it."),
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the resolved options as such a file, and exit.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything that can be checked, show the plan, and exit.")
    ] = False,
) -> None:
    """Train a policy with TRL's GRPO on rewards from sandboxes; with no options, a tiny one, on any machine."""
    from sandrl.cli import signals, training
    from sandrl.settings import load_settings
    from sandrl.trainers.engines import TRL
    from sandrl.trainers.interrupts import TrainingInterrupt
    from sandrl.trainers.passthrough import parse_assignments
    from sandrl.trainers.plan import make_plan
    from sandrl.trainers.unsloth import UNSLOTH

    given: dict[str, Any] = {
        "model": model,
        "problems": problems,
        "num_problems": num_problems,
        "eval_problems": eval_problems,
        "show_tests": show_tests,
        "extract": extract,
        "steps": steps,
        "num_generations": num_generations,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "lr_schedule": lr_schedule,
        "beta": beta,
        "loss_type": loss_type,
        "lora": lora,
        "lora_rank": lora_rank,
        "seed": seed,
        "set": parse_assignments(set_) if set_ else None,
        "temperature": temperature,
        "max_completion_length": max_completion_length,
        "rollout": rollout,
        "tools": tools,
        "max_tool_calls": max_tool_calls,
        "use_vllm": use_vllm,
        "vllm_server_url": vllm_server_url,
        "timeout_seconds": timeout,
        "concurrency": concurrency,
        "max_sandboxes": max_sandboxes,
        "warm_sandboxes": warm_sandboxes,
        "retries": retries,
        "cache": None if cache is None else str(cache),
        "require_isolated": require_isolated,
        "second_opinion": second_opinion,
        "runtime": runtime,
        "image": image,
        "packages": None if packages is None else list(package_names(packages)),
        "tags": tag,
        "save_steps": save_steps,
        "keep_checkpoints": keep_checkpoints,
        "output_dir": None if output_dir is None else str(output_dir),
        "project": project,
        "report_to": report_to,
    }
    engine = UNSLOTH if context.command.name == UNSLOTH.command else TRL
    engine.check_installed()
    settings = load_settings()
    interrupt = TrainingInterrupt(is_one_of_many=settings.world_size > 1)
    with signals.passed_to(interrupt):
        request = make_plan(
            {key: value for key, value in given.items() if value is not None},
            settings,
            engine=engine,
            file=config,
            runs_dir=runs_dir,
            run_name=run_name,
            resume=resume,
        )
        if print_config:
            training.print_config(request.config)
            return
        if dry_run:
            from sandrl.trainers.plan import check_plan

            training.print_plan(check_plan(request, settings))
            return
        from sandrl.trainers.grpo import run_grpo

        with training.choose(is_first=settings.rank == 0) as show:
            run = run_grpo(request, settings, emit=show, interrupt=interrupt)
    if run.is_first:
        training.print_summary(run)
    run.raise_for_outcome()
