"""The configuration of `sandrl grpo` and `sandrl unsloth`.

A resumed run is compared with this configuration field by field. Fields of TRL's `GRPOConfig` that have no option here
are passed through `set`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from sandrl.addresses import check_address, refuse_password
from sandrl.bounds import LARGEST_WEIGHT
from sandrl.config.fields import (
    EPISODES,
    GENERATION,
    KEY_VALUE,
    OUTPUT,
    PROBLEMS,
    SANDBOXES,
    SCORING,
    TRAINING,
    Option,
    option,
)
from sandrl.config.model import Count, Seed, Tries, Weight
from sandrl.config.parts import (
    EXTRACT_HELP,
    MIXTURE_HELP,
    TOOL_CALLS_HELP,
    CachePart,
    DynamicSampling,
    GroupJudgePart,
    LockPart,
    MappingPart,
    MaskTruncated,
    QualityPart,
    QuestionPart,
    ReportTraining,
    RunPart,
    Samples,
    SandboxesPart,
    SchedulePart,
    ShowTests,
    SkipBadRows,
    Tools,
    check_groups,
)
from sandrl.config.words import PLAIN_TEMPLATE, TINY, Extraction, Overlap, ToolSet
from sandrl.settings import ReportTo

TOOL_CALLS, TASK_TOOL_CALLS = 4, 20
"""The default number of tool calls in an episode, and in one on a task."""


class GrpoConfig(
    RunPart, SandboxesPart, QuestionPart, CachePart, GroupJudgePart, MappingPart, LockPart, QualityPart, SchedulePart
):
    """`sandrl grpo` and `sandrl unsloth`, resolved."""

    short_help: ClassVar[str] = (
        "model problems steps samples batch_size learning_rate max_tokens eval_every lora vllm runtime run_name"
        " resume dry_run config_file"
    )

    model: Annotated[
        str,
        Option(
            "The model to train: `tiny`, a Hugging Face model (OWNER/NAME), or a directory. Default: `tiny` without a"
            " GPU, else Qwen/Qwen2.5-0.5B-Instruct (`unsloth`: in 4 bits).",
            TRAINING,
            metavar="MODEL",
        ),
    ]
    init_from: str | None = option(
        None,
        "Start from the weights of an earlier run: its last checkpoint, or the given one. The options of that run"
        " become the defaults.",
        TRAINING,
        metavar="RUN|CHECKPOINT",
        values="run_names",
    )
    problems: Annotated[
        str,
        Option(
            f"{MIXTURE_HELP} Default: `tiny` for the tiny policy, else `mbpp`.",
            PROBLEMS,
            metavar="SET|FILE",
            values="problem_sets",
        ),
    ]
    skip_bad_rows: SkipBadRows = False
    num_problems: Count | None = option(None, "Train on N problems; default: all.", PROBLEMS, metavar="N")
    eval_problems: Tries = option(
        128,
        "Number of held-out problems for the evaluations before and after training; 0 disables evaluation.",
        PROBLEMS,
        metavar="N",
    )
    eval_set: str | None = option(
        None,
        "Evaluate on this set instead of holding out problems from --problems.",
        PROBLEMS,
        metavar="SET|FILE",
        values="problem_sets",
    )
    decontaminate: bool = option(
        False, "Leave out training problems that have long runs of words in common with evaluation problems.", PROBLEMS
    )
    eval_every: Count | None = option(
        None, "Also evaluate after every N steps.", TRAINING, metavar="N", default="only before and after training"
    )
    eval_samples: Count = option(1, "Sampled completions per held-out problem in evaluations.", GENERATION, metavar="K")
    eval_greedy: bool | None = option(
        None, "Also evaluate a greedy completion of each held-out problem.", GENERATION, default="on with --eval-every"
    )
    show_tests: ShowTests = 1
    extract: Extraction = option(Extraction.AUTO, EXTRACT_HELP, SCORING, default="exact for `tiny`, else auto")
    steps: Count = option(200, "Number of optimizer steps.", TRAINING, metavar="N", default="80 for `tiny`, else 200")
    samples: Samples = 8
    batch_size: Annotated[int, Field(ge=2, lt=2**63)] = option(
        32,
        "Completions per step, over all processes.",
        TRAINING,
        metavar="N",
        default="128 for `tiny`, else 32; fewer if the set is small",
    )
    dynamic_sampling: DynamicSampling = 0
    mask_truncated: MaskTruncated = False
    learning_rate: Annotated[float, Field(ge=0, le=9e18, allow_inf_nan=False)] = option(
        1e-6, "Learning rate of the AdamW optimizer.", TRAINING, metavar="RATE", default="4e-4 for `tiny`, else 1e-6"
    )
    lr_schedule: str = option(
        "constant",
        "Schedule of the learning rate: constant, linear, cosine, …",
        TRAINING,
        metavar="NAME",
        default="constant_with_warmup for `tiny`, else constant",
    )
    beta: Weight = option(0.0, "Weight of the KL term of the loss.", TRAINING, metavar="WEIGHT")
    loss_type: Literal["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"] = option(
        "dapo", "Loss function, by TRL's name.", TRAINING
    )
    lora: bool = option(
        False, "Train LoRA adapters instead of all weights.", TRAINING, default="on with `unsloth`, else off"
    )
    lora_rank: Count = option(16, "Rank of the LoRA adapters.", TRAINING, metavar="N")
    seed: Seed = option(0, "Random seed of the whole training.", TRAINING, metavar="N")
    temperature: Annotated[float, Field(gt=0, le=LARGEST_WEIGHT, allow_inf_nan=False)] = option(
        1.0, "Sampling temperature.", GENERATION, metavar="T"
    )
    max_tokens: Count = option(
        512,
        "Maximum length of a completion, in tokens.",
        GENERATION,
        metavar="N",
        default="48 for `tiny` (160 with tools), else 512",
    )
    rollout: Literal["single", "tools"] = option(
        "single", "Kind of rollout: `single`, one completion; `tools`, several turns with tool calls.", EPISODES
    )
    tools: Tools = ToolSet.CODE
    max_tool_calls: Count | None = option(
        None, TOOL_CALLS_HELP, EPISODES, metavar="N", default=f"{TASK_TOOL_CALLS} for tasks, else {TOOL_CALLS}"
    )
    vllm: Literal["server", "colocate"] | None = option(
        None, "Generate with vLLM: `server` uses a vLLM server, `colocate` the GPU that trains.", GENERATION
    )
    vllm_server_url: str | None = option(
        None, "Address of the vLLM server, for `--vllm server`.", GENERATION, metavar="URL"
    )
    overlap: Overlap = option(
        Overlap.NONE,
        "Judge answers while others are generated (`answers`), or also while the step before theirs is trained (`step`:"
        " the policy learns from answers that are one step old).",
        TRAINING,
    )
    warm_sandboxes: Tries = option(
        64, "Maximum number of sandboxes created in advance, while the policy generates.", SANDBOXES, metavar="N"
    )
    save_steps: Count = option(
        20, "Number of steps between checkpoints.", OUTPUT, metavar="N", default="10 for `tiny`, else 20"
    )
    keep_checkpoints: Count = option(
        3, "Number of latest checkpoints to keep, in addition to the best one.", OUTPUT, metavar="N"
    )
    output_dir: Path | None = option(
        None, "Directory for checkpoints; default: the run directory.", OUTPUT, metavar="DIR"
    )
    project: str | None = option(None, "Project name for W&B.", OUTPUT, metavar="NAME")
    report_to: ReportTraining = (ReportTo.AUTO,)
    set: Annotated[
        dict[str, JsonValue],
        Field(default_factory=dict),
        Option("Set another field of TRL's GRPOConfig; repeatable.", TRAINING, metavar=KEY_VALUE),
    ]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        check_groups(self.batch_size, self.samples)
        if self.vllm_server_url is not None:
            if self.vllm != "server":
                raise ValueError("vllm_server_url: requires vllm = server; set vllm, or leave vllm_server_url out")
            check_address(self.vllm_server_url, "vllm_server_url", hint="for example http://localhost:8000")
            refuse_password(self.vllm_server_url, "vllm_server_url")
        for name in ("eval_every", "eval_set", "decontaminate"):
            if getattr(self, name) and not self.eval_problems:
                raise ValueError(f"{name}: has no effect with eval_problems = 0; leave one of them out")
        return self

    @model_validator(mode="after")
    def _can_overlap(self) -> Self:
        if self.overlap is Overlap.NONE:
            return self
        if self.rollout == "tools":
            raise ValueError("overlap: episodes with tools work in sandboxes while they are generated; leave it out")
        if self.overlap is Overlap.STEP and self.dynamic_sampling:
            raise ValueError(
                "overlap: with step, a batch is generated before the last one has rewards, so dynamic_sampling cannot"
                " replace its groups; use overlap = answers, or leave dynamic_sampling out"
            )
        is_batched = self.vllm is not None or self.set.get("use_transformers_continuous_batching")
        if self.overlap is Overlap.ANSWERS and is_batched:
            raise ValueError(
                "overlap: vLLM and continuous batching return answers together, so `answers` has no effect; use step"
            )
        return self

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        # What TRL's trainer cannot do is refused.
        if self.max_attempts > 1:
            raise ValueError(
                "max_attempts: TRL generates one answer for each completion; `sandrl art train` trains on several,"
                " and with rollout = tools the policy can try its code"
            )
        if self.few_shot and self.rollout == "tools":
            raise ValueError("few_shot: examples are texts, and rollout = tools answers with a tool; leave it out")
        if self.chat_template == PLAIN_TEMPLATE and self.rollout == "tools":
            raise ValueError("rollout: tools need a chat template, and chat_template is plain; leave one of them out")
        other = next((name for name in self.extra_body if name != "chat_template_kwargs"), None)
        if other is not None:
            raise ValueError(f"extra_body: TRL takes only chat_template_kwargs of it, not {other}; leave it out")
        if self.stop and self.vllm is None:
            raise ValueError("stop: TRL has stop strings only with vllm; set vllm, or leave stop out")
        twice = next((name for name in self.trl_sampling if name in self.set), None)
        if twice is not None:
            raise ValueError(f"set: {twice} also has an option of its own; leave one of them out")
        return self

    @property
    def trl_sampling(self) -> dict[str, JsonValue]:
        """How TRL is to ask, by the names of its own fields."""
        settings: dict[str, JsonValue] = {"top_p": self.top_p, "top_k": self.top_k, "min_p": self.min_p}
        found = {name: value for name, value in settings.items() if value is not None} | self.extra_body
        return found | ({"generation_kwargs": {"stop": list(self.stop)}} if self.stop else {})

    @property
    def trl_fields(self) -> dict[str, JsonValue]:
        """Fields of TRL's configuration beyond those that other options set."""
        return {**self.set, **self.trl_sampling}

    @property
    def is_tiny(self) -> bool:
        """Whether the policy is the one that is built on the spot."""
        return self.model == TINY

    def is_evaluated_after(self, step: int) -> bool:
        """Whether the policy is evaluated once it has had so many steps."""
        return step in (0, self.steps) or (self.eval_every is not None and step % self.eval_every == 0)

    @property
    def has_greedy_answers(self) -> bool:
        """Whether evaluations have a greedy answer to each problem, besides sampled ones."""
        return self.eval_every is not None if self.eval_greedy is None else self.eval_greedy

    @property
    def groups(self) -> int:
        """How many problems a step has."""
        return self.batch_size // self.samples
