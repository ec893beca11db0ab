"""Carries what a check changes in its own process to the completion's process, with each question.

A check patches a function of a module, sets a variable of the environment, or seeds a generator. In one process, the
completion's code is affected by that. Here the judge's side compares what a check may change (`patches.py` determines
it) with its earlier state, and sends the difference; the completion's side applies it for the time of the question. An
object, such as a mock, crosses as any other object of a check.
"""

from __future__ import annotations

import posix
import sys
from collections.abc import Callable
from typing import Any

# Places: `module:attribute`, with dots where the attribute is in a class or an object; `[]` after it means the items of
# a mapping. Whatever checks do, they may replace these.
STREAMS = ("sys:stdin", "sys:stdout", "sys:stderr", "builtins:input")
# How a completion's module is called, in its process and by checks in one process with it.
COMPLETION = "__main__"
_ITEMS = "[]"
_MISSING: Any = type("Missing", (), {})()


class Place:
    """A place whose value a check may replace: an attribute of a module, a class or another object."""

    __slots__ = ("content", "name", "original", "owner")

    def __init__(self, owner: Any, name: str) -> None:
        self.owner = owner
        self.name = name
        self.content: dict[str, Any] = getattr(owner, "__dict__", {})
        self.original = self.content.get(name, _MISSING)

    def change(self) -> tuple[Any, ...] | None:
        """The value in a tuple, an empty one for none, if it is another than it was."""
        now = self.content.get(self.name, _MISSING)
        return None if now is self.original else () if now is _MISSING else (now,)


class Items:
    """A mapping whose items a check may replace; None for all of its keys."""

    def __init__(self, mapping: Any, keys: set[Any] | None = None) -> None:
        self.mapping = mapping
        self.keys = keys
        self.original = dict(mapping)

    def change(self) -> tuple[Any, ...] | None:
        keys = {*self.original, *self.mapping} if self.keys is None else self.keys
        found = {}
        for key in keys:
            now = self.mapping.get(key, _MISSING)
            if not _is_same(now, self.original.get(key, _MISSING)):
                found[key] = () if now is _MISSING else (now,)
        return (found,) if found else None


class Setting:
    def __init__(self, name: str) -> None:
        self.read = SETTINGS[name][0]
        self.original = self.read()

    def change(self) -> tuple[Any, ...] | None:
        try:
            now = self.read()
        except OSError:
            return None  # a directory that the check has removed
        return None if now == self.original else (now,)


class Generator:
    """A generator of random numbers: its state goes to the completion to stay, whenever a check sets it or draws."""

    def __init__(self, kind: str) -> None:
        module: Any = __import__(kind, fromlist=("",))
        self.read, _, setters = GENERATORS[kind]
        self.known = self.read()
        # A check may set the state that it had before, from which the completion has drawn meanwhile, or ask for the
        # state to set it later.
        self.is_set = False
        for name in setters:
            setattr(module, name, self.noticed(getattr(module, name)))

    def noticed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def setter(*arguments: object, **keywords: object) -> Any:
            self.is_set = True
            return function(*arguments, **keywords)

        return setter

    def change(self) -> tuple[Any, ...] | None:
        was_set, known = self.is_set, self.known
        self.known = self.read()
        self.is_set = False
        return (self.known,) if was_set or self.known != known else None


class World:
    """What of its world a process may be asked to share, and what of it has changed."""

    def __init__(self) -> None:
        self.watched: dict[str, Any] = {}
        for place in STREAMS:
            module, _, name = place.partition(":")
            self.watched[place] = Place(sys.modules[module], name)
        self.generators: dict[str, Generator] = {}

    def changes(self) -> dict[str, tuple[Any, ...]] | None:
        """What has changed here, and should over there as long as a question takes."""
        found = None
        for key, place in self.watched.items():
            change = place.change()
            if change is not None:
                found = found or {}
                found[key] = change
        if self.generators:
            news = self.news()
            if news is not None:
                found = {**news, **(found or {})}
        return found

    # What a check may change

    def watch(self, kinds: tuple[str, ...], places: tuple[str, ...]) -> None:
        """Takes note of how the world is before any check has run.

        `kinds` of changes are `mock`, `environ`, and the names of settings; `places` are attributes that checks assign
        to, as names with dots that begin with a module.
        """
        for place in places:
            self.watch_name(place)
        for kind in kinds:
            if kind == "mock":
                self.watch_mock()
            elif kind == "environ":
                self.watched["os:environ" + _ITEMS] = Items(__import__("os").environ)
            elif kind in SETTINGS:
                self.watched[kind] = Setting(kind)

    def watch_generators(self, kinds: tuple[str, ...]) -> None:
        """Takes note of the state of generators, which is the same on both sides now."""
        for kind in kinds:
            if kind in GENERATORS:
                try:
                    self.generators[kind] = Generator(kind)
                except ImportError:
                    continue  # the check tells

    def news(self) -> dict[str, tuple[Any, ...]] | None:
        """The state of generators that were set, or have drawn; from now on both sides have it."""
        found = {}
        for kind, generator in self.generators.items():
            change = generator.change()
            if change is not None:
                found[kind] = change
        return found or None

    def watch_name(self, name: str) -> None:
        try:
            module, *rest = name.split(".")
            target = __import__(module)
            while len(rest) > 1 and type(target) is type(sys):
                module += "." + rest[0]
                if type(getattr(target, rest[0], None)) is not type(sys):
                    __import__(module)
                target = getattr(target, rest.pop(0))
            for part in rest[:-1]:
                target = getattr(target, part)
        except Exception:
            return  # not there; the check tells
        self.watch_target(target, rest[-1])

    def watch_target(self, target: Any, name: str) -> None:
        where = place_of(target)
        if where is not None:
            key = where + ("" if where.endswith(":") else ".") + name
            if key not in self.watched:
                self.watched[key] = Place(target, name)

    def watch_items(self, mapping: Any, values: Any, is_cleared: bool) -> None:
        """Watches items of a mapping, if both sides have it."""
        where = place_of(mapping)
        if where is None or where.endswith(":"):
            return
        keys = {*mapping} if is_cleared else set()
        try:
            keys.update(dict(values))
        except (TypeError, ValueError):
            return  # the check tells
        known = self.watched.get(where + _ITEMS)
        if known is None:
            self.watched[where + _ITEMS] = Items(mapping, keys)
        elif known.keys is not None:
            known.keys |= keys

    def watch_mock(self) -> None:
        mock: Any = __import__("unittest.mock", fromlist=("",))
        enter, update, world = mock._patch.__enter__, mock._patch_dict._patch_dict, self

        def entered(patcher: Any) -> Any:
            try:
                target = patcher.getter()
            except Exception:
                return enter(patcher)  # which tells
            world.watch_target(target, patcher.attribute)
            return enter(patcher)

        def updated(patcher: Any) -> Any:
            mapping = patcher.in_dict
            if isinstance(mapping, str):
                try:
                    importer = getattr(mock, "_importer", None) or __import__("pkgutil").resolve_name
                    mapping = importer(mapping)
                except Exception:
                    return update(patcher)
            world.watch_items(mapping, patcher.values, patcher.clear)
            return update(patcher)

        mock._patch.__enter__, mock._patch_dict._patch_dict = entered, updated


def place_of(target: Any) -> str | None:
    """Where both sides find a module, a class of one, or an object that is an attribute of one; None if they do not."""
    if type(target) is type(sys):
        own: Any = target.__dict__.get("__name__")
        return own + ":" if type(own) is str and sys.modules.get(own) is target else None
    if isinstance(target, type):
        module, path = target.__module__, target.__qualname__
        found: Any = sys.modules.get(module)
        for part in path.split("."):
            found = getattr(found, part, None) if module != "checks" else None
        return f"{module}:{path}" if found is target else None
    for name, each in list(sys.modules.items()):
        if type(each) is type(sys) and each.__dict__.get("__spec__") is not None:
            for attribute, value in list(each.__dict__.items()):
                if value is target:
                    return f"{name}:{attribute}"
    return None


# What the other side has changed


def put_in_place(replaced: dict[str, tuple[Any, ...]]) -> list[Callable[[], None]]:
    """Changes this process as the other one was changed; returns what undoes that."""
    undoing: list[Callable[[], None]] = []
    for key, change in replaced.items():
        try:
            if key in GENERATORS:
                GENERATORS[key][1](change[0])
            elif key in SETTINGS:
                undoing.append(_set(SETTINGS[key][1], SETTINGS[key][0](), change[0]))
            elif key.endswith(_ITEMS):
                mapping = getattr(*_found(key[: -len(_ITEMS)]))
                for each, value in change[0].items():
                    undoing.append(_put_item(mapping, each, value))
            else:
                undoing.append(_put_attribute(*_found(key), change))
        except Exception:
            continue  # what is not there here, nothing of the completion's can use
    return undoing


def _found(place: str) -> tuple[Any, str]:
    module, _, path = place.partition(":")
    owner: Any = __import__(module, fromlist=("",))
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, name


def _put_attribute(owner: Any, name: str, change: tuple[Any, ...]) -> Callable[[], None]:
    content = getattr(owner, "__dict__", {})
    return _put(content, name, change, lambda value: setattr(owner, name, value), lambda: delattr(owner, name))


def _put_item(mapping: Any, key: object, change: tuple[Any, ...]) -> Callable[[], None]:
    return _put(mapping, key, change, lambda value: mapping.__setitem__(key, value), lambda: mapping.pop(key, None))


def _put(
    content: Any, key: Any, change: tuple[Any, ...], write: Callable[[Any], None], remove: Callable[[], Any]
) -> Callable[[], None]:
    before, ours = content.get(key, _MISSING), change[0] if change else _MISSING

    def put(value: Any) -> None:
        if value is _MISSING:
            remove()
        else:
            write(value)

    def undo() -> None:
        # The completion itself may have replaced it since.
        if _is_same(content.get(key, _MISSING), ours):
            put(before)

    put(ours)
    return undo


def _is_same(now: object, before: object) -> bool:
    # The environment makes its texts anew each time.
    return now is before or (type(now) is str and type(before) is str and now == before)


def _set(write: Callable[[Any], None], before: object, value: object) -> Callable[[], None]:
    write(value)
    return lambda: write(before)


def _decimal_context() -> tuple[int, str]:
    context = __import__("decimal").getcontext()
    return context.prec, context.rounding


def _set_decimal_context(value: tuple[int, str]) -> None:
    context = __import__("decimal").getcontext()
    context.prec, context.rounding = value


def _locale() -> str:
    locale = __import__("locale")
    text: str = locale.setlocale(locale.LC_ALL)
    return text


def _set_locale(value: str) -> None:
    locale = __import__("locale")
    locale.setlocale(locale.LC_ALL, value)


def _filters() -> list[Any]:
    # With patterns as texts: those of `simplefilter` are None.
    return [tuple([getattr(part, "pattern", part) for part in each]) for each in __import__("warnings").filters]


def _set_filters(value: list[Any]) -> None:
    warnings, re = __import__("warnings"), __import__("re")
    filters = []
    for action, message, category, module, line in value:
        patterns = [re.compile(text) if type(text) is str else text for text in (message, module)]
        filters.append((action, patterns[0], category, patterns[1], line))
    warnings.filters[:] = filters
    warnings._filters_mutated()


def _state_of_numpy() -> tuple[Any, ...]:
    name, key, *rest = sys.modules["numpy.random"].get_state()
    return (name, key.tobytes(), *rest)


def _set_state_of_numpy(state: tuple[Any, ...]) -> None:
    numpy: Any = __import__("numpy")
    numpy.random.set_state((state[0], numpy.frombuffer(state[1], dtype=numpy.uint32), *state[2:]))


# How settings are read and written.
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "directory": (posix.getcwd, posix.chdir),
    "recursion": (sys.getrecursionlimit, sys.setrecursionlimit),
    "decimal": (_decimal_context, _set_decimal_context),
    "locale": (_locale, _set_locale),
    "warnings": (_filters, _set_filters),
}
# How the state of generators is read and written, and which functions checks set it or ask for it with.
GENERATORS: dict[str, tuple[Callable[[], Any], Callable[[Any], None], tuple[str, ...]]] = {
    "random": (
        lambda: __import__("random").getstate(),
        lambda state: __import__("random").setstate(state),
        ("seed", "setstate", "getstate"),
    ),
    "numpy.random": (_state_of_numpy, _set_state_of_numpy, ("seed", "set_state", "get_state")),
}
