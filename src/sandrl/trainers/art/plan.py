"""Converts a command's options to a training request, and to the plan that `--dry-run` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from sandrl.config.art import MAY_CHANGE, ArtTrainConfig
from sandrl.config.layers import resolve
from sandrl.rewards.estimate import SandboxEstimate
from sandrl.rollouts.outlook import outlook_of_episodes
from sandrl.runs import RunReader, find_run
from sandrl.runs.resumption import saved_config
from sandrl.settings import Settings
from sandrl.trainers.art.checks import check
from sandrl.trainers.art.defaults import choice_of, resolve_art
from sandrl.trainers.art.history import steps_made
from sandrl.trainers.art.results import COMMAND, ArtRequest
from sandrl.trainers.directory import check_same, run_to_resume


@dataclass(frozen=True, slots=True)
class ArtPlan:
    """What a training would do.

    Attributes:
        config: How it would train.
        notes: What was found out, in lines for the user.
        problems: How many problems it would train on.
        source: Where these, or the recorded episodes, come from.
        problems_per_step: How many a step has.
        first_step: How many steps the model has had.
        episodes_per_step: How many episodes a step has.
        recorded_steps: How many steps of recorded episodes there are; 0 where episodes are played.
        outlook: What it would take in sandboxes; None where no episodes are played.
    """

    config: ArtTrainConfig
    notes: tuple[str, ...]
    problems: int
    source: str
    problems_per_step: int
    first_step: int
    episodes_per_step: int
    recorded_steps: int = 0
    outlook: SandboxEstimate | None = None

    @property
    def steps(self) -> int:
        """How many steps the model would have had."""
        return self.config.steps

    @property
    def episodes(self) -> int:
        """How many episodes would be played, if every step trains at its first attempt."""
        return max(self.steps - self.first_step, 0) * self.episodes_per_step


def make_request(
    given: Mapping[str, JsonValue],
    settings: Settings,
    *,
    file: Mapping[str, JsonValue] | None = None,
    resume: str | None = None,
) -> ArtRequest:
    """Makes a request of what was given.

    Args:
        given: Options of the command line, by the names of `ArtTrainConfig`.
        settings: What the environment says.
        file: What the file of `--config` says.
        resume: The run to go on with, by name or path.

    Raises:
        UsageError: If something does not fit, or a run that goes on would change.
    """
    if resume is None:
        config, choice = resolve_art(file or {}, given, settings)
        return ArtRequest(_found(config, settings), why=choice.reason)
    run = run_to_resume(resume, given, settings)
    saved = saved_config(ArtTrainConfig, RunReader(run), COMMAND)
    said = {**(file or {}), **given}
    # The words `auto` and `tinker` stand for what they would stand for in a new run.
    chosen = {"backend": choice_of(str(said["backend"]), settings).kind} if "backend" in said else {}
    wanted = _found(resolve(ArtTrainConfig, saved.document(), file or {}, given, chosen), settings)
    check_same(run, saved, wanted, may_change=MAY_CHANGE)
    return ArtRequest(wanted, resume=run, why="the run was started with it")


def _found(config: ArtTrainConfig, settings: Settings) -> ArtTrainConfig:
    """The configuration as the run keeps it: whoever goes on with it may stand in another directory."""
    if config.trajectories is None:
        return config
    recorded = find_run(config.trajectories, settings.state_dir, settings.runs_dir)
    return config.model_copy(update={"trajectories": str(recorded.absolute())})


def plan_of(request: ArtRequest, settings: Settings) -> ArtPlan:
    """Checks everything short of spending, and says what would be done.

    Raises:
        UsageError: If options, problems, extras or hardware do not fit.
        ServiceError: If a service does not answer, or refuses.
    """
    config = request.config
    checked = check(request, settings, spends=False)
    steps_done = 0 if request.resume is None else steps_made(request.resume)
    episodes_per_step = 0 if checked.recorded else config.episodes_per_step
    episodes = max(config.steps - steps_done, 0) * episodes_per_step
    return ArtPlan(
        config,
        checked.notes,
        problems=len(checked.problems),
        source=config.problems if config.trajectories is None else f"the run {config.trajectories}",
        problems_per_step=0 if checked.recorded else config.groups,
        first_step=steps_done,
        episodes_per_step=episodes_per_step,
        recorded_steps=len(checked.recorded),
        outlook=None
        if checked.recorded
        else outlook_of_episodes(
            config, settings, command=COMMAND, problems=checked.problems, episodes=episodes, run=request.resume
        ),
    )
