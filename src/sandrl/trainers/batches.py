"""Number of problems per batch of completions, and batch sizes that fit a set of problems.

TRL's sampler takes the problems of a batch together and drops an incomplete batch at the end of an epoch. A set with
fewer problems than one batch would therefore give no step and no error. This module detects that before a run starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from sandrl.config.grpo import GrpoConfig
from sandrl.errors import UsageError


@dataclass(frozen=True, slots=True)
class Division:
    """How the completions of a step are divided.

    Attributes:
        samples: Completions of a problem.
        accumulation: In how many passes a process computes the gradient of a step.
        passes_per_generation: For how many such passes completions are generated at once.
    """

    samples: int
    processes: int
    accumulation: int
    passes_per_generation: int

    @classmethod
    def of(cls, config: GrpoConfig, processes: int) -> Division:
        accumulation = count_of(config.set, "gradient_accumulation_steps", 1)
        passes = count_of(config.set, "steps_per_generation", accumulation)
        return cls(config.samples, processes, accumulation, passes)

    @property
    def parts(self) -> int:
        return self.processes * self.accumulation

    def problems(self, batch_size: int) -> int:
        """How many problems completions are generated for at once."""
        return batch_size * self.passes_per_generation // (self.accumulation * self.samples)

    def is_possible(self, batch_size: int) -> bool:
        """Whether passes are equal and groups whole."""
        generated = batch_size * self.passes_per_generation
        return not (
            batch_size % self.samples or batch_size % self.parts or generated % (self.accumulation * self.samples)
        )

    def largest(self, problems: int) -> int | None:
        """The most completions per step that so many problems allow; None if no number works."""
        most = problems * self.samples * self.accumulation // self.passes_per_generation
        sizes = range(most - most % self.samples, 0, -self.samples)
        return next((size for size in sizes if self.is_possible(size) and self.problems(size) <= problems), None)


def count_of(fields: Mapping[str, JsonValue], name: str, default: int) -> int:
    """A number of things among a user's typed fields of TRL's configuration.

    Raises:
        UsageError: If it is less than 1.
    """
    value = fields.get(name)
    count = default if value is None else int(str(value))
    if count < 1:
        raise UsageError(f"set {name}={count}: must be at least 1", fields=("set",))
    return count


def fitted(config: GrpoConfig, problems: int, *, processes: int) -> GrpoConfig:
    """The configuration with a batch that so many problems can fill: its own, or the largest smaller one."""
    division = Division.of(config, processes)
    if division.problems(config.batch_size) <= problems:
        return config
    size = division.largest(problems)
    return config if size is None else config.model_copy(update={"batch_size": size})


def check_filled(config: GrpoConfig, problems: int, *, processes: int) -> None:
    """Makes sure that there are problems enough for a step of a batch that can be divided.

    Raises:
        UsageError: If there are not; it says what would fit. Also if none is left for dynamic sampling.
    """
    division = Division.of(config, processes)
    wanted = division.problems(config.batch_size)
    if wanted < problems or (wanted == problems and not config.dynamic_sampling):
        return
    if wanted == problems:
        raise no_further_problems(problems, config.batch_size)
    raise UsageError(
        f"batch_size {config.batch_size} with {config.samples} samples needs {wanted} problems per batch, and the"
        f" training set has {problems}: the training would have zero steps",
        hint=_what_fits(config, division, problems),
        fields=("batch_size", "samples", "set"),
    )


def check_ranked(config: GrpoConfig, *, processes: int) -> None:
    """Makes sure that each process has whole groups, where their answers are ranked.

    Raises:
        UsageError: If it has not.
    """
    division = Division.of(config, processes)
    own = config.batch_size * division.passes_per_generation // division.parts
    if config.judge_ranking and processes > 1 and (own % config.samples or config.dynamic_sampling):
        raise UsageError(
            f"judge_ranking: {processes} processes would divide groups of {config.samples} samples among them",
            hint="use a batch_size that is a multiple of processes times `samples`, and no dynamic_sampling",
            fields=("judge_ranking", "batch_size", "samples", "dynamic_sampling"),
        )


def no_further_problems(problems: int, batch_size: int) -> UsageError:
    """What is wrong with dynamic sampling where each batch has all problems."""
    return UsageError(
        f"dynamic_sampling: a batch of {batch_size} completions already has all {problems} problems, so no group can be"
        " replaced",
        hint="use more problems or a smaller `batch_size`, or leave it out",
        fields=("dynamic_sampling", "batch_size"),
    )


def _what_fits(config: GrpoConfig, division: Division, problems: int) -> str:
    choices = []
    size = division.largest(problems)
    if size is not None:
        choices.append(f"`batch_size` {size}")
    for samples in range(config.samples + 1, config.batch_size + 1):
        other = Division(samples, division.processes, division.accumulation, division.passes_per_generation)
        if other.is_possible(config.batch_size) and other.problems(config.batch_size) <= problems:
            choices.append(f"`samples` {samples}")
            break
    if not choices and division.accumulation > 1:
        choices.append("`set` gradient_accumulation_steps=1")
    return "use " + ", or ".join(choices) if choices else "use more problems, or fewer processes"


def evaluation_batch(problems: int, answers: int, *, processes: int, most: int) -> int:
    """How many completions a process evaluates at once: whole groups of answers, in as few equal batches as possible.

    `most` is how many completions a process may have at once, if that is enough for a group.
    """
    whole = answers // math.gcd(answers, processes)
    most = max(most // whole, 1) * whole
    batches = max(math.ceil(problems * answers / (processes * most)), 1)
    return max(math.ceil(problems * answers / (processes * batches * whole)), 1) * whole


def missing_problems(problems: int, answers: int, *, processes: int, batch: int) -> int:
    """How many rows a dataset of problems lacks for batches of equal size in all processes."""
    if processes == 1:
        return 0
    batches = math.ceil(problems * answers / (processes * batch))
    return batches * processes * batch // answers - problems
