"""From the words of a command line to a request that can be trained, and to what it would use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from sandrl.errors import UsageError
from sandrl.rollouts.kinds import EpisodeKind
from sandrl.runs import RunReader, find_run
from sandrl.runs.directory import checked_run_name
from sandrl.settings import Settings
from sandrl.trainers.art.checks import check
from sandrl.trainers.art.config import RUN_NAME, ArtConfig, resolve, saved_fields
from sandrl.trainers.art.history import steps_made
from sandrl.trainers.art.results import ArtRequest

# What an episode holds its sandbox for: turns of a model that answers in a few seconds, and commands that take less.
_TURN_SECONDS = 5.0
_TURNS_WITH_TOOLS = 4
_JUDGE_SECONDS = 1.0


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
        sandbox_seconds: How long sandboxes would be held, summed; an estimate.
        recorded_steps: How many steps of recorded episodes there are; 0 where episodes are played.
    """

    config: ArtConfig
    notes: tuple[str, ...]
    problems: int
    source: str
    problems_per_step: int
    first_step: int
    episodes_per_step: int
    sandbox_seconds: int
    recorded_steps: int = 0

    @property
    def steps(self) -> int:
        """How many steps the model would have had."""
        return self.config.num_steps

    @property
    def episodes(self) -> int:
        """How many episodes would be played, if every step trains at its first attempt."""
        return max(self.steps - self.first_step, 0) * self.episodes_per_step

    @property
    def sandboxes(self) -> int:
        """How many sandboxes that takes: one to work in, one to judge in."""
        return 2 * self.episodes


def make_request(
    given: Mapping[str, JsonValue],
    settings: Settings,
    *,
    runs_dir: Path | None = None,
    run_name: str | None = None,
    resume: bool = False,
) -> ArtRequest:
    """Makes a request of what was given.

    Args:
        given: Options of the command line, by the names of `ArtConfig`.
        settings: What the environment says.
        runs_dir: Where the run directory is, or is made.
        run_name: Its name.
        resume: Whether to go on with it.

    Raises:
        UsageError: If something does not fit, or a run that goes on would change.
    """
    source = given.get("trajectories")
    if source is not None:
        # As the run keeps it: whoever goes on with it may stand in another directory.
        given = {**given, "trajectories": str(find_run(str(source), settings.state_dir, settings.runs_dir).absolute())}
    directory, name = runs_dir or settings.runs_dir, checked_run_name(run_name or RUN_NAME)
    run: Path | None = None
    if resume:
        run = find_run(str(directory / name) if runs_dir else name, settings.state_dir, settings.runs_dir)
        saved = RunReader(run).config
        config = resolve(given, saved_fields(saved.options, saved.command, run))
    else:
        config = resolve(given)
        if (directory / name).exists():
            raise UsageError(
                f"the run {name!r} exists already in {directory}",
                hint="go on with it by --resume, or choose another --run-name",
            )
    recorded = None if config.trajectories is None else Path(config.trajectories)
    return ArtRequest(config, directory, name, run, recorded)


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
    turns = _TURNS_WITH_TOOLS if config.rollout is EpisodeKind.TOOLS else config.max_attempts
    episodes = max(config.num_steps - steps_done, 0) * episodes_per_step
    return ArtPlan(
        config,
        checked.notes,
        problems=len(checked.problems),
        source=config.problems if config.trajectories is None else f"the run {config.trajectories}",
        problems_per_step=0 if checked.recorded else config.step_problems,
        first_step=steps_done,
        episodes_per_step=episodes_per_step,
        sandbox_seconds=round(episodes * (turns * _TURN_SECONDS + _JUDGE_SECONDS)),
        recorded_steps=len(checked.recorded),
    )
