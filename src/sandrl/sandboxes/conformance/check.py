"""Checks of a provider, and the comparisons that they are made of.

Checks raise `Mismatch` themselves: an `assert` would check nothing in a process with `python -O`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sandrl.errors import UsageError
from sandrl.sandboxes.providers.protocol import Result

if TYPE_CHECKING:
    from sandrl.sandboxes.conformance.trial import Trial

Value = TypeVar("Value")
Failure = TypeVar("Failure", bound=BaseException)

_SHOWN_CHARACTERS = 120
_PAUSE_SECONDS = 0.05


class Mismatch(Exception):
    """A provider does not do what the protocol says; the text has what was expected and what was found."""


class DoesNotApply(Exception):
    """A runtime does not have what a check is about; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Check:
    """One behaviour that sandrl relies on in every provider.

    Attributes:
        name: Words with `-` between them.
        what: What must hold, in a sentence.
        function: Tries it. It raises `Mismatch` if it does not hold, `DoesNotApply` if the runtime does not have what
            it is about, and whatever else the provider raises, which is a failure too.
    """

    name: str
    what: str
    function: Callable[[Trial], None]


def check(function: Callable[[Trial], None]) -> Check:
    """Makes a check of a function: its name and its docstring are those of the check."""
    return Check(function.__name__.replace("_", "-"), " ".join((inspect.getdoc(function) or "").split()), function)


def expect(what: str, found: object, expected: object) -> None:
    """Fails unless two values are equal.

    Raises:
        Mismatch: If they differ.
    """
    if found != expected:
        raise Mismatch(f"{what}: expected {_shown(expected)}, found {_shown(found)}")


def expect_that(holds: bool, what: str, expected: str, found: object) -> None:
    """Fails unless something holds of a value.

    Raises:
        Mismatch: If it does not.
    """
    if not holds:
        raise Mismatch(f"{what}: expected {expected}, found {_shown(found)}")


def expect_error(what: str, kind: type[Failure], call: Callable[[], object]) -> Failure:
    """The error of a call that must fail with it.

    Raises:
        Mismatch: If it succeeds, or fails with another error.
    """
    try:
        found = call()
    except kind as error:
        return error
    except Exception as error:
        raise Mismatch(f"{what}: expected {kind.__name__}, found {named(error)}") from error
    raise Mismatch(f"{what}: expected {kind.__name__}, found no error but {_shown(found)}")


def expect_soon(what: str, probe: Callable[[], object], expected: object, *, seconds: float = 10.0) -> None:
    """Fails unless a value becomes equal to another one in time.

    Raises:
        Mismatch: If it does not.
    """
    ends_at = time.monotonic() + seconds
    while (found := probe()) != expected:
        if time.monotonic() > ends_at:
            expect(f"{what} after {seconds:g} s", found, expected)
        time.sleep(_PAUSE_SECONDS)


def applied(call: Callable[[], Value]) -> Value:
    """The value of a call that a runtime may refuse, as `UsageError` says.

    Raises:
        DoesNotApply: If it does.
    """
    try:
        return call()
    except UsageError as error:
        raise DoesNotApply(error.message) from error


def named(error: BaseException) -> str:
    """An error with its class."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _shown(value: object) -> str:
    if isinstance(value, Result):
        return f"exit code {value.exit_code}, output {_shown(value.stdout)}, errors {_shown(value.stderr)}"
    text = repr(value)
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    size = f" ({len(value)} bytes)" if isinstance(value, bytes) else ""
    return f"{text[:_SHOWN_CHARACTERS]}…{size}"
