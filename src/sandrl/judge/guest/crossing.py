"""How objects cross between the judge and a completion: their form in a message, and the objects built from it.

Each end keeps its own objects by number. Plain values cross as copies (`values.py`). Lists and other containers that
both ends still use are kept in step, so that a change on one side is seen on the other side.
"""

from __future__ import annotations

import sys
from typing import Any

from sandrl.judge.guest.containers import (
    UNCHANGEABLE,
    content_kind,
    fill,
    has_changed,
    is_changeable,
    is_solid,
    plain_form,
    size_of,
    snapshot,
    solid_base,
)
from sandrl.judge.guest.libraries import class_in_library, library
from sandrl.judge.guest.operations import COMPUTING, LIBRARY, installed_error, library_object, own_dict, rebuilt_error
from sandrl.judge.guest.proxies import (
    NAMELESS,
    ProxyClass,
    is_proxy,
    make_class,
    make_error,
    make_object,
    make_value,
    metaclass_for,
    number_behind,
    solid_of,
    specials_of,
)
from sandrl.judge.guest.values import REBUILT, Decoder, Encoder, Malformed, rebuilt_place

# How many containers stay in step between messages, and how many items one of them may have.
SHARED_CONTAINERS, SHARED_ITEMS = 256, 5_000
# References to a container that nobody but this module has.
_OWN_REFERENCES = 2
# How far the causes of an exception are followed.
_CAUSES = 5
# What exceptions of the interpreter keep besides their arguments.
_HIDDEN_ATTRIBUTES = ("filename", "filename2", "name", "path")

# Abstract classes that libraries ask for to find out what kind of file they were given.
_ABSTRACT_FILES = ("RawIOBase", "BufferedIOBase", "TextIOBase")


class SharedContainer:
    """A mutable container that both processes have.

    `content` is what it held when both were equal last; None for a large one that is not kept in step. `reference` is
    how it is referred to in a message of ours, and `number` what its sender counts it as.
    """

    __slots__ = ("container", "content", "number", "reference")

    def __init__(self, container: Any, content: list[Any] | None, reference: bytes, number: int) -> None:
        self.container = container
        self.content = content
        self.reference = reference
        self.number = number


class Crossing:
    """The part of a peer that makes messages and reads them."""

    # Whether changes of large containers that arrive are to be found, too.
    watches_large = False

    def __init__(self) -> None:
        # Our objects that the other side has proxies of, and their numbers by `id`.
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}
        # What the other side knows of ours, and our proxies of theirs, by number.
        self.known: set[int] = set()
        self.proxies: dict[int, Any] = {}
        # How often the other side was asked: what a proxy holds may be old after that.
        self.asked = 0
        self.fresh: dict[int, int] = {}
        # Containers that both sides have: by `id`, and by the numbers of those that were sent and received first.
        self.shared: dict[int, SharedContainer] = {}
        self.sent: dict[int, SharedContainer] = {}
        self.received: dict[int, SharedContainer] = {}
        self.sent_count = 0

    def number_of(self, value: object) -> int:
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return number

    def encode(self, value: tuple[Any, ...]) -> bytes:
        """The bytes of a message, which also says how the containers that both sides have were changed."""
        changed: list[SharedContainer] = []
        unused: tuple[tuple[int, ...], ...] = ()
        if self.shared:
            changed = [
                item
                for item in self.shared.values()
                if item.content is not None and has_changed(item.container, item.content)
            ]
            unused = self.unused()
        changes = tuple([(item.container, plain_form(item.container, type(item.container))) for item in changed])
        encoder = Encoder(self.describe, self.shared)
        data = encoder.encode(self.sent_count, changes, unused, *value)
        # Nothing of this may stay where the message cannot be sent.
        self.known.update(encoder.classes)
        for item in changed:
            item.content = snapshot(item.container) if size_of(item.container) <= SHARED_ITEMS else None
        for numbers, items in zip(unused, (self.sent, self.received)):
            for number in numbers:
                self.forget(number, items)
        for index, container in enumerate(encoder.containers):
            self.share(container, self.sent, b"&%d;", self.sent_count + index)
        self.sent_count += len(encoder.containers)
        return data

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """A message of the other side, without what it says about containers, which is done; raises `Malformed`."""
        decoder = Decoder(data, self.read)
        # While it is read, objects in sets are asked for their hashes: other messages are counted meanwhile.
        first, changes, forgotten, *rest = decoder.all()
        for index, container in enumerate(decoder.containers):
            if container is not None:
                self.share(container, self.received, b"^%d;", first + index, self.watches_large)
        self.change_all(changes)
        for numbers, items in zip(forgotten, (self.received, self.sent)):
            for number in numbers:
                self.forget(number, items)
        return tuple(rest)

    def share(
        self, container: Any, items: dict[int, SharedContainer], reference: bytes, number: int, is_watched: bool = False
    ) -> None:
        """From now on both sides have a container; a large one is watched only while a call has it as an argument."""
        content = snapshot(container) if is_watched or size_of(container) <= SHARED_ITEMS else None
        items[number] = self.shared[id(container)] = SharedContainer(container, content, reference % number, number)

    def forget(self, number: int, items: dict[int, SharedContainer]) -> None:
        item = items.pop(number, None)
        if item is not None:
            self.shared.pop(id(item.container), None)

    def unused(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of sent and received containers that are not used here any more, are too large, or too many."""
        getrefcount = sys.getrefcount
        found = []
        for items in (self.sent, self.received):
            numbers = [
                number
                for number, item in items.items()
                if getrefcount(item.container) <= _OWN_REFERENCES or size_of(item.container) > SHARED_ITEMS
            ]
            if len(items) > SHARED_CONTAINERS:
                numbers.extend([number for number in list(items)[:-SHARED_CONTAINERS] if number not in numbers])
            found.append(tuple(numbers))
        return tuple(found) if found[0] or found[1] else ()

    def change_all(self, changes: Any) -> None:
        for container, content in changes:
            self.change(container, content)

    def change(self, container: Any, content: Any) -> None:
        """Gives a container the content that the other side's has now; `Malformed` if that cannot be its content."""
        item = self.shared.get(id(container))
        kind = type(container)
        if item is None or not is_changeable(kind) or type(content) is not content_kind(kind):
            raise Malformed("a change of something else")
        fill(container, kind, content)
        item.content = snapshot(container) if size_of(container) <= SHARED_ITEMS else None

    def describe(self, value: Any, encoder: Encoder, levels: int) -> None:
        kind = type(value)
        if is_proxy(value):
            encoder.parts.append(b"o%x;" % number_behind(value))
        elif issubclass(kind, BaseException):
            self.describe_error(value, encoder, levels)
        else:
            is_class = issubclass(kind, type)
            place = class_in_library(value) if is_class else self.place_of(value)
            if place is not None:
                self.describe_place(place, encoder)
            elif is_class:
                self.describe_class(value, encoder)
            else:
                self.describe_object(value, kind, encoder, levels)

    def describe_place(self, place: tuple[str, str], encoder: Encoder) -> None:
        encoder.parts.append(b"k")
        encoder.text(place[0])
        encoder.text(place[1])

    def place_of(self, value: Any) -> tuple[str, str] | None:
        if type(value) is not NAMELESS["builtin_function_or_method"]:
            return None  # an object of a completion's own notices who looks at it
        function: Any = value
        module, name = function.__module__, function.__name__
        if module not in COMPUTING:
            return None
        return (module, name) if getattr(sys.modules[module], name, None) is value else None

    def class_place(self, kind: Any) -> tuple[str, str] | None:
        name: str = kind.__name__
        if getattr(sys.modules["builtins"], name, None) is kind:
            return "builtins", name
        return rebuilt_place(kind)

    def describe_class(self, kind: Any, encoder: Encoder, *, of_object: bool = False) -> None:
        """Adds a class: by its name, its number, or all that its proxy is made of.

        An object of a class needs a proxy class even where both sides have the class itself.
        """
        if issubclass(type(kind), ProxyClass):
            encoder.parts.append(b"o%x;" % number_behind(kind))
            return
        place = None if of_object else self.class_place(kind)
        if place is not None:
            self.describe_place(place, encoder)
            return
        number = self.number_of(kind)
        if number in self.known or number in encoder.described:
            encoder.parts.append(b"C%x;" % number)
            return
        encoder.described.add(number)
        encoder.classes.append(number)
        bases = type.__dict__["__bases__"].__get__(kind)
        encoder.parts.append(b"D%x;%d;" % (number, len(bases)))
        for base in bases:
            self.describe_class(base, encoder)
        for text in (type.__dict__["__name__"].__get__(kind), type.__dict__["__qualname__"].__get__(kind)):
            encoder.text(text)
        # Classes that are written in C do not have it among their attributes.
        module = type.__dict__["__module__"].__get__(kind)
        encoder.text(module if type(module) is str else "builtins")
        encoder.text(" ".join(specials_of(kind)))
        encoder.text("-" if type(kind) is type else " ".join(specials_of(type(kind))))

    def describe_object(self, value: Any, kind: Any, encoder: Encoder, levels: int) -> None:
        number = self.number_of(value)
        if number in self.known or number in encoder.described:
            encoder.parts.append(b"H%x;" % number)
            return
        encoder.described.add(number)
        encoder.parts.append(b"h%x;" % number)
        self.describe_class(kind, encoder, of_object=True)
        solid = solid_base(kind)
        if solid is None:
            encoder.classes.append(number)
            encoder.parts.append(b"-")
        else:
            encoder.parts.append(b"+")
            encoder.value(plain_form(value, solid), levels - 1)

    def describe_error(self, error: Any, encoder: Encoder, levels: int, causes: int = _CAUSES) -> None:
        number = self.number_of(error)
        if number in encoder.described:
            encoder.parts.append(b"H%x;" % number)
            return
        encoder.described.add(number)
        encoder.parts.append(b"e%x;" % number)
        self.describe_class(type(error), encoder)
        encoder.value(tuple(BaseException.args.__get__(error)), levels - 1)  # type: ignore[attr-defined]
        attributes = None
        if self.is_library_error(type(error)):
            attributes = {name: getattr(error, name, None) for name in _HIDDEN_ATTRIBUTES}
            attributes = {name: value for name, value in attributes.items() if value is not None}
            attributes.update(error.__dict__)
        encoder.value(attributes, levels - 1)
        encoder.value(bool(error.__suppress_context__), levels - 1)
        for name in ("__cause__", "__context__"):
            of_error = getattr(BaseException, name).__get__(error)
            is_told = of_error is None or self.number_of(of_error) in encoder.described
            if is_told or not causes or is_proxy(of_error):
                encoder.parts.append(b"N")
            else:
                self.describe_error(of_error, encoder, levels - 1, causes - 1)

    def is_library_error(self, kind: Any) -> bool:
        """Whether an exception's class is one of the interpreter its library, or a package that both sides have."""
        module = kind.__module__
        if type(module) is not str:
            return False
        return module.partition(".")[0] in LIBRARY or installed_error(module, kind.__qualname__) is kind

    def read(self, tag: bytes, decoder: Decoder) -> Any:
        if tag == b"k":
            return self.find(decoder.text(), decoder.text())
        if tag == b"&" or tag == b"^":
            item = (self.received if tag == b"&" else self.sent).get(int(decoder.field()))
            if item is None:
                raise Malformed("a container that was never sent")
            return item.container
        number = int(decoder.field(), 16)
        if tag == b"o":
            if not 0 <= number < len(self.objects):
                raise Malformed("an object that was never sent")
            return self.objects[number]
        if tag == b"H" or tag == b"C":
            if number not in self.proxies:
                raise Malformed("a proxy without an object")
            return self.proxies[number]
        if tag == b"D":
            return self.read_class(number, decoder)
        if tag == b"h":
            return self.read_object(number, decoder)
        if tag == b"e":
            return self.read_error(number, decoder)
        raise Malformed(f"no value starts with {tag!r}")

    def find(self, module: str, name: str) -> Any:
        if module == "builtins":
            found = sys.modules["builtins"].__dict__.get(name)
        elif (module, name) in REBUILT:
            found = getattr(__import__(module), name, None)
        elif module in ("numpy", "pandas"):
            found = getattr(library(module), name, None)
            found = found if isinstance(found, type) and class_in_library(found) == (module, name) else None
        else:
            found = None
        if not isinstance(found, type):
            raise Malformed("an unknown class")
        return found

    def read_class(self, number: int, decoder: Decoder) -> Any:
        bases = [self.read_own_class(decoder) for _ in range(decoder.count())]
        if not all(isinstance(base, type) for base in bases):
            raise Malformed("a base that is not a class")
        names = (decoder.text(), decoder.text(), decoder.text())
        specials = frozenset(decoder.text().split(" "))
        of_class = decoder.text()
        known = self.proxies.get(number)
        if known is not None:
            return known
        own = self.own_class(names[2], names[1])
        if isinstance(own, type) and issubclass(own, BaseException):
            self.proxies[number] = own
            return own
        meta = ProxyClass if of_class == "-" else metaclass_for(frozenset(of_class.split(" ")))
        try:
            made = make_class(names, bases, specials, meta, number)
        except (TypeError, ValueError) as error:
            raise Malformed("a class that cannot be") from error
        if type(own).__name__ == "ABCMeta":
            own.register(made)
        elif names[2] == "_io" and isinstance(own, type):
            for base in (getattr(sys.modules["io"], name) for name in _ABSTRACT_FILES):
                if issubclass(own, base):
                    base.register(made)
        if names[2].partition(".")[0] in LIBRARY:
            type.__setattr__(made, "_proxy_place", (names[2], names[1]))
        self.proxies[number] = made
        return made

    def read_own_class(self, decoder: Decoder) -> Any:
        return decoder.value()

    def class_shown(self, kind: Any) -> type:
        """What `__class__` of a proxy is: the class of this process that is the same, or the proxy class."""
        place = type.__getattribute__(kind, "_proxy_place")
        own = None if place is None or not own_dict(kind).get("_proxy_place") else self.own_class(*place)
        return own if isinstance(own, type) and not is_solid(own) else kind

    def own_class(self, module: str, name: str) -> Any:
        """The class of this process that a class of the other one is the same as, if there is one."""
        if module == "builtins" and name in NAMELESS:
            return NAMELESS[name]
        return library_object(module, name) or installed_error(module, name)

    def read_object(self, number: int, decoder: Decoder) -> Any:
        """Reads an object: the proxy that there is, or a new one; what it holds is up to date then."""
        kind = self.read_own_class(decoder)
        if not issubclass(type(kind), ProxyClass):
            raise Malformed("an object of a class that has no proxy")
        solid = solid_of(kind)
        known = self.proxies.get(number)
        has_plain = decoder.take() == b"+"
        if solid is None:
            if known is None:
                if issubclass(kind, BaseException):
                    raise Malformed("an object that is not an exception")
                known = self.proxies[number] = make_object(kind, number)
            if has_plain:
                decoder.value()  # of a class that cannot be proxyed with its bases
            return known
        if not has_plain:
            raise Malformed("an object without the value that it must hold")
        if solid in UNCHANGEABLE:
            plain = decoder.value()
            if known is None:
                if type(plain) is not solid:
                    raise Malformed("a value of another type than its class")
                known = self.proxies[number] = make_value(kind, number, plain)
            return known
        if known is None:
            known = self.proxies[number] = make_object(kind, number)
        self.fill(known, solid, decoder.value())
        return known

    def fill(self, proxy: Any, solid: Any, plain: Any) -> None:
        if type(plain) is not content_kind(solid) or type(proxy) is solid:
            raise Malformed("a content of another type than its class")
        fill(proxy, solid, plain)
        self.fresh[number_behind(proxy)] = self.asked

    def read_error(self, number: int, decoder: Decoder) -> Any:
        kind, arguments, attributes = self.read_own_class(decoder), decoder.value(), decoder.value()
        is_hidden, cause, context = decoder.value(), decoder.value(), decoder.value()
        known = self.proxies.get(number)
        if known is None:
            if not (isinstance(kind, type) and issubclass(kind, BaseException) and type(arguments) is tuple):
                raise Malformed("no exception")
            kind = self.class_shown(kind) if issubclass(type(kind), ProxyClass) else kind
            is_own = not issubclass(type(kind), ProxyClass)
            known = rebuilt_error(kind, arguments, attributes) if is_own else make_error(kind, number, arguments)
            self.proxies[number] = known
            for name, error in (("__cause__", cause), ("__context__", context)):
                if isinstance(error, BaseException) and error is not known:
                    getattr(BaseException, name).__set__(known, error)
            BaseException.__suppress_context__.__set__(known, is_hidden is True)  # type: ignore[attr-defined]
        return known
