"""`sandrl grpo` and `sandrl unsloth`: train a policy with TRL's GRPO on sandbox rewards.

Both names are one function, so both commands always have the same options; the name selects the engine.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sandrl.cli.completion import values
from sandrl.cli.configured import CommandInput, given_to
from sandrl.config.grpo import GrpoConfig

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
    from sandrl.trainers.engines import TRL
    from sandrl.trainers.interrupts import TrainingInterrupt
    from sandrl.trainers.plan import make_plan
    from sandrl.trainers.unsloth import UNSLOTH

    engine = UNSLOTH if context.command.name == UNSLOTH.command else TRL
    engine.check_installed()
    settings = load_settings()
    interrupt = TrainingInterrupt(is_one_of_many=settings.world_size > 1)
    with signals.passed_to(interrupt):
        request = make_plan(given.command_line, settings, engine=engine, file=given.file, resume=resume)
        if given.prints(request.config):
            return
        if dry_run:
            from sandrl.trainers.plan import check_plan

            training.print_plan(check_plan(request, settings), json_output=json_)
            return
        if json_:
            raise UsageError(
                "--json requires --dry-run", hint="after a training, sandrl metrics --json prints its metrics"
            )
        from sandrl.trainers.grpo import run_grpo

        with training.choose(is_first=settings.rank == 0) as show:
            run = run_grpo(request, settings, emit=notify.watched(show), interrupt=interrupt)
    if run.is_first:
        training.print_summary(run)
    run.raise_for_outcome()
