"""Limits the completion's access to objects of a check, and to the judge's process.

A check may pass a function or an object to the completion. From then on the completion can send any question about it.
Only the questions that are listed here are answered, and only about these objects: neither the code of a check nor a
frame can be reached from them.
"""

from __future__ import annotations

import sys
from typing import Any

from sandrl.judge.guest.objects import Peer
from sandrl.judge.guest.operations import COMPUTING, LIBRARY, OPERATORS
from sandrl.judge.guest.proxies import EQUALITY, NAMELESS, ORDER, SPECIALS, is_proxy
from sandrl.judge.guest.values import Unsendable, rebuilt_place

# The module that classes and functions of checks belong to.
CHECKS = "checks"
# What an object of the judge's own may never be asked for, whatever its class: the way to what a check expects.
_REVEALING = frozenset(
    "gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_await cr_origin ag_frame ag_code ag_await tb_frame tb_next"
    " f_back f_globals f_locals f_builtins f_code".split()
)
_OF_FUNCTIONS = frozenset(
    ("__func__", "__name__", "__qualname__", "__doc__", "__module__", "__defaults__", "__annotations__")
)
# Questions about two objects, of which the second one may be the check's.
_OF_TWO = frozenset((*OPERATORS, *ORDER, *EQUALITY, "isinstance", "issubclass"))
# Questions that a class answers by what it is: the check's own classes do, those of the library are everywhere.
_OF_CLASSES = frozenset(("call", "get", "set", "delattr"))
_OF_ATTRIBUTES = frozenset(("get", "set", "delattr"))
# Questions that are answered.
_QUESTIONS = frozenset(
    "call get set delattr dir copy deepcopy plain task step outcome cancel isinstance issubclass signature".split()
) | (SPECIALS - {"__call__"})
_CODE_KINDS = (*NAMELESS.values(), type)
_NAMED_KINDS = (type(len), type(str.upper), type(lambda: 0), type(str.__len__))


class Parameters:
    """What a completion may know of the code of a check's function."""

    def __init__(self, code: Any) -> None:
        count = code.co_argcount + code.co_kwonlyargcount
        self.co_argcount, self.co_kwonlyargcount = code.co_argcount, code.co_kwonlyargcount
        self.co_posonlyargcount = code.co_posonlyargcount
        self.co_name, self.co_flags, self.co_varnames = code.co_name, code.co_flags, code.co_varnames[:count]


class GuardedPeer(Peer):
    """The end of a channel whose objects the other side may ask about only so far."""

    # The words of all checks, where these use mocks.
    mentions: frozenset[str] | None = None

    def perform(self, operation: str, subject: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> object:
        """Does something to an object of a check, and to nothing else: the completion may send any question."""
        is_handed = self.is_handed_over(subject)
        if not is_handed and operation in _OF_TWO:
            is_handed = bool(arguments) and self.is_handed_over(arguments[0])
        if not is_handed or operation not in _QUESTIONS:
            raise AttributeError(f"a {type(subject).__name__} of the judge has nothing to do with {operation!r}")
        if operation in _OF_CLASSES and isinstance(subject, type) and subject.__module__ != CHECKS:
            raise AttributeError(f"class {subject.__name__} is not a class of the check")
        if operation == "get" and arguments[0] == "__code__" and type(subject) is NAMELESS["function"]:
            # Of a function's code only its parameters are told.
            return Parameters(getattr(subject, arguments[0]))
        if operation in _OF_ATTRIBUTES and names_of_mock(subject):
            self.refuse_of_mock(operation, arguments, names_of_mock(subject))
        if operation == "set" or operation == "delattr":
            self.refuse_change(subject, arguments[0])
        result = Peer.perform(self, operation, subject, arguments, keywords)
        # The completion may read the attributes of an object, but sets them one by one.
        return dict(result) if operation == "get" and arguments[0] == "__dict__" else result  # type: ignore[call-overload]

    def refuse_of_mock(self, operation: str, arguments: tuple[Any, ...], names: frozenset[str]) -> None:
        """Refuses what would tell or change what a mock answers and what it has recorded; a completion may call it.

        What a completion sets is a plain value where checks may ask the mock for it: that records no calls.
        """
        name = arguments[0]
        may = name in SPECIALS or name not in names
        if operation != "get":
            may = operation == "set" and name not in names and name[:1] != "_"
            is_mentioned = self.mentions is None or name in self.mentions
            may = may and (not has_methods(arguments[1]) or not is_mentioned)
        if not may:
            raise AttributeError(f"{name!r} of a mock belongs to the check")

    def is_handed_over(self, value: object) -> bool:
        """Whether something is an object of the judge's that a check has handed over."""
        return id(value) in self.numbers and self.objects[self.numbers[id(value)]] is value

    def refuse_change(self, subject: Any, name: str) -> None:
        """Refuses to change what an object of a check does, its methods; what it holds may be changed."""
        kind = subject if isinstance(subject, type) else type(subject)
        for base in type.__dict__["__mro__"].__get__(kind):
            own = type.__dict__["__dict__"].__get__(base).get(name)
            has_setter = hasattr(type(own), "__set__") and kind is not subject
            if own is not None and not has_setter and (callable(own) or hasattr(type(own), "__get__")):
                raise AttributeError(f"{name!r} of a {kind.__name__} of the check cannot be changed")
        if name[:2] == "__":
            raise AttributeError(f"{name!r} of a {kind.__name__} of the check cannot be changed")

    # What of the judge's own crosses

    def find(self, module: str, name: str) -> Any:
        """A class, or a function of the library's that only computes, that both sides have."""
        if module in COMPUTING:
            found = getattr(__import__(module), name, None)
            if type(found) is type(len):
                return found
        return Peer.find(self, module, name)

    def place_of(self, value: Any) -> tuple[str, str] | None:
        if type(value) not in _NAMED_KINDS:
            # `numpy.add` and `numpy.mean` are objects of classes of their own.
            return library_place(value) if type(value).__module__.partition(".")[0] == "numpy" else None
        return self.class_place(getattr(value, "__objclass__", None), "." + value.__name__) or library_place(value)

    def class_place(self, kind: Any, rest: str = "") -> tuple[str, str] | None:
        if kind is None:
            return None
        place = rebuilt_place(kind) or library_place(kind)
        return None if place is None else (place[0], place[1] + rest)

    def describe_object(self, value: Any, kind: Any, encoder: Any, levels: int) -> None:
        """Adds an object of a check; none that a package made.

        Packages were never written to be a boundary: methods of theirs run texts, and write files.
        """
        for base in type.__dict__["__mro__"].__get__(kind):
            package = base.__module__.partition(".")[0]
            if "-packages/" in (getattr(sys.modules.get(package), "__file__", None) or ""):
                raise Unsendable(f"a {kind.__name__} of {package}")
        Peer.describe_object(self, value, kind, encoder, levels)

    def allowed(self, subject: object, name: str) -> str:
        """The name of an attribute of the judge's own; AttributeError if the completion may not ask for it."""
        is_of_check = type(subject).__module__ == CHECKS or (isinstance(subject, type) and subject.__module__ == CHECKS)
        if name[:1] == "_":
            may = name in _OF_FUNCTIONS or (is_of_check and name in ("__dict__", "__init__"))
            may = may or (name in SPECIALS and (is_of_check or type(subject) not in _CODE_KINDS))
            may = may or (name[:2] != "__" and is_of_check and is_defined_by_check(subject, name))
        else:
            may = name not in _REVEALING and (type(subject) is not type(sys) or is_module_of_check(subject))
        if not may:
            raise AttributeError(f"{type(subject).__name__!r} object has no attribute {name!r}")
        return name


def is_defined_by_check(subject: Any, name: str) -> bool:
    """Whether an object of a check's class has an attribute from the check, such as `_replace` of a named tuple.

    A completion that reads `__dict__` has the others anyway.
    """
    kind = subject if isinstance(subject, type) else type(subject)
    kinds = [base for base in type.__dict__["__mro__"].__get__(kind) if base.__module__ == CHECKS]
    return name in getattr(subject, "__dict__", ()) or any(name in base.__dict__ for base in kinds)


def is_module_of_check(module: Any) -> bool:
    """Whether a check has made a module, to be imported in the place of another one."""
    own = module.__dict__
    return own.get("__spec__") is None and own.get("__name__") not in (CHECKS, "__main__", "solution", "builtins")


def has_methods(value: Any) -> bool:
    """Whether something may have methods of a mock's names."""
    return is_proxy(value) or type(value) in _CODE_KINDS or type(value).__module__ in (CHECKS, "unittest.mock")


def names_of_mock(subject: Any) -> frozenset[str]:
    """The names by which a mock is set up and asked for its calls; none if something is no mock."""
    mock: Any = sys.modules.get("unittest.mock")
    if mock is None:
        return frozenset()
    if not issubclass(type(subject), mock.NonCallableMock) and not (
        # A function that `autospec` has made.
        type(subject) in _CODE_KINDS and isinstance(getattr(subject, "mock", None), mock.NonCallableMock)
    ):
        return frozenset()
    if not _of_mocks:
        kinds = (mock.NonCallableMock, mock.MagicMock, getattr(mock, "AsyncMock", mock.Mock))
        _of_mocks.append(frozenset(("method_calls", "mock", *[name for kind in kinds for name in dir(kind)])))
    return _of_mocks[0]


_of_mocks: list[frozenset[str]] = []


def library_place(value: Any) -> tuple[str, str] | None:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if type(module) is not str or type(name) is not str:
        return None
    if module.partition(".")[0] not in LIBRARY and module.partition(".")[0] not in ("numpy", "pandas"):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if found is value else None
