"""`sandrl runs regrade`: judges a run's completions again, and lists the changed verdicts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from sandrl.cli import results
from sandrl.cli.configured import CommandInput, configured
from sandrl.cli.estimate import DryRun, print_estimate
from sandrl.cli.output import Json, print_json
from sandrl.cli.runs import open_run
from sandrl.cli.scores import disagreement_lines, held_line, opinions_line
from sandrl.cli.text import visible
from sandrl.cli.verbosity import note, print_first
from sandrl.cli.work import carry_out
from sandrl.config.scoring import RegradeConfig
from sandrl.settings import load_settings

if TYPE_CHECKING:
    from sandrl.rewards.regrade import Flip, Regrading

_LONGEST_DETAIL = 160


def _with_those_of_the_run(given: CommandInput[RegradeConfig]) -> RegradeConfig:
    from sandrl.rewards.regrade import saved_options

    asked = given.resolve()
    reader, _ = open_run(asked.run, asked.runs_dir)
    return given.resolve(saved_options(reader)).model_copy(update={"run": str(reader.path)})


@configured(RegradeConfig, resolved=_with_those_of_the_run)
def regrade(config: RegradeConfig, *, dry_run: DryRun = False, json_: Json = False) -> None:
    """Judge the saved completions of a run again with the installed judge, and list the changed verdicts."""
    from sandrl.rewards.regrade import estimate_regrading, regrade

    if dry_run:
        print_estimate(estimate_regrading(config, load_settings()), json_output=json_)
        return
    finished = carry_out(regrade, config, results.choose(json_output=True))
    if json_:
        print_json({"run_id": finished.run_id, **_document(finished)})
    else:
        _print(finished)
    finished.raise_for_outcome()


def _document(finished: Regrading) -> dict[str, Any]:
    from sandrl.rewards import result_document

    opinions = {} if finished.second_opinion is None else {
        "second_opinion": asdict(finished.second_opinion),
        "disagreements": [
            {"index": result.index, **result_document(result)} for result in finished.disagreements
        ],
    }  # fmt: skip
    return {
        "judge": finished.judge,
        "judges_of_run": list(finished.judges),
        "compared": finished.compared,
        "left_out": finished.left_out,
        "unscorable": finished.unscorable,
        **finished.held.document(),
        "flips": [
            {
                "index": flip.before.index,
                "id": flip.before.id,
                "task_id": flip.before.task_id,
                "step": flip.before.step,
                "judge": flip.judge or None,
                "before": {
                    "status": flip.before.status, "reward": flip.before.reward, "detail": flip.before.detail
                },
                "after": {
                    "status": flip.after.status.value, "reward": flip.after.reward, "detail": flip.after.detail
                },
            }
            for flip in finished.flips
        ],
        **opinions,
    }  # fmt: skip


def _print(finished: Regrading) -> None:
    print_first([_line(flip) for flip in finished.flips])
    before = ", ".join(each or "unknown" for each in finished.judges)
    note(f"Judge: {finished.judge} (the run was judged by: {before})")
    typer.echo(f"Flipped: {len(finished.flips)} of {finished.compared} verdicts")
    note(held_line(finished.held))
    if finished.second_opinion is not None:
        typer.echo(opinions_line(finished.second_opinion))
        for line in disagreement_lines(finished.disagreements, hint="--json"):
            typer.echo(line)


def _line(flip: Flip) -> str:
    before, after = flip.before, flip.after
    step = "" if before.step is None else f"step {before.step}, "
    rewards = " → ".join("null" if reward is None else f"{reward:g}" for reward in (before.reward, after.reward))
    detail = f": {visible(after.detail, _LONGEST_DETAIL)}" if after.detail else ""
    place = f"  {step}{before.index} ({visible(before.task_id)})"
    return f"{place}: {visible(before.status)} → {after.status.value}, reward {rewards}{detail}"
