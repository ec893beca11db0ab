"""What a GRPO run is asked to do: one frozen record, checked in whole before anything is loaded.

The design decision: the record is made of layers (defaults for the kind of model, then the file, then the command
line), and what comes out has no holes: it is what `--print-config` shows, what the run directory keeps, and what a
resumed run is compared with. Fields of TRL's configuration without an option here are passed through under `set`.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from sandrl.addresses import refuse_password
from sandrl.bounds import LARGEST_WEIGHT, LONGEST_SECONDS, SHORTEST_SECONDS
from sandrl.errors import InputError, UsageError
from sandrl.rewards.extraction import Extraction
from sandrl.rewards.policies import Components
from sandrl.sandboxes import SandboxRequest
from sandrl.settings import ReportTo, RuntimeKind

TINY = "tiny"
"""The model that is built on the spot, and the problems it can learn."""

REAL_MODEL = "Qwen/Qwen2.5-0.5B-Instruct"

Option: TypeAlias = JsonValue


_Config = TypeVar("_Config", bound=BaseModel)

# Far more than a file of ours ever has.
_MOST_CONFIG_BYTES = 1 << 20


def refuse_empty_texts(config: _Config) -> _Config:
    """Refuses texts of nothing but blanks in any field of a configuration.

    Raises:
        ValueError: Naming the first field that has one.
    """
    for name in type(config).model_fields:
        value = getattr(config, name)
        texts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(text, str) and not text.strip() for text in texts):
            raise ValueError(f"{name}: must not be empty; leave it out")
    return config


class GrpoConfig(BaseModel):
    """The resolved configuration of a GRPO run.

    Attributes:
        model: `tiny`, a model id of the hub, or a directory of a model.
        problems: What to train on, as `--problems` takes it; a set with splits trains on `train`, evaluates on `test`.
        num_problems: How many of the problems to train on; all unless given.
        eval_problems: How many held-out problems to evaluate on before and after; 0 evaluates nothing.
        show_tests: How many checks of a problem its prompt shows.
        extract: Where in a completion its code is.
        reward: The policy that turns a verdict into a reward: a name, or `package.module:function`.
        format_reward: The weight of the component for a completion that is one `<answer>…</answer>`.
        length_penalty: The weight of the component against long completions.
        timeout_penalty: The weight of the component against timeouts.
        rollout: `single`: one answer. `tools`: several turns, with tools.
        tools: `code`: execute code and submit. `all`: shell and files, too.
        max_tool_calls: How many calls of tools an episode may have.
        steps: Optimizer steps.
        num_generations: Completions per problem and step: the size of a group.
        batch_size: Completions per step, over all processes; a multiple of `num_generations`.
        learning_rate: Of AdamW, per step.
        lr_schedule: How it changes over the run, one of transformers' schedulers.
        beta: Weight of the KL divergence from the model before training.
        temperature: Of sampling.
        max_completion_length: Most tokens of a completion.
        loss_type: TRL's name of the loss.
        lora: Train low-rank adapters instead of all weights.
        lora_rank: Their rank.
        use_vllm: Generate with vLLM in this process (`colocate`) or through its server.
        vllm_server_url: Where that server is.
        save_steps: Steps from one checkpoint to the next.
        keep_checkpoints: How many of them stay, the newest.
        seed: Decides what is sampled, in which order, and how the tiny policy begins.
        project: The W&B project, where W&B is reported to.
        report_to: Where metrics go besides the run directory.
        output_dir: Where checkpoints are kept; in the run directory unless given.
        timeout_seconds: Wall time for one completion with its checks.
        concurrency: Sandboxes at once; what suits the runtime unless given.
        max_sandboxes: How many sandboxes to hold at once, those included that are being stopped; None for no bound.
        warm_sandboxes: How many to create ahead of the next call for rewards at most, while the policy generates.
        retries: How often a completion is tried again when its sandbox failed.
        cache: Directory of verdicts of earlier runs; None keeps them within the run.
        require_isolated: No reward where the checks cannot be kept out of the completion's process.
        second_opinion: The share of failed isolated verdicts to judge again in one process; no reward changes.
        runtime: What runs the sandboxes.
        image: Their image; the runtime's own default unless given.
        packages: Installed packages the code may import (local runtime).
        tags: Tags of every sandbox, beside the workflow's own.
        set: Any other field of TRL's `GRPOConfig`, by name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    problems: str
    num_problems: int | None = Field(default=None, ge=1)
    eval_problems: int = Field(default=128, ge=0)
    show_tests: int = Field(default=1, ge=0)
    extract: Extraction = Extraction.AUTO
    reward: str = "binary"
    format_reward: float = Field(default=0.0, ge=0, le=LARGEST_WEIGHT)
    length_penalty: float = Field(default=0.0, ge=0, le=LARGEST_WEIGHT)
    timeout_penalty: float = Field(default=0.0, ge=0, le=LARGEST_WEIGHT)
    rollout: Literal["single", "tools"] = "single"
    tools: Literal["code", "all"] = "code"
    max_tool_calls: int = Field(default=4, ge=1)
    steps: int = Field(default=200, ge=1)
    num_generations: int = Field(default=8, ge=2)
    batch_size: int = Field(default=32, ge=2)
    learning_rate: float = Field(default=1e-6, ge=0, allow_inf_nan=False)
    lr_schedule: str = "constant"
    beta: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    temperature: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    max_completion_length: int = Field(default=512, ge=1)
    loss_type: Literal["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"] = "dapo"
    lora: bool = False
    lora_rank: int = Field(default=16, ge=1)
    use_vllm: Literal["colocate", "server"] | None = None
    vllm_server_url: str | None = None
    save_steps: int = Field(default=20, ge=1)
    keep_checkpoints: int = Field(default=3, ge=1)
    seed: int = Field(default=0, ge=0, lt=2**32)
    project: str | None = None
    report_to: ReportTo = ReportTo.AUTO
    output_dir: str | None = None
    timeout_seconds: float = Field(default=10.0, ge=SHORTEST_SECONDS, le=LONGEST_SECONDS, allow_inf_nan=False)
    concurrency: int | None = Field(default=None, ge=1)
    max_sandboxes: int | None = Field(default=None, ge=1)
    warm_sandboxes: int = Field(default=64, ge=0)
    retries: int = Field(default=2, ge=0)
    cache: str | None = None
    require_isolated: bool = False
    second_opinion: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    runtime: RuntimeKind = RuntimeKind.AUTO
    image: str | None = None
    packages: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    set: dict[str, JsonValue] = Field(default_factory=dict)

    _no_empty_texts = model_validator(mode="after")(refuse_empty_texts)

    @model_validator(mode="after")
    def _fits_together(self) -> GrpoConfig:
        if self.batch_size % self.num_generations:
            raise ValueError(
                f"batch_size: {self.batch_size} is no multiple of num_generations ({self.num_generations}):"
                " every group must be whole"
            )
        if self.vllm_server_url is not None and self.use_vllm != "server":
            raise ValueError("vllm_server_url: is only used with use_vllm = server")
        refuse_password(self.vllm_server_url or "", "vllm_server_url")
        return self

    @property
    def is_tiny(self) -> bool:
        """Whether the policy is the one that is built on the spot."""
        return self.model == TINY

    @property
    def components(self) -> Components:
        """What is rewarded besides correctness; part of the number that is trained on."""
        return Components(self.format_reward, self.length_penalty, self.timeout_penalty)

    @property
    def sandboxes(self) -> SandboxRequest:
        """Where the code runs."""
        return SandboxRequest(self.runtime, self.image, self.packages, self.tags, self.max_sandboxes)

    @property
    def groups(self) -> int:
        """How many problems a step has."""
        return self.batch_size // self.num_generations

    def document(self) -> dict[str, JsonValue]:
        """The configuration as plain JSON, every field with its value."""
        document: dict[str, JsonValue] = self.model_dump(mode="json")
        return document


TINY_DEFAULTS: Mapping[str, Option] = {
    "problems": TINY,
    "extract": Extraction.EXACT.value,
    "steps": 80,
    "batch_size": 128,
    # Faster, or at full speed from the start, some kinds of task are given up before a right answer was sampled.
    "learning_rate": 4e-4,
    "lr_schedule": "constant_with_warmup",
    "max_completion_length": 48,
    "save_steps": 10,
    # Gradients of rewards are noisy; a shorter memory of their size follows the policy's fast changes.
    "set": {"adam_beta2": 0.99, "entropy_coef": 0.005, "warmup_steps": 8},
}
"""What the tiny policy is trained with where nothing else is said."""

TINY_EPISODE_TOKENS = 160
"""How long an episode of the tiny policy may be, tool calls and observations included."""

REAL_DEFAULTS: Mapping[str, Option] = {
    "problems": "mbpp",
    # Four problems a step, in four parts: what a GPU of 24 GB holds for half a billion parameters.
    "set": {"gradient_accumulation_steps": 4},
}
"""What every other model is trained with where nothing else is said."""


def resolve(
    command_line: Mapping[str, Option],
    file: Mapping[str, Option] | None = None,
    *,
    default_model: str = TINY,
    further: Mapping[str, Option] | None = None,
) -> GrpoConfig:
    """Puts the layers of a configuration together.

    Args:
        command_line: What was given there; it beats the file.
        file: What the file of `--config` says; it beats the defaults.
        default_model: The model where neither names one.
        further: Defaults that beat those for the kind of model.

    Raises:
        UsageError: If a key is unknown or a value is impossible.
    """
    given: dict[str, Option] = {**(file or {}), **command_line}
    model = given.get("model", default_model)
    defaults = {**(TINY_DEFAULTS if model == TINY else REAL_DEFAULTS), **(further or {})}
    merged: dict[str, Option] = {"model": model, **defaults, **given}
    if model == TINY and merged.get("rollout") == "tools" and "max_completion_length" not in given:
        merged["max_completion_length"] = TINY_EPISODE_TOKENS
    merged["set"] = {
        name: value
        for layer in (defaults, file or {}, command_line)
        if isinstance(fields := layer.get("set", {}), dict)
        for name, value in fields.items()
    }
    try:
        return GrpoConfig.model_validate(merged)
    except ValidationError as error:
        raise UsageError(_first_problem(error), hint="--print-config shows every key") from error


def read_config_file(path: Path) -> dict[str, Any]:
    """Reads the file of `--config`: TOML, its keys those of `GrpoConfig`.

    Raises:
        InputError: If it cannot be read, or a key is unknown.
    """
    try:
        with path.open("rb") as stream:
            text = stream.read(_MOST_CONFIG_BYTES + 1)
        if len(text) > _MOST_CONFIG_BYTES:
            raise InputError(f"is larger than {_MOST_CONFIG_BYTES} bytes: no configuration", path=path)
        content = tomllib.loads(text.decode("utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not TOML: {error}", path=path) from error
    for key in content:
        if key not in GrpoConfig.model_fields:
            raise InputError(f"there is no such key{near(key, GrpoConfig.model_fields)}", path=path, field=key)
    if not isinstance(content.get("set", {}), dict):
        raise InputError("must be a table: [set]", path=path, field="set")
    return content


def changed_key(before: GrpoConfig, after: GrpoConfig) -> str | None:
    """The first key whose values differ; None if both are the same."""
    for key in GrpoConfig.model_fields:
        if key != "set" and getattr(before, key) != getattr(after, key):
            return key
    fields = [name for name in {**before.set, **after.set} if before.set.get(name) != after.set.get(name)]
    return fields[0] if fields else None


def to_toml(config: GrpoConfig) -> str:
    """The configuration as a file that `--config` reads; keys without a value are left out."""
    document = config.document()
    table = document.pop("set")
    lines = [f"{key} = {_toml(value)}" for key, value in document.items() if value is not None]
    if isinstance(table, dict) and table:
        lines += ["", "[set]", *(f"{key} = {_toml(value)}" for key, value in table.items() if value is not None)]
    return "\n".join(lines) + "\n"


def near(word: str, known: Iterable[str]) -> str:
    """Names the known word that may have been meant, as the end of a message; nothing if none comes close."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; is it {close[0]!r}?" if close else ""


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"there is no option {key!r}{near(key, GrpoConfig.model_fields)}"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{key}: {message}, not {problem['input']!r}" if key else message


def _toml(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # TOML's basic strings have JSON's escapes, and one more character to escape.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    return repr(value)
