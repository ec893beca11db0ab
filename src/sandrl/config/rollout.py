"""The configuration of `sandrl art rollout`."""

from __future__ import annotations

from typing import Annotated

from sandrl.config.episodes import EpisodesConfig, Steps
from sandrl.config.fields import MODEL, OUTPUT, PROBLEMS, TRAINING, Option
from sandrl.config.model import Count, LearningRate, Tries
from sandrl.config.parts import Problems
from sandrl.config.words import TINY

LOCAL_MODEL = "Qwen/Qwen2.5-3B-Instruct"
OPENAI_MODEL = "gpt-4o-mini"


class RolloutConfig(EpisodesConfig):
    """`sandrl art rollout`."""

    model: Annotated[
        str | None,
        Option(
            "What the endpoint calls the model.",
            MODEL,
            metavar="NAME",
            default=f"{LOCAL_MODEL}, with --use-openai {OPENAI_MODEL}; {TINY}, in this process, without an endpoint",
        ),
    ] = None
    use_openai: Annotated[bool, Option("Ask OpenAI, with the key in OPENAI_API_KEY.", MODEL)] = False
    base_url: Annotated[
        str | None,
        Option(
            "An OpenAI-compatible endpoint; its key, if any, is in OPENAI_API_KEY.",
            MODEL,
            metavar="URL",
            default="OPENAI_BASE_URL, else http://localhost:8000/v1 (vLLM's)",
        ),
    ] = None
    problems: Problems = "mbpp"
    num_problems: Annotated[Tries, Option("Only the first N problems; 0 for all.", PROBLEMS, metavar="N")] = 100
    problems_per_step: Annotated[Count, Option("Problems of a step.", TRAINING, metavar="N")] = 4
    steps: Steps = 10
    samples: Annotated[
        Count,
        Option("Episodes of each problem in a step: a group; training needs 2 or more.", TRAINING, metavar="N"),
    ] = 1
    learning_rate: Annotated[
        LearningRate,
        Option("Kept with the run, for a later training.", TRAINING, metavar="RATE"),
    ] = 2e-5
    project: Annotated[str, Option("Kept with the run; W&B's project, too.", OUTPUT, metavar="NAME")] = "aviato-rl-demo"

    @property
    def model_name(self) -> str:
        """Who plays, where the user did not say."""
        return self.model or (OPENAI_MODEL if self.use_openai else LOCAL_MODEL)

    @property
    def episodes(self) -> int:
        """How many episodes a step has."""
        return self.problems_per_step * self.samples
