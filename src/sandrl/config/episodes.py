"""The configuration of `sandrl art rollout`, and what `art train` shares with it: how episodes run."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self, TypeAlias

from pydantic import model_validator

from sandrl.config.fields import EPISODES, MODEL, OUTPUT, PROBLEMS, SCORING, SECONDS, TRAINING, Option, option
from sandrl.config.model import Count, LearningRate, Seconds, Tries
from sandrl.config.parts import (
    BASE_URL_HELP,
    CachePart,
    EndpointPart,
    EpisodePart,
    GroupJudgePart,
    LockPart,
    MappingPart,
    Problems,
    QualityPart,
    RunPart,
    SamplingPart,
    SandboxesPart,
    SkipBadRows,
)
from sandrl.config.words import TINY, EpisodeKind

LOCAL_MODEL = "Qwen/Qwen2.5-3B-Instruct"
OPENAI_MODEL = "gpt-4o-mini"

CONCURRENCY, TASKS_AT_ONCE = 32, 256
"""The default number of episodes that run at the same time, and of those on tasks, which wait for their machines."""

HELD_BY_AN_EPISODE = 2
"""How many sandboxes an episode in attempts has at most: one to work in, and one in which it is judged."""

Steps: TypeAlias = Annotated[Count, Option("Total number of steps.", TRAINING, metavar="N")]


def at_once(config: SandboxesPart, episodes: int, *, has_tasks: bool = False) -> int:
    """How many of these are played at once: never so many that all wait for a sandbox to be judged in."""
    most = config.concurrency or (TASKS_AT_ONCE if has_tasks else CONCURRENCY)
    if config.max_sandboxes is not None:
        most = min(most, config.max_sandboxes // HELD_BY_AN_EPISODE)
    return min(most, episodes)


class EpisodesConfig(
    RunPart,
    SandboxesPart,
    EndpointPart,
    SamplingPart,
    EpisodePart,
    CachePart,
    GroupJudgePart,
    MappingPart,
    LockPart,
    QualityPart,
):
    """A run whose work is to play episodes, step by step.

    Each command adds its fields `problems`, `steps` and `samples` (episodes of each problem in a step), with defaults
    and bounds of its own, and its own measure of a step: problems for `art rollout`, episodes for `art train`.
    """

    skip_bad_rows: SkipBadRows = False
    timeout_seconds: Seconds | None = option(
        None,
        "Time limit for one command of an episode, and for a solution and its checks. Default: 10 seconds; for a"
        " solution, cases and calls that pass do not count, up to 120 seconds in total.",
        SCORING,
        metavar=SECONDS,
        flag="--timeout",
    )

    max_attempts: Count = option(
        3, "Maximum number of answers in an episode of `--rollout attempts`.", EPISODES, metavar="N"
    )

    @model_validator(mode="after")
    def _has_examples_to_show(self) -> Self:
        if self.few_shot and self.rollout is EpisodeKind.TOOLS:
            raise ValueError("few_shot: examples are texts, and rollout = tools answers with a tool; leave it out")
        return self

    @model_validator(mode="after")
    def _has_room_to_judge(self) -> Self:
        if self.max_sandboxes is not None and self.max_sandboxes < HELD_BY_AN_EPISODE:
            raise ValueError("max_sandboxes: must be 2 or more; an episode uses one sandbox to work and one to judge")
        return self


class RolloutConfig(EpisodesConfig):
    """`sandrl art rollout`."""

    short_help: ClassVar[str] = (
        "model base_url problems num_problems steps samples rollout max_attempts runtime run_name json_ verbose"
        " quiet config_file"
    )

    model: str | None = option(
        None,
        "The model that acts in the episodes, by its name at the endpoint.",
        MODEL,
        metavar="NAME",
        default=f"{LOCAL_MODEL}; with --use-openai: {OPENAI_MODEL}; without an endpoint: {TINY}, in this process",
    )
    use_openai: bool = option(False, "Use OpenAI's endpoint; the key is read from OPENAI_API_KEY.", MODEL)
    base_url: str | None = option(
        None, BASE_URL_HELP, MODEL, metavar="URL", default="OPENAI_BASE_URL, else http://localhost:8000/v1 (vLLM's)"
    )
    problems: Problems = "mbpp"
    num_problems: Tries = option(100, "Use only the first N problems; 0: all.", PROBLEMS, metavar="N")
    problems_per_step: Count = option(4, "Number of problems per step.", TRAINING, metavar="N")
    steps: Steps = 10
    samples: Count = option(
        1,
        "Episodes per problem in a step: the size of a group. Training on them needs 2 or more.",
        TRAINING,
        metavar="N",
    )
    learning_rate: LearningRate = option(
        2e-5, "Learning rate, saved with the run for a later training; not used here.", TRAINING, metavar="RATE"
    )
    project: str = option(
        "aviato-rl-demo", "Project name, saved with the run and used for W&B.", OUTPUT, metavar="NAME"
    )

    @model_validator(mode="after")
    def _asks_an_endpoint(self) -> Self:
        if self.chat_template is not None:
            raise ValueError("chat_template: an endpoint makes texts of conversations itself; leave it out")
        return self

    @property
    def model_name(self) -> str:
        """Who plays, where the user did not say."""
        return self.model or (OPENAI_MODEL if self.use_openai else LOCAL_MODEL)

    @property
    def episodes(self) -> int:
        """How many episodes a step has."""
        return self.problems_per_step * self.samples
