"""`sandrl runs regrade`: judge a run's completions again, and list the verdicts that are others now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli.completion import values
from sandrl.cli.options import Concurrency, Runtime, SecondOpinionRate
from sandrl.cli.runs import LATEST, JsonOption, RunArgument, RunsDirOption, open_run
from sandrl.settings import RuntimeKind

if TYPE_CHECKING:
    from sandrl.rewards.regrade import Flip, Regrading

_LONGEST_DETAIL = 160


def regrade(
    run: RunArgument = LATEST,
    problems: Annotated[
        str | None,
        typer.Option(
            metavar="SET|FILE", help="The problems; default: those of the run.", autocompletion=values.problem_sets
        ),
    ] = None,
    runtime: Runtime = RuntimeKind.AUTO,
    concurrency: Concurrency = None,
    fail_on_flips: Annotated[
        bool, typer.Option("--fail-on-flips", help="Exit 1 if a verdict is another one now.")
    ] = False,
    second_opinion: SecondOpinionRate = 0.0,
    json_: JsonOption = False,
    runs_dir: RunsDirOption = None,
) -> None:
    """Judge a run's saved completions again with the present judge; list only verdicts that flipped."""
    from sandrl.cli import results
    from sandrl.cli.output import print_json
    from sandrl.cli.work import carry_out
    from sandrl.rewards import SecondOpinion
    from sandrl.rewards.regrade import RegradeRequest, regrade

    reader, _ = open_run(run, runs_dir)
    asked = SecondOpinion(second_opinion)
    request = RegradeRequest(reader.path, problems, concurrency, runtime, fail_on_flips, asked)
    finished = carry_out(regrade, request, results.choose(json_output=True))
    if json_:
        print_json({"run_id": reader.config.run_id, **_document(finished)})
    else:
        _print(finished)
    finished.raise_for_outcome()


def _document(finished: Regrading) -> dict[str, Any]:
    from dataclasses import asdict

    from sandrl.rewards import result_document

    opinions = {} if finished.second_opinion is None else {
        "second_opinion": asdict(finished.second_opinion),
        "disagreements": [
            {"index": result.index, **result_document(result)} for result in finished.disagreements
        ],
    }  # fmt: skip
    return {
        "compared": finished.compared,
        "left_out": finished.left_out,
        "unscorable": finished.unscorable,
        "flips": [
            {
                "index": flip.before.index,
                "id": flip.before.id,
                "task_id": flip.before.task_id,
                "step": flip.before.step,
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
    from sandrl.cli.scores import disagreement_lines, opinions_line

    for flip in finished.flips:
        typer.echo(_line(flip))
    typer.echo(f"Flipped: {len(finished.flips)} of {finished.compared} verdicts")
    if finished.second_opinion is not None:
        typer.echo(opinions_line(finished.second_opinion))
        for line in disagreement_lines(finished.disagreements, hint="--json"):
            typer.echo(line)


def _line(flip: Flip) -> str:
    from sandrl.cli.text import visible

    before, after = flip.before, flip.after
    step = "" if before.step is None else f"step {before.step}, "
    rewards = " → ".join("null" if reward is None else f"{reward:g}" for reward in (before.reward, after.reward))
    detail = f": {visible(after.detail, _LONGEST_DETAIL)}" if after.detail else ""
    place = f"  {step}{before.index} ({visible(before.task_id)})"
    return f"{place}: {visible(before.status)} → {after.status.value}, reward {rewards}{detail}"
