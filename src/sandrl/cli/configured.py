"""Builds commands whose options are the fields of a configuration.

A command is a function of its configuration and of the few options that configure nothing (`--json`). This module
builds the command line: an option for every field, `--config` and `--print-config`, the layers, and errors with flags
in place of field names. So an option is declared once, in `sandrl.config`, and every command with that part has it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, Union, get_args, get_origin

import typer
from annotated_types import Ge, Le
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from sandrl.cli import notify
from sandrl.cli.completion import values
from sandrl.cli.flags import spell
from sandrl.cli.text import visible
from sandrl.cli.units import PARSERS
from sandrl.cli.verbosity import Quiet, Verbose, choose_verbosity
from sandrl.config.fields import KEY_VALUE, Option, flags, options
from sandrl.config.layers import parse_assignments, resolve
from sandrl.config.model import Config
from sandrl.config.parts import RunPart
from sandrl.config.toml import read_toml, to_toml
from sandrl.errors import SandrlError
from sandrl.quantities import size_text

ConfigT = TypeVar("ConfigT", bound=Config)

Body: TypeAlias = Callable[..., None]

_CONFIG = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE.toml", help="Read options from this file; the command line overrides it."),
]
_PRINT_CONFIG = Annotated[
    bool, typer.Option("--print-config", help="Print the resolved options in the format of --config, and exit.")
]


@dataclass(frozen=True, slots=True)
class CommandInput(Generic[ConfigT]):
    """What the user has given to a command.

    Attributes:
        command_line: What stands there, by field.
        file: What the file of `--config` says.
        wants_text: Whether the user wants to see the configuration and nothing else.
    """

    model: type[ConfigT]
    command_line: Mapping[str, Any]
    file: Mapping[str, Any]
    wants_text: bool = False

    def resolve(self, *below: Mapping[str, Any]) -> ConfigT:
        """The configuration.

        Raises:
            UsageError: If a value is impossible.
        """
        return resolve(self.model, *below, self.file, self.command_line)

    def prints(self, config: Config) -> bool:
        """Takes the resolved configuration; if that is wanted, prints it as a file and returns True."""
        notify.ask_for(config.notify if isinstance(config, RunPart) else None)
        if self.wants_text:
            typer.echo(to_toml(config), nl=False)
        return self.wants_text


def configured(
    model: type[ConfigT], *, resolved: Callable[[CommandInput[ConfigT]], ConfigT] = CommandInput.resolve
) -> Callable[[Body], Body]:
    """Makes a command of a function whose first parameter takes a configuration, made of what was given."""

    def decorate(body: Body) -> Body:
        def resolving(given: CommandInput[ConfigT], **others: Any) -> None:
            config = resolved(given)
            if not given.prints(config):
                body(config, **others)

        return _command(model, body, resolving)

    return decorate


def given_to(model: type[ConfigT]) -> Callable[[Body], Body]:
    """Makes a command of a function whose first parameter takes a `CommandInput`, to resolve it by itself.

    A parameter `context`, if it has one, takes the context of the command line; the others stay as they are.
    """
    return lambda body: _command(model, body, body)


def _command(model: type[Config], body: Body, called: Body) -> Body:
    _, *others = inspect.signature(body, eval_str=True).parameters.values()
    own = [parameter for parameter in others if parameter.name != "context"]

    def command(**words: Any) -> None:
        context: typer.Context = words["context"]
        file, wants_text = words["config_file"], words["print_config"]
        choose_verbosity(verbose=words["verbose"], quiet=words["quiet"])
        with notify.notifying(), spelled_for(model):
            given = CommandInput(
                model,
                {name: _read(name, option, words[name]) for name, option in options(model) if _is_given(context, name)},
                {} if file is None else read_toml(model, file),
                wants_text,
            )
            called(given, **{parameter.name: words[parameter.name] for parameter in others})

    parameters = [
        _parameter("context", typer.Context),
        *(_field_parameter(name, model.model_fields[name], option) for name, option in options(model)),
        *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
        _parameter("verbose", Verbose, False),
        _parameter("quiet", Quiet, False),
        _parameter("config_file", _CONFIG, None),
        _parameter("print_config", _PRINT_CONFIG, False),
    ]
    command.short_help_names = frozenset(model.short_help.split())  # type: ignore[attr-defined]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__name__, command.__doc__, command.__module__ = body.__name__, body.__doc__, body.__module__
    command.__wrapped__ = body  # type: ignore[attr-defined]
    return command


@contextmanager
def spelled_for(model: type[Config]) -> Iterator[None]:
    """In a `with` block, errors that name fields of a model are raised with the flags of the command line."""
    try:
        yield
    except SandrlError as error:
        spell(error, flags(model))
        raise


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT")


def _read(name: str, option: Option, value: Any) -> Any:
    if option.metavar == KEY_VALUE:
        return parse_assignments(name, value)
    if option.separator and isinstance(value, str):
        return [word.strip() for word in value.split(option.separator)]
    return value


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _field_parameter(name: str, field: FieldInfo, option: Option) -> inspect.Parameter:
    kind, bounds = _kind(field.annotation, field.metadata)
    is_list = get_origin(kind) in (tuple, dict)
    if is_list:
        # A table without assignments is JSON, which is one word.
        is_word = option.separator or (get_origin(kind) is dict and option.metavar != KEY_VALUE)
        kind = str if is_word else list[str]
    words: dict[str, Any] = {
        "help": visible(f"{option.help} Default: {option.default}." if option.default else option.help),
        "metavar": option.metavar or None,
        "autocompletion": getattr(values, option.values) if option.values else None,
        # That a switch is off goes without saying.
        "show_default": field.default is not False and not option.default,
        **bounds,
    }
    if "parser" in bounds:
        # The parser and the configuration check the value; what is a number, click would compare.
        for end in ("min", "max"):
            words.pop(end, None)
        if words["show_default"] and isinstance(field.default, int):
            words["show_default"] = size_text(field.default)
    default = None if is_list or field.is_required() else field.default
    if option.is_argument:
        shown: Any = typer.Argument(**words)
    else:
        spelled = option.flag or f"--{name.replace('_', '-')}"
        if kind is bool and "/" not in spelled:
            spelled = f"{spelled}/{_opposite(name, option)}"
        shown = typer.Option(spelled, *filter(None, [option.short]), rich_help_panel=option.panel, **words)
    annotation = kind if default is not None else kind | None
    return _parameter(name, Annotated[annotation, shown], default)


def _opposite(name: str, option: Option) -> str:
    _, _, second = option.flag.partition("/")
    return second or f"--no-{(option.flag or name).strip('-').replace('_', '-')}"


def _kind(annotation: Any, metadata: Sequence[Any] = ()) -> tuple[Any, dict[str, Any]]:
    # The plain type of a field, without None and what is attached to it; and the bounds that were attached.
    bounds: dict[str, Any] = {}
    for each in metadata:
        for rule in each.metadata if isinstance(each, FieldInfo) else [each]:
            if isinstance(rule, BeforeValidator) and rule.func in PARSERS:
                bounds["parser"] = PARSERS[rule.func]
            if isinstance(rule, Ge):
                bounds["min"] = rule.ge
            if isinstance(rule, Le):
                bounds["max"] = rule.le
    if get_origin(annotation) is Annotated:
        plain, *attached = get_args(annotation)
        kind, found = _kind(plain, attached)
        return kind, found | bounds
    if get_origin(annotation) is Union or NoneType in get_args(annotation):
        [annotation] = [each for each in get_args(annotation) if each is not NoneType]
        kind, found = _kind(annotation)
        return kind, found | bounds
    return annotation, bounds
