"""The completion's process in isolation: it runs the code, then does what the judge asks of its objects."""

# The style is explained in `descriptors.py`.
# ruff: noqa: BLE001, SIM105, UP037

import sys

MYPY = False
if MYPY:
    from collections.abc import Callable
    from typing import Any

    from sandrl.rewards.guest.child import Request, Say
if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.channel import BINARY, COMPARISONS, INTERRUPT, Channel, no_number
    from sandrl.rewards.guest.child import (
        MODULE_NAME,
        blame,
        completion_lines,
        describe,
        finish,
        fresh_module,
        run_top_level,
    )
    from sandrl.rewards.guest.clock import Interruption
    from sandrl.rewards.guest.values import MAX_DEPTH_ASKED, Opaque, Unsendable, decode, encode


class Objects:
    """The completion's objects that the judge holds stand-ins of."""

    def __init__(self) -> None:
        self.by_number: "list[object]" = []
        self.numbers: "dict[int, int]" = {}

    def number_of(self, value: object) -> int:
        """The number that stands for an object, the same for the same object."""
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.by_number)
            self.by_number.append(value)
        return number

    def find(self, number: int, is_callable: bool, name: str) -> object:
        """The object behind a number."""
        return self.by_number[number]


def describe_exception(error: BaseException) -> "tuple[str, tuple[object, ...], str, str]":
    """What the judge is told of an exception: the builtin it is a kind of, its arguments, a description, its status."""
    name = "Exception"
    for kind in type(error).__mro__:
        if kind.__module__ == "builtins":
            name = kind.__name__
            break
    lines = completion_lines(error)
    plain = tuple(item for item in error.args if type(item) in (str, int, float, bool))
    return name, plain, describe(error, lines[-1] if lines else None), blame(error)


def place_of(result: object, arguments: "tuple[object, ...]", keywords: "dict[str, object]") -> "int | str | None":
    """Where among its arguments a call's result is, if it is one of them."""
    for number, argument in enumerate(arguments):
        if argument is result:
            return number
    for name, argument in keywords.items():
        if argument is result:
            return name
    return None


def serve(namespace: "dict[str, Any]", channel: Channel, interruption: "Interruption | None") -> None:
    """Answers the judge's requests until it closes the channel.

    Args:
        namespace: What the completion defined.
        channel: To the judge.
        interruption: How the judge ends what takes too long, if that is limited.
    """
    objects = Objects()

    def answer(operation: str, subject: "Any", arguments: "tuple[Any, ...]", keywords: "dict[str, Any]") -> object:
        if operation == "call":
            made = subject(*arguments, **keywords)
            # What a check makes of a class it means to use as one, even if that class is a kind of list.
            return Opaque(made) if isinstance(subject, type) and type(made).__module__ == MODULE_NAME else made
        if operation == "global":
            value = namespace[arguments[0]]
            return ("module", value.__name__) if type(value) is type(sys) else ("value", value)
        if operation == "names":
            return [name for name in namespace if type(name) is str and name[:2] != "__"]
        if operation == "get":
            return getattr(subject, arguments[0])
        if operation == "set":
            setattr(subject, arguments[0], arguments[1])
            return None
        if operation == "isinstance":
            return isinstance(arguments[0], subject)
        return OPERATIONS[operation](subject, *arguments)

    while True:
        try:
            request = channel.receive()
        except EOFError:
            return
        try:
            operation, subject, arguments, keywords = decode(request, objects.find, MAX_DEPTH_ASKED)
            before = encode((arguments, keywords), objects.number_of, MAX_DEPTH_ASKED)
            if interruption is None:
                result = answer(operation, subject, arguments, keywords)
            else:
                interruption.is_open = True
                result = answer(operation, subject, arguments, keywords)
                interruption.is_open = False
            after = encode((arguments, keywords), objects.number_of, MAX_DEPTH_ASKED)
            changed = (arguments, keywords) if before != after else None
            same = place_of(result, arguments, keywords) if operation == "call" else None
            reply = encode((True, result if same is None else None, changed, same), objects.number_of)
        except Unsendable as error:
            why = f"the result cannot be judged: {error}"
            reply = encode((False, ("ValueError", (), why, "failed"), None, None), no_number)
        except BaseException as error:
            if interruption is not None:
                interruption.is_open = False
            reply = encode((False, describe_exception(error), None, None), no_number)
        channel.send(reply)


def _binary(name: str) -> "Callable[[Any, Any], object]":
    def apply(left: object, right: object) -> object:
        result: object = getattr(__import__("operator"), name)(left, right)
        return result

    return apply


OPERATIONS: "dict[str, Callable[..., Any]]" = {
    name: _binary(name) for name in BINARY + COMPARISONS + ("getitem", "delitem", "contains")
}
OPERATIONS.update(
    {
        "setitem": lambda subject, key, value: subject.__setitem__(key, value),
        "len": len,
        "bool": bool,
        "iter": iter,
        "next": next,
        "str": str,
        "repr": repr,
        "hash": hash,
        "int": int,
        "float": float,
        "index": lambda subject: subject.__index__(),
        "abs": abs,
        "neg": lambda subject: -subject,
        "pos": lambda subject: +subject,
        "invert": lambda subject: ~subject,
        "reversed": reversed,
        "delattr": delattr,
    }
)


def run_completion(request: "Request", say: "Say", channel: Channel) -> None:
    """The whole life of the completion's process: its code, then answers, then the end."""
    namespace = fresh_module()
    try:
        exec(request["setup"], namespace)
    except BaseException:
        pass  # what it needs may be the completion's; the judge runs it too, and tells
    run_top_level(request, say, namespace)
    channel.send(encode("ready", no_number))
    is_limited = request["check_timeout_seconds"] is not None
    serve(namespace, channel, Interruption(INTERRUPT) if is_limited else None)
    finish(say, "passed", "")
