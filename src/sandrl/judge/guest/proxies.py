"""Proxies: classes made here for the classes of the other process, and objects of them that stand for its objects.

A proxy class has the name, the bases and the special methods of the class it stands for, and no others. So `len`,
`with`, `await`, `except`, `isinstance` and pattern matching work by the interpreter's own rules. A class derived from a
builtin type has a proxy derived from that type, whose objects also hold the plain value; an exception class has a proxy
that can be raised and caught.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sandrl.judge.guest.containers import UNCHANGEABLE, is_solid

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sandrl.judge.guest.objects import Peer

# Special methods with one operand and special methods of other shapes, by how they are carried out over there.
BINARY = tuple("add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split())
ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
EQUALITY = ("__eq__", "__ne__")
TEXT = ("__str__", "__repr__", "__format__")
CONVERSIONS = tuple(
    "__int__ __float__ __complex__ __index__ __abs__ __neg__ __pos__ __invert__ __round__ __trunc__ __floor__"
    " __ceil__".split()
)
OTHERS = tuple(
    "__len__ __iter__ __next__ __reversed__ __hash__ __bool__ __call__ __getitem__ __setitem__ __delitem__ __contains__"
    " __missing__ __length_hint__ __bytes__ __fspath__ __enter__ __exit__ __aenter__ __aexit__ __aiter__ __anext__"
    " __await__ __divmod__".split()
)
ARITHMETIC = tuple(f"__{name}__" for name in BINARY)
REFLECTED = {f"__r{name}__": f"__{name}__" for name in (*BINARY, "divmod")}
IN_PLACE = tuple(f"__i{name}__" for name in BINARY)
SPECIALS = frozenset((*ORDER, *EQUALITY, *TEXT, *CONVERSIONS, *OTHERS, *ARITHMETIC, *REFLECTED, *IN_PLACE))
# Methods that a coroutine has besides `__await__`, and an awaitable object has not.
COROUTINE = frozenset(("send", "throw", "close"))

# What changes a container: the other process has the container itself, so it happens there.
CHANGING = frozenset(
    "append extend insert pop remove clear sort reverse update add discard popitem setdefault appendleft extendleft"
    " popleft rotate difference_update intersection_update symmetric_difference_update subtract move_to_end"
    " __setitem__ __delitem__ __iadd__ __isub__ __imul__ __iand__ __ior__ __ixor__".split()
)
LOCAL_OF_CLASSES = frozenset(
    "__name__ __qualname__ __module__ __mro__ __bases__ __base__ __class__ mro __subclasses__ __flags__ __copy__"
    " __deepcopy__ __instancecheck__ __subclasscheck__ __basicsize__ __itemsize__ __weakrefoffset__ __dictoffset__"
    " __call__ __abstractmethods__ __or__ __ror__ __prepare__ __new__ __init__ __hash__ __eq__ __repr__ __str__".split()
)
LOCAL_OF_OBJECTS = frozenset(("__copy__", "__deepcopy__"))
LOCAL_OF_EXCEPTIONS = frozenset(("__traceback__", "with_traceback", "__suppress_context__"))

# Types of the interpreter that no module has under their name.
NAMELESS: dict[str, type] = {
    "function": type(lambda: 0),
    "builtin_function_or_method": type(len),
    "generator": type((lambda: (yield))()),
    "method": type(type("_", (), {"f": lambda self: 0})().f),
    "module": type(sys),
    "NoneType": type(None),
}

# The peer that this process has; there is one.
the_peer: list[Peer] = []


class ProxyClass(type):
    _proxy_number = -1
    _proxy_solid: type | None = None
    # Where a class of the standard library is found: this process may have the same one.
    _proxy_place: tuple[str, str] | None = None

    def __call__(cls, *arguments: object, **keywords: object) -> object:
        return the_peer[0].ask("call", cls, arguments, keywords)

    def __getattribute__(cls, name: str) -> object:
        if name[:8] == "__array_" and name != "__array__":
            raise AttributeError(f"type object {type.__getattribute__(cls, '__name__')!r} has no attribute {name!r}")
        if name in LOCAL_OF_CLASSES or name[:7] == "_proxy_":
            if name in ("__mro__", "__bases__"):
                return tuple([base for base in type.__getattribute__(cls, name) if base is not Proxy])
            if name == "mro":
                return lambda: list(cls.__mro__)
            return type.__getattribute__(cls, name)
        return the_peer[0].ask("get", cls, (name,))

    def __setattr__(cls, name: str, value: object) -> None:
        the_peer[0].ask("set", cls, (name, value))

    def __delattr__(cls, name: str) -> None:
        the_peer[0].ask("delattr", cls, (name,))

    def __dir__(cls) -> list[str]:
        names: list[str] = the_peer[0].ask("dir", cls)
        return names

    def __instancecheck__(cls, value: object) -> bool:
        if type.__instancecheck__(cls, value):
            return True
        return type(cls) is not ProxyClass and the_peer[0].is_instance("isinstance", value, cls)

    def __subclasscheck__(cls, other: Any) -> bool:
        if type.__subclasscheck__(cls, other):
            return True
        return type(cls) is not ProxyClass and the_peer[0].is_instance("issubclass", other, cls)

    def __new__(*arguments: Any, **keywords: object) -> Any:
        mcs, name, bases, namespace = arguments
        if "_proxy_number" not in namespace and any(isinstance(base, ProxyClass) for base in bases) and the_peer:
            the_peer[0].refuse_subclass(name)
        return type.__new__(mcs, name, bases, namespace)

    def __init__(*arguments: Any, **keywords: object) -> None:
        type.__init__(*arguments)


class Proxy(metaclass=ProxyClass):
    _proxy_number = -1
    _proxy_solid: type | None = None

    def __getattribute__(self, name: str) -> object:
        kind = type(self)
        if name == "__class__":
            return the_peer[0].class_shown(kind)
        if name[:8] == "__array_" and name != "__array__":
            # By these an object decides what NumPy's own operators and functions give for it.
            raise AttributeError(f"{type.__getattribute__(kind, '__name__')!r} object has no attribute {name!r}")
        if name in LOCAL_OF_OBJECTS or (name in COROUTINE and name in type.__dict__["__dict__"].__get__(kind)):
            return object.__getattribute__(self, name)
        if name in LOCAL_OF_EXCEPTIONS and issubclass(kind, BaseException):
            return object.__getattribute__(self, name)
        return the_peer[0].attribute(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in LOCAL_OF_EXCEPTIONS or (name in ("__context__", "__cause__") and isinstance(self, BaseException)):
            object.__setattr__(self, name, value)
        else:
            the_peer[0].ask("set", self, (name, value))

    def __delattr__(self, name: str) -> None:
        the_peer[0].ask("delattr", self, (name,))

    def __dir__(self) -> list[str]:
        names: list[str] = the_peer[0].ask("dir", self)
        return names

    def __copy__(self) -> object:
        return the_peer[0].ask("copy", self)

    def __deepcopy__(self, memo: object) -> object:
        return the_peer[0].ask("deepcopy", self)


def is_proxy(value: object) -> bool:
    kind = type(value)
    return issubclass(type(kind), ProxyClass) or issubclass(kind, ProxyClass)


def number_behind(value: Any) -> int:
    if issubclass(type(value), ProxyClass):
        number: int = type.__getattribute__(value, "_proxy_number")
    else:
        number = object.__getattribute__(value, "_proxy_object")
    return number


def solid_of(kind: type) -> Any:
    """The builtin type whose values the objects of a proxy class hold besides; None if there is none."""
    solid: Any = type.__getattribute__(kind, "_proxy_solid")
    return solid


def _special(name: str) -> Callable[..., Any]:
    def method(self: Proxy, *arguments: object, **keywords: object) -> object:
        return the_peer[0].special(name, self, arguments, keywords)

    return method


def _reflected(name: str) -> Callable[..., Any]:
    def method(self: Proxy, other: object, *rest: object) -> object:
        return the_peer[0].reflected(name, self, other)

    return method


def _coroutine_method(name: str) -> Callable[..., Any]:
    def method(self: Proxy, *arguments: object) -> object:
        return getattr(the_peer[0].driver(self), name)(*arguments)

    return method


METHODS: dict[str, Callable[..., Any]] = {name: _special(name) for name in SPECIALS if name not in REFLECTED}
METHODS.update({name: _reflected(special) for name, special in REFLECTED.items()})
METHODS.update({name: _coroutine_method(name) for name in COROUTINE})


def _bound(self: Proxy, owner: object, kind: object = None) -> object:
    # A function of the other side is a method where a class of this side has it.
    return self if owner is None else NAMELESS["method"](self, owner)


METHODS["__get__"] = _bound


def metaclass_for(specials: frozenset[str]) -> type:
    """The class of a proxy class whose own class has special methods, as that of an enumeration has."""
    wanted = specials - _OF_EVERY_CLASS
    if wanted not in _metaclasses:
        # A class whose own class has nothing special about it still is no ordinary one: see `__instancecheck__`.
        namespace = {name: METHODS[name] for name in wanted & METHODS.keys()}
        _metaclasses[wanted] = type("ProxyClass", (ProxyClass,), namespace)
    return _metaclasses[wanted]


_OF_EVERY_OBJECT = ("__getattribute__", "__setattr__", "__delattr__", "__dir__", "__copy__", "__deepcopy__")
_metaclasses: dict[frozenset[str], type] = {}
_OF_EVERY_CLASS = frozenset(("__call__",))


def make_class(names: tuple[str, str, str], bases: list[Any], specials: frozenset[str], meta: type, number: int) -> Any:
    """A proxy class; TypeError or ValueError if there can be no such class.

    Args:
        names: Its name, its qualified name and its module.
        bases: Its bases as far as they have a meaning here: proxy classes, builtin types and exceptions.
        specials: The special methods that it has; one that begins with `-` is explicitly missing.
        meta: Its class.
        number: What it stands for.
    """
    namespace: dict[str, Any] = {name: METHODS[name] for name in specials & METHODS.keys()}
    namespace.update({name[1:]: None for name in specials if name[:1] == "-" and name[1:] in SPECIALS})
    if "__eq__" in namespace and "__hash__" not in namespace:
        namespace["__hash__"] = None
    # In each class anew: a builtin type among the bases would come before `Proxy`.
    own = type.__dict__["__dict__"].__get__(Proxy)
    namespace.update({name: own[name] for name in _OF_EVERY_OBJECT})
    namespace.update(__qualname__=names[1], __module__=names[2], _proxy_number=number)
    are_proxies = [issubclass(type(base), ProxyClass) for base in bases]
    known = zip(bases, are_proxies)
    parents = [base for base, is_one in known if is_one or is_solid(base) or issubclass(base, BaseException)]
    if not any(are_proxies):
        parents.insert(0, Proxy)
    try:
        made: Any = type.__new__(meta, names[0], tuple(parents), namespace)
    except TypeError:
        # Bases that cannot be combined here: the most solid of them counts.
        made = type.__new__(meta, names[0], (Proxy, *solid_parents(parents)[:1]), namespace)
    for base in bases:
        if type(base).__name__ == "ABCMeta":
            base.register(made)
    solids = solid_parents([made])
    if solids and not issubclass(made, BaseException):
        type.__setattr__(made, "_proxy_solid", solids[0])
    return made


def solid_parents(classes: list[Any]) -> list[Any]:
    found = []
    for kind in classes:
        for base in type.__dict__["__mro__"].__get__(kind):
            if not issubclass(type(base), ProxyClass) and base is not object:
                found.append(base)
    return found


def make_object(kind: Any, number: int) -> Any:
    """A proxy that holds no plain value yet, of a class without one or with one that can be changed."""
    solid = solid_of(kind)
    made = (solid or object).__new__(kind)
    object.__setattr__(made, "_proxy_object", number)
    return made


def make_value(kind: Any, number: int, plain: object) -> Any:
    made = solid_of(kind).__new__(kind, plain)
    object.__setattr__(made, "_proxy_object", number)
    return made


def make_error(kind: Any, number: int, arguments: tuple[Any, ...]) -> Any:
    made = solid_parents([kind])[0].__new__(kind, *arguments)
    BaseException.args.__set__(made, arguments)  # type: ignore[attr-defined]
    object.__setattr__(made, "_proxy_object", number)
    return made


def specials_of(kind: Any) -> list[str]:
    """The special methods of a class, its bases included as far as no builtin type of the other process has them."""
    found: dict[str, bool] = {}
    for base in type.__dict__["__mro__"].__get__(kind):
        if base is object or base in UNCHANGEABLE or base is type or base is BaseException:
            continue
        if base.__module__ == "builtins" and issubclass(base, BaseException):
            continue
        for name, value in type.__dict__["__dict__"].__get__(base).items():
            if name in SPECIALS and name not in found:
                found[name] = value is not None
    names = [name if present else "-" + name for name, present in found.items()]
    if kind.__module__ == "builtins":
        names.extend(COROUTINE if kind.__name__ == "coroutine" else ("__get__",) if kind.__name__ == "function" else ())
    return names
