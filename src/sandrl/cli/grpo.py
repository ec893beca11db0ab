"""`sandrl grpo` and `sandrl unsloth`: train a policy with TRL's GRPO on sandbox rewards.

The design decision: they are one function under two names, so that no option can be in one of them only; its name says
which engine trains.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sandrl.cli.completion import values
from sandrl.cli.configured import Given, given_to
from sandrl.config.grpo import GrpoConfig

UNSLOTH_HELP = "Train as `sandrl grpo` does, but a policy that Unsloth has loaded: on a GPU in 4 bits, with adapters."


@given_to(GrpoConfig)
def grpo(
    given: Given[GrpoConfig],
    context: typer.Context,
    *,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Go on with a run from its last checkpoint.", autocompletion=values.run_names),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything that can be checked, show the plan, and exit.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="With --dry-run: the plan as one JSON document.")] = False,
) -> None:
    """Train a policy with TRL's GRPO on rewards from sandboxes; with no options, a tiny one, on any machine."""
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
            raise UsageError("--json is the form of --dry-run; sandrl metrics --json has what a training measured")
        from sandrl.trainers.grpo import run_grpo

        with training.choose(is_first=settings.rank == 0) as show:
            run = run_grpo(request, settings, emit=notify.watched(show), interrupt=interrupt)
    if run.is_first:
        training.print_summary(run)
    run.raise_for_outcome()
