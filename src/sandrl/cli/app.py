"""The `sandrl` command: its tree of commands, and the only place where errors become messages and exit codes.

Commands raise, and this module prints. A `SandrlError` is printed as its message and its hint, in two lines; so is the
import of a library that failed (`sandrl.extras.broken_library`). Any other exception is a bug of sandrl and is printed
as one. `sandrl.errors.ending_of` determines the exit code. To start fast, only the command that is called is imported;
help shows the summaries of the others, which are in the generated tree of commands.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from sandrl.cli.commands import MOST_COLUMNS, CheckedGroup, check_all
from sandrl.cli.flags import spell
from sandrl.cli.text import visible
from sandrl.errors import BUG_EXIT_CODE, SandrlError, ending_of


class _ReaderGone(Exception):
    # Nobody reads our output any more (`| head`).
    def __init__(self, error: BrokenPipeError) -> None:
        super().__init__()
        self.error = error


class _Commands(CheckedGroup):
    # Tells a closed pipe apart before Typer makes exit code 1 of it, which means something else here.
    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderGone(error) from error


_COMMANDS: Mapping[str, str] = {
    "reward": "sandrl.cli.reward:reward",
    "init": "sandrl.cli.init:init",
    "metrics": "sandrl.cli.metrics:metrics",
    "redteam": "sandrl.cli.redteam:redteam",
    "grpo": "sandrl.cli.grpo:grpo",
    "unsloth": "sandrl.cli.grpo:grpo",
    "eval": "sandrl.cli.eval:evaluate",
    "serve": "sandrl.cli.serve:serve",
    "view": "sandrl.cli.view:view",
    "doctor": "sandrl.cli.doctor:doctor",
    "problems": "sandrl.cli.problems:app",
    "policy": "sandrl.cli.policy:app",
    "prices": "sandrl.cli.prices:app",
    "art": "sandrl.cli.art:app",
    "tinker": "sandrl.cli.tinker:app",
    "runs": "sandrl.cli.run_commands:app",
    "runtime": "sandrl.cli.runtime:app",
    "sandboxes": "sandrl.cli.sandboxes:app",
    "images": "sandrl.cli.images:app",
}

# Typer carries its own copy of click in some releases; this is the class of all its complaints about a command line.
_ClickException: type[Exception] = typer.BadParameter.__mro__[2]


def _show_version(wanted: bool) -> None:
    if wanted:
        from sandrl.cli.versions import version_lines

        typer.echo("\n".join(version_lines()))
        raise typer.Exit


def _install_completion(wanted: bool) -> None:
    if wanted:
        from sandrl.cli.completion import scripts

        done = scripts.install(scripts.current_shell())
        typer.echo(f"Completion for {done.shell} is installed in {done.script}.")
        typer.echo("Open a new shell to use it" + (f", or: source {done.start_file}" if done.start_file else "."))
        raise typer.Exit


def _show_completion(wanted: bool) -> None:
    if wanted:
        from sandrl.cli.completion import scripts

        typer.echo(scripts.SCRIPTS[scripts.current_shell()], nl=False)
        raise typer.Exit


def options(
    debug: Annotated[bool, typer.Option("--debug", help="Print a traceback with every error.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Print the versions of sandrl (first line) and its dependencies, and exit.",
        ),
    ] = False,
    install_completion: Annotated[
        bool,
        typer.Option(
            "--install-completion",
            callback=_install_completion,
            is_eager=True,
            help="Install shell completion for the current shell (bash, zsh or fish) and exit.",
        ),
    ] = False,
    show_completion: Annotated[
        bool,
        typer.Option(
            "--show-completion",
            callback=_show_completion,
            is_eager=True,
            help="Print the shell completion script for the current shell and exit.",
        ),
    ] = False,
) -> None:
    """Reinforcement learning with rewards from code execution in isolated sandboxes."""
    if debug:
        os.environ["SANDRL_DEBUG"] = "1"


def application(*names: str) -> typer.Typer:
    """The command line with some of its commands; with all of them unless names are given."""
    app = _without_commands()
    for name in names or _COMMANDS:
        path, _, attribute = _COMMANDS[name].partition(":")
        module = importlib.import_module(path)
        found = getattr(module, attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found)
        else:
            # One function may have several names.
            app.command(name, help=getattr(module, "SUMMARIES", {}).get(name))(found)
    check_all(app)
    return app


def _without_commands() -> typer.Typer:
    app = typer.Typer(
        name="sandrl",
        cls=_Commands,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": MOST_COLUMNS},
    )
    app.callback()(options)
    return app


def _summaries() -> typer.Typer:
    # The command line as its own help needs it: its commands have summaries alone.
    from sandrl.cli.completion.answer import read_tree

    app = _without_commands()
    for name, node in read_tree()["commands"].items():
        app.command(name, help=node["help"])(lambda: None)
    return app


def _application_for(words: Sequence[str]) -> typer.Typer:
    command = next((word for word in words if not word.startswith("-")), None)
    if command is None:
        return _summaries()
    return application(command) if command in _COMMANDS else application()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line with these words, or those of this process; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character is no reason to lose a result.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        code = _application_for(words)(args=words, prog_name="sandrl", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except _ClickException as error:
        return _complain_of_usage(error)
    except _ReaderGone as error:
        return _complain_of(error.error)
    except typer.Abort:
        return _complain_of(KeyboardInterrupt())
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - a bug is reported in words, not as a traceback
        return _complain_of(error)


def _complain_of(error: BaseException) -> int:
    from sandrl.extras import broken_library

    error = broken_library(error) or error
    if isinstance(error, SandrlError):
        spell(error)
    ending = ending_of(error)
    if isinstance(error, KeyboardInterrupt):
        typer.echo("sandrl: interrupted", err=True)
    elif not isinstance(error, BrokenPipeError):
        _complain(error, ending.message, ending.hint)
    if isinstance(error, OSError) and ending.exit_code != BUG_EXIT_CODE:
        _give_up_output()
    return ending.exit_code


def _complain(error: BaseException, message: str, hint: str | None) -> None:
    if os.environ.get("SANDRL_DEBUG"):
        import traceback

        traceback.print_exception(error)
    # Where standard error cannot be written either, only the exit code is left to tell.
    with suppress(OSError):
        typer.echo(f"sandrl: error: {visible(message)}", err=True)
        if hint:
            typer.echo(f"  hint: {visible(hint)}", err=True)


def _complain_of_usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    _complain(error, message, f"{context.command_path if context is not None else 'sandrl'} --help")
    return int(getattr(error, "exit_code", 2))


def _give_up_output() -> None:
    # Keeps the interpreter from trying once more, and complaining, when it ends.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
