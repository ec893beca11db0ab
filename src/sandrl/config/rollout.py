"""The configuration of `sandrl art rollout`."""

from __future__ import annotations

from typing import ClassVar

from sandrl.config.episodes import EpisodesConfig, Steps
from sandrl.config.fields import MODEL, OUTPUT, PROBLEMS, TRAINING, option
from sandrl.config.model import Count, LearningRate, Tries
from sandrl.config.parts import BASE_URL_HELP, Problems
from sandrl.config.words import TINY

LOCAL_MODEL = "Qwen/Qwen2.5-3B-Instruct"
OPENAI_MODEL = "gpt-4o-mini"


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

    @property
    def model_name(self) -> str:
        """Who plays, where the user did not say."""
        return self.model or (OPENAI_MODEL if self.use_openai else LOCAL_MODEL)

    @property
    def episodes(self) -> int:
        """How many episodes a step has."""
        return self.problems_per_step * self.samples
