"""The base of every configuration: frozen, without unknown keys, and plain JSON at the edges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from sandrl.bounds import LARGEST_WEIGHT, seconds_problem
from sandrl.config.budget import Budget
from sandrl.config.fields import options
from sandrl.quantities import bytes_of, seconds_of
from sandrl.settings import ReportTo, runtime_problem
from sandrl.suggestions import VALUES, near

# A completion may be ended at a line break.
_MAY_BE_BLANK = frozenset({"stop"})


class Config(BaseModel):
    """The resolved configuration of a command; every field has an `Option`."""

    # Most commands of a process are never run: their validators are built on use.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    short_help: ClassVar[str] = ""
    """The options of the short help, about a dozen names of fields and of parameters of the command's function.

    Empty: all of them.
    """

    @model_validator(mode="after")
    def _no_empty_texts(self) -> Self:
        for name in type(self).model_fields:
            value = getattr(self, name)
            texts = value if isinstance(value, tuple) else (value,)
            if any(isinstance(text, str) and not (text if name in _MAY_BE_BLANK else text.strip()) for text in texts):
                raise ValueError(f"{name} must not be empty; leave it out")
        return self

    def document(self) -> dict[str, JsonValue]:
        """The configuration as plain JSON, every field with its value."""
        document: dict[str, JsonValue] = self.model_dump(mode="json")
        return {name: document[name] for name, _ in options(type(self))}


def _refused(problem: Callable[[Any], str | None]) -> AfterValidator:
    # Refuses a value of which something is wrong, as the end of a sentence that begins with its field.
    def check(value: Any) -> Any:
        if found := problem(value):
            raise ValueError(found)
        return value

    return AfterValidator(check)


def _budget(text: str) -> str:
    Budget.parse(text)
    return text.strip()


RuntimeName: TypeAlias = Annotated[str, _refused(runtime_problem)]
"""The name of a runtime, or `ray:ADDRESS`."""


def tracker_words(value: object) -> object:
    """Names of trackers, which may be given as one word.

    Raises:
        ValueError: If there is no such tracker; the message is the end of a sentence.
    """
    words = [word.strip() for word in value.split(",")] if isinstance(value, str) else value
    for word in words if isinstance(words, list | tuple) else ():
        if word not in set(ReportTo):
            known = ", ".join(ReportTo)
            raise ValueError(f"names {word!r}; use one or more of {known}{near(str(word), ReportTo, VALUES)}")
    return words


def _trackers_problem(trackers: tuple[ReportTo, ...]) -> str | None:
    if not trackers:
        return "names no tracker; use none to report to none"
    if len(trackers) > 1 and ReportTo.NONE in trackers:
        return "names none and others; use one or the other"
    return "names one twice" if len({*trackers}) < len(trackers) else None


Trackers: TypeAlias = Annotated[tuple[ReportTo, ...], BeforeValidator(tracker_words), _refused(_trackers_problem)]
"""Where metrics go besides the run directory; an older run has one word for it."""

BudgetText: TypeAlias = Annotated[str, AfterValidator(_budget)]
"""Sandbox time or money, such as `2h` or `$5` (`sandrl.config.budget.Budget`)."""

Seconds: TypeAlias = Annotated[float, BeforeValidator(seconds_of), _refused(seconds_problem)]
"""A time limit, as a number or with a unit: long enough for something to run, short enough for a clock."""


def _from_anywhere(name: str) -> str:
    # The name of a reward, with the absolute path of its file if it has one: a run may be resumed elsewhere.
    file, _, function = name.rpartition(":")
    return f"{Path(file).expanduser().absolute()}:{function}" if file.endswith(".py") else name


RewardName: TypeAlias = Annotated[str, AfterValidator(_from_anywhere)]
"""The name of a reward policy, or of a function: `package.module:function` or `path/to/file.py:function`."""

LearningRate: TypeAlias = Annotated[float, Field(gt=0, le=9e18, allow_inf_nan=False)]

Weight: TypeAlias = Annotated[float, Field(ge=0, le=LARGEST_WEIGHT, allow_inf_nan=False)]

Share: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

Bytes: TypeAlias = Annotated[int, BeforeValidator(bytes_of), Field(ge=1, lt=2**63)]
"""A size, as a number or with a unit."""

Count: TypeAlias = Annotated[int, Field(ge=1, lt=2**63)]

HashSeed: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]
"""What the interpreter takes for PYTHONHASHSEED, with room for those after it."""

Tries: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]

Seed: TypeAlias = Annotated[int, Field(ge=0, lt=2**32)]

Port: TypeAlias = Annotated[int, Field(ge=0, lt=65536)]
