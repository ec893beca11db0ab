"""`sandrl art rollout`: runs episodes of several turns in sandboxes, without training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from sandrl.cli.configured import CommandInput, given_to
from sandrl.cli.estimate import DryRun, print_estimate
from sandrl.cli.output import Json
from sandrl.cli.progress import Remarks
from sandrl.cli.verbosity import note
from sandrl.config.episodes import RolloutConfig
from sandrl.events import Event, RolloutStepFinished

if TYPE_CHECKING:
    from sandrl.rollouts.results import PlayedStep, RolloutRun


@given_to(RolloutConfig)
def rollout(
    given: CommandInput[RolloutConfig],
    *,
    dry_run: DryRun = False,
    json_: Json = False,
) -> None:
    """Run episodes of several turns in sandboxes, and save every trajectory, without training."""
    from sandrl.cli.output import print_json
    from sandrl.cli.work import carry_out
    from sandrl.settings import load_settings
    from sandrl.trainers.art.playing import make_request, play_rollouts

    request = make_request(given.file, given.command_line, load_settings())
    if given.prints(request.config):
        return
    if dry_run:
        from sandrl.rollouts.run import estimate_rollouts

        print_estimate(estimate_rollouts(request.config, load_settings()), json_output=json_)
        return
    finished = carry_out(play_rollouts, request, Remarks() if json_ else _Steps())
    if json_:
        print_json(_document(finished))
    else:
        _print_total(finished)
    note(f"Run: {finished.run_dir}")
    finished.raise_for_outcome()


class _Steps(Remarks):
    def __call__(self, event: Event) -> None:
        if isinstance(event, RolloutStepFinished):
            figures = _figures(event.reward, event.passed, event.scored, event.dropped, event.seconds)
            self.tell_step(event, f"Step {event.step}: {figures}")
        else:
            super().__call__(event)


def _figures(reward: float | None, passed: int, scored: int, dropped: int, seconds: float) -> str:
    mean = "–" if reward is None else f"{reward:.3f}"
    rate = f"{passed / scored:.1%}" if scored else "–"
    lost = f", dropped={dropped}" if dropped else ""
    return f"reward={mean}, success={rate} ({passed}/{scored}), time={seconds:.1f}s{lost}"


def _print_total(finished: RolloutRun) -> None:
    from sandrl.cli.scores import held_line

    total = finished.total
    steps = f"{finished.finished} of {finished.of} steps" if finished.signal_number else f"{finished.of} steps"
    figures = _figures(total.mean_reward, total.passed, len(total.rewards), total.dropped, total.seconds)
    typer.echo(f"Total of {steps}: {figures}")
    note(held_line(finished.held))


def _document(finished: RolloutRun) -> dict[str, Any]:
    return {
        "job_id": finished.job_id,
        "run_dir": str(finished.run_dir),
        "model": finished.model,
        "steps": [{"step": step.step, **_step_document(step)} for step in finished.steps],
        "total": {"steps": finished.finished, **_step_document(finished.total)},
        **finished.held.document(),
    }


def _step_document(step: PlayedStep) -> dict[str, Any]:
    scored = len(step.rewards)
    return {
        "reward": step.mean_reward,
        "success": step.passed / scored if scored else None,
        "passed": step.passed,
        "scored": scored,
        "dropped": step.dropped,
        "seconds": round(step.seconds, 3),
    }
