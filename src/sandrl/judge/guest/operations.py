"""Operations that one process does on its objects for the other one, and the standard library's part in them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from sandrl.judge.guest.proxies import ARITHMETIC, CONVERSIONS, EQUALITY, IN_PLACE, ORDER, TEXT

LIBRARY = frozenset(getattr(sys, "stdlib_module_names", ("builtins", "json", "asyncio", "decimal", "queue", "re")))

# Questions that change nothing, as far as a check can expect.
LOOKING = frozenset(
    (
        *ORDER,
        *EQUALITY,
        *TEXT,
        *CONVERSIONS,
        "__hash__",
        "__bool__",
        "__len__",
        "__contains__",
        "plain",
        "state",
        "isinstance",
    )
)
# Operators of two operands; those of comparisons left out.
OPERATORS = frozenset(("__divmod__", "__idivmod__", *ARITHMETIC, *IN_PLACE))
# Modules of functions that do nothing but compute with what they are given.
COMPUTING = frozenset(("_operator", "math", "cmath"))


def own_dict(kind: Any) -> dict[str, Any]:
    return type.__dict__["__dict__"].__get__(kind)  # type: ignore[no-any-return]


def library_object(module: str, name: str) -> Any:
    """An object of the standard library, if its module is loaded here."""
    if module.partition(".")[0] not in LIBRARY:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def installed_error(module: str, name: str) -> Any:
    """A class of exceptions of an installed package, if its module is loaded here."""
    found: Any = sys.modules.get(module)
    origin = getattr(getattr(found, "__spec__", None), "origin", None)
    if type(origin) is not str or "-packages/" not in origin:
        return None
    found = found.__dict__.get(name)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def rebuilt_error(kind: Any, arguments: tuple[Any, ...], attributes: Any) -> BaseException:
    try:
        error: Any = kind(*arguments) if kind.__module__ == "builtins" else kind.__new__(kind, *arguments)
    except Exception:
        error = kind.__new__(kind)
    BaseException.args.__set__(error, arguments)  # type: ignore[attr-defined]
    if type(attributes) is dict:
        for name, value in attributes.items():
            try:
                setattr(error, name, value)
            except Exception:
                continue
    return error  # type: ignore[no-any-return]


def traceback_of(error: BaseException) -> Any:
    try:
        raise error
    except BaseException:
        return error.__traceback__


def signature_of(subject: Any) -> list[tuple[Any, ...]]:
    """The parameters of a function: name, kind, and a default in a list if there is one."""
    inspect = __import__("inspect")
    return [
        (each.name, int(each.kind), [] if each.default is inspect.Parameter.empty else [each.default])
        for each in inspect.signature(subject).parameters.values()
    ]


def rebuilt_signature(parameters: list[tuple[Any, ...]]) -> Any:
    inspect = __import__("inspect")
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect._ParameterKind(kind), default=default[0] if default else inspect._empty)
            for name, kind, default in parameters
        ]
    )


def place_among(result: object, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> int | str | None:
    """Where among its arguments a call's result is, if it is one of them."""
    for number, argument in enumerate(arguments):
        if argument is result:
            return number
    for name, argument in keywords.items():
        if argument is result:
            return name
    return None


def state_of(subject: Any) -> dict[str, Any]:
    state = dict(getattr(subject, "__dict__", {}))
    for kind in type(subject).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name[:2] != "__" and hasattr(subject, name):
                state[name] = getattr(subject, name)
    return state


def _operations() -> dict[str, Callable[..., Any]]:
    operator = __import__("_operator")
    found: dict[str, Callable[..., Any]] = {
        "__len__": len,
        "__iter__": iter,
        "__next__": next,
        "__reversed__": reversed,
        "__hash__": hash,
        "__bool__": bool,
        "__str__": lambda subject: str.__add__("", str(subject)),
        "__repr__": lambda subject: str.__add__("", repr(subject)),
        "__format__": lambda subject, how: str.__add__("", format(subject, how)),
        "__int__": int,
        "__float__": float,
        "__complex__": complex,
        "__abs__": abs,
        "__round__": round,
        "__bytes__": bytes,
        "__divmod__": divmod,
        "__pow__": pow,
        "__setitem__": operator.setitem,
        "isinstance": isinstance,
        "signature": signature_of,
        "issubclass": issubclass,
        "dir": dir,
        "state": state_of,
        "copy": lambda subject: __import__("copy").copy(subject),
        "deepcopy": lambda subject: __import__("copy").deepcopy(subject),
    }
    names: tuple[str, ...] = (
        "__getitem__",
        "__delitem__",
        "__contains__",
        "__index__",
        "__neg__",
        "__pos__",
        "__invert__",
    )
    names += ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__")
    for name in (*names, *ARITHMETIC, *IN_PLACE):
        plain = name.strip("_")
        found.setdefault(name, getattr(operator, plain + "_" if plain in ("and", "or") else plain))
    return found


OPERATIONS = _operations()
