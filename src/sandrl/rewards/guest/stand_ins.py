"""Stand-ins for the completion's objects: what a check does to one is done over there."""

# The style is explained in `descriptors.py`.

MYPY = False
if MYPY:
    from collections.abc import Iterator
    from typing import Any

    from sandrl.rewards.guest.client import Completion
if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.channel import BINARY


class StandIn:
    """Stands for an object of the completion; what is done to it is done there."""

    __slots__ = ("_completion", "_name", "_number")

    def __init__(self, completion: "Completion", number: int, name: str) -> None:
        object.__setattr__(self, "_completion", completion)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_name", name)

    def __call__(self, *arguments: object, **keywords: object) -> object:
        """Calls the completion's function."""
        return ask(self, "call", arguments, keywords)

    def __getattr__(self, name: str) -> object:
        return ask(self, "get", (name,))

    def __setattr__(self, name: str, value: object) -> None:
        ask(self, "set", (name, value))

    def __delattr__(self, name: str) -> None:
        ask(self, "delattr", (name,))

    def __instancecheck__(self, value: object) -> bool:
        if type(value) is StandIn:
            return ask(self, "isinstance", (value,)) is True
        return False

    # Plain values equal plain values only. Two objects of the completion may be compared by it: no expected value of
    # the problem's is involved.
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not StandIn:
            return False
        return ask(self, "eq", (other,)) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        # Equal objects belong together in a set; among plain values none is equal, whatever its hash.
        result: int = ask(self, "hash")
        return result

    def __bool__(self) -> bool:
        return ask(self, "bool") is True

    def __len__(self) -> int:
        result: int = ask(self, "len")
        return result

    def __iter__(self) -> "Iterator[object]":
        return iterate(ask(self, "iter"))

    def __next__(self) -> object:
        result: object = ask(self, "next")
        return result

    def __contains__(self, item: object) -> bool:
        completion = object.__getattribute__(self, "_completion")
        if type(item) is StandIn or completion.has_operator("contains"):
            return ask(self, "contains", (item,)) is True
        return any(item is member or item == member for member in self)

    def __getitem__(self, key: object) -> object:
        return ask(self, "getitem", (key,))

    def __setitem__(self, key: object, value: object) -> None:
        ask(self, "setitem", (key, value))

    def __delitem__(self, key: object) -> None:
        ask(self, "delitem", (key,))

    def __str__(self) -> str:
        return plain_text(ask(self, "str"))

    def __repr__(self) -> str:
        return plain_text(ask(self, "repr"))

    def __int__(self) -> int:
        result: int = convert(self, "int")
        return result

    def __float__(self) -> float:
        result: float = convert(self, "float")
        return result

    def __index__(self) -> int:
        result: int = convert(self, "index")
        return result

    def __abs__(self) -> object:
        return convert(self, "abs")

    def __neg__(self) -> object:
        return convert(self, "neg")

    def __pos__(self) -> object:
        return convert(self, "pos")

    def __invert__(self) -> object:
        return convert(self, "invert")

    def __reversed__(self) -> "Iterator[object]":
        return iterate(ask(self, "reversed"))

    def __lt__(self, other: object) -> object:
        return operate(self, "lt", self, other)

    def __le__(self, other: object) -> object:
        return operate(self, "le", self, other)

    def __gt__(self, other: object) -> object:
        return operate(self, "gt", self, other)

    def __ge__(self, other: object) -> object:
        return operate(self, "ge", self, other)


def ask(
    stand_in: "StandIn",
    operation: str,
    arguments: "tuple[object, ...]" = (),
    keywords: "dict[str, object] | None" = None,
) -> "Any":
    """Has the completion do something with one of its objects."""
    completion = object.__getattribute__(stand_in, "_completion")
    return completion.ask(operation, stand_in, arguments, keywords)


def operate(stand_in: "StandIn", operation: str, left: object, right: object) -> object:
    """Has the completion apply an operator to one of its objects and something else."""
    completion: Completion = object.__getattribute__(stand_in, "_completion")
    return completion.operate(operation, left, right)


def convert(stand_in: "StandIn", operation: str) -> "Any":
    """Has the completion make something else of one of its objects."""
    completion: Completion = object.__getattribute__(stand_in, "_completion")
    return completion.convert(operation, stand_in)


def iterate(iterator: object) -> "Iterator[object]":
    """Goes through an iterator of the completion; a plain value that pretends to be one ends in a TypeError."""
    if type(iterator) is not StandIn:
        raise TypeError("the completion's iterator is none")
    while True:
        try:
            yield ask(iterator, "next")
        except StopIteration:
            return


def plain_text(value: object) -> str:
    """A string, or an error where the completion made something else of itself."""
    if type(value) is not str:
        raise TypeError("the completion's text is none")
    return value


def _operator_methods() -> None:
    # What every class has of its own; a check means the completion's.
    for attribute in ("__doc__", "__slots__"):
        setattr(StandIn, attribute, property(lambda self, name=attribute: ask(self, "get", (name,))))  # type: ignore[misc]
    for name in BINARY:
        special = name.rstrip("_")

        def forward(self: StandIn, other: object, name: str = name) -> object:
            return operate(self, name, self, other)

        def backward(self: StandIn, other: object, name: str = name) -> object:
            return operate(self, name, other, self)

        setattr(StandIn, f"__{special}__", forward)
        setattr(StandIn, f"__r{special}__", backward)


_operator_methods()
