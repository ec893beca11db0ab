"""The configuration of `sandrl eval`; `eval --resume` reads it back from the run."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import model_validator

from sandrl.config.episodes import HELD_BY_AN_EPISODE
from sandrl.config.fields import GENERATION, MODEL, PROBLEMS, option
from sandrl.config.model import Count, Seed
from sandrl.config.parts import PROBLEMS_HELP, EndpointPart, EpisodePart, JudgePart, NumProblems, SamplingPart
from sandrl.config.scoring import ScoredRunConfig
from sandrl.config.words import BUNDLED, EpisodeKind

SAMPLES = 4
"""The default number of completions per problem, if they are sampled."""


class EvalConfig(EndpointPart, SamplingPart, EpisodePart, ScoredRunConfig, JudgePart):
    """`sandrl eval`."""

    short_help: ClassVar[str] = (
        "model base_url problems num_problems samples temperature max_tokens runtime fail_under resume json_"
        " verbose quiet config_file"
    )

    model: str | None = option(
        None,
        "The model to evaluate: `tiny`, a directory (a checkpoint), a Hugging Face model (OWNER/NAME), or a model"
        " name of the endpoint.",
        MODEL,
        metavar="MODEL",
        default="tiny; with --base-url, the endpoint's only model",
    )
    problems: str = option(
        BUNDLED,
        PROBLEMS_HELP,
        PROBLEMS,
        metavar="SET|FILE",
        values="problem_sets",
        default="tiny:test for the model `tiny`, else bundled",
    )
    num_problems: NumProblems = None
    samples: Count | None = option(
        None, "Completions per problem.", GENERATION, metavar="K", default=f"{SAMPLES}; greedy: 1"
    )
    use_model_sampling: bool = option(
        False, "Use the model's own generation settings, such as repetition_penalty and top_k.", GENERATION
    )
    batch_size: Count | None = option(
        None, "Completions generated at the same time.", GENERATION, metavar="N", default="64; endpoints: 32"
    )
    seed: Seed = option(0, "Random seed of the sampling.", GENERATION, metavar="N")

    @model_validator(mode="after")
    def _samples_differ(self) -> Self:
        if self.is_greedy and (self.samples or 1) > 1:
            raise ValueError("samples: all greedy completions of a problem are the same; leave it out")
        return self

    @model_validator(mode="after")
    def _cuts_what_is_sampled(self) -> Self:
        cuts = next((name for name in ("top_p", "top_k", "min_p") if getattr(self, name) is not None), None)
        if self.is_greedy and cuts is not None:
            raise ValueError(f"{cuts}: has no effect with temperature = 0; leave one of them out")
        return self

    @model_validator(mode="after")
    def _has_sandboxes_for_attempts(self) -> Self:
        has_tools = self.rollout is EpisodeKind.TOOLS
        name = "rollout" if has_tools else "max_attempts"
        if (has_tools or self.max_attempts > 1) and self.service is not None:
            raise ValueError(f"{name} cannot be used with service, which runs no episodes; leave one of them out")
        if self.max_attempts > 1 and self.max_sandboxes is not None and self.max_sandboxes < HELD_BY_AN_EPISODE:
            raise ValueError("max_sandboxes: must be 2 or more: attempts use one sandbox to work and one to judge")
        if has_tools and self.few_shot:
            raise ValueError("few_shot: examples are texts, and rollout = tools answers with a tool; leave it out")
        return self

    @model_validator(mode="after")
    def _has_settings_to_use(self) -> Self:
        if self.use_model_sampling and self.base_url is not None:
            raise ValueError("use_model_sampling: an endpoint chooses its settings itself; leave it out")
        if self.chat_template is not None and self.base_url is not None:
            raise ValueError("chat_template: an endpoint makes texts of conversations itself; leave it out")
        return self

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        return self.temperature == 0

    @property
    def answers(self) -> int:
        """How many answers each problem gets."""
        return self.samples or (1 if self.is_greedy else SAMPLES)
