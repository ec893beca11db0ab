"""How users see a field of a configuration: its help text, its flag, and its panel in the help."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec

from pydantic import BaseModel, Field

from sandrl.suggestions import folded, meant

_P = ParamSpec("_P")

PROBLEMS = "Problems"
MODEL = "Model"
SCORING = "Scoring"
REWARD = "Reward"
TRAINING = "Training"
GENERATION = "Generation"
EPISODES = "Episodes"
SANDBOXES = "Sandboxes"
SERVICE = "Service"
OUTPUT = "Output"

KEY_VALUE = "KEY=VALUE"
"""The metavar of tables."""

SECONDS = "SECONDS|2m"
"""The metavar of times: a number of seconds, or a number with a unit."""

BYTES = "BYTES|1G"
"""The metavar of sizes: a number of bytes, or a number with a unit."""

PANELS = (PROBLEMS, SERVICE, MODEL, TRAINING, GENERATION, EPISODES, SCORING, REWARD, SANDBOXES, OUTPUT)
"""In the order in which help and files show them."""


@dataclass(frozen=True, slots=True)
class Option:
    """The words of a field, attached to its type with `Annotated`, or beside its default with `option`.

    Attributes:
        help: What it means, in one sentence.
        panel: The panel of the help.
        metavar: What stands for the value; the type's own word if empty.
        flag: The option; `--` and the name of the field if empty. A field that is on or off also has its opposite:
            `--x/--no-x`.
        short: A second spelling, of one letter.
        values: The source of words to complete it with, a function of `sandrl.cli.completion.values`.
        separator: What stands between the values of a list that is given as one word; repeated options if empty.
        default: What the default depends on, where it is not the same for all.
        is_argument: Whether it is a word without a flag.
    """

    help: str
    panel: str
    metavar: str = ""
    flag: str = ""
    short: str = ""
    values: str = ""
    separator: str = ""
    default: str = ""
    is_argument: bool = False


def _field(words: Callable[_P, Option]) -> Callable[Concatenate[Any, _P], Any]:
    def declare(value: Any, /, *positional: _P.args, **named: _P.kwargs) -> Any:
        declared = Field(value)
        declared.metadata.append(words(*positional, **named))
        return declared

    return declare


option = _field(Option)
"""Declares a field by its default and the words of an `Option`: `retries: Tries = option(2, "Number of …", SCORING)`"""


def options(model: type[BaseModel]) -> Iterator[tuple[str, Option]]:
    """The fields of a model by name, panel by panel, with their words.

    Raises:
        TypeError: If a field has none.
    """
    found: list[tuple[str, Option]] = []
    for name, field in model.model_fields.items():
        words = next((each for each in field.metadata if isinstance(each, Option)), None)
        if words is None:
            raise TypeError(f"{model.__name__}.{name} has no Option")
        found.append((name, words))
    yield from sorted(found, key=lambda pair: PANELS.index(pair[1].panel))


def flag(name: str, option: Option) -> str:
    """How a field is spelled on the command line, without the opposite of a switch."""
    if option.is_argument:
        return option.metavar or name.upper()
    return (option.flag or f"--{name.replace('_', '-')}").partition("/")[0]


def flags(model: type[BaseModel]) -> Mapping[str, str]:
    """The spelling of every field of a model on the command line."""
    return {name: flag(name, option) for name, option in options(model)}


def key_meant(model: type[BaseModel], key: str, *, without: Container[str] = ()) -> str | None:
    """The field that was probably meant by an unknown key, which may be spelled as its flag; None if none fits."""
    names = {folded(flag(name, option)): name for name, option in options(model)}
    names |= {name: name for name in model.model_fields}
    names = {spelled: name for spelled, name in names.items() if name not in without}
    found = meant(key, names)
    return None if found is None else names[found.name]


def near_key(model: type[BaseModel], key: str, *, without: Container[str] = ()) -> str:
    """Names the field that was probably meant by an unknown key, as the end of a message; see `key_meant`."""
    found = key_meant(model, key, without=without)
    return "" if found is None else f"; did you mean {found!r}?"
