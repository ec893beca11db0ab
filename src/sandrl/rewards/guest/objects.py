"""One end of the channel: what is done to a mirror here happens to the object in the other process.

Both processes run this. The judge asks about the completion's objects. While the completion answers, it may ask about
objects that a check handed to it: a function, or an object of a class that the check defines. Each end keeps its own
objects by number. Plain values cross as copies (`values.py`); lists and other containers that both ends still use are
kept in step, so that a change on one side is seen on the other one.
"""

# B905: Python 3.8 has no `strict`. The rest of the style is explained in `descriptors.py`.
# ruff: noqa: B905, BLE001, UP037

import sys

MYPY = False
if MYPY:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from sandrl.rewards.guest.channel import Channel
if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.channel import ANSWER, QUESTION
    from sandrl.rewards.guest.mirrors import (
        ARITHMETIC,
        CHANGEABLE,
        CONVERSIONS,
        EQUALITY,
        IN_PLACE,
        NAMELESS,
        ORDER,
        TEXT,
        Mirror,
        fill,
        is_mirror,
        is_solid,
        make_class,
        make_error,
        make_object,
        make_value,
        metaclass_for,
        number_behind,
        plain_form,
        solid_base,
        solid_of,
        specials_of,
        the_peer,
    )
    from sandrl.rewards.guest.values import (
        REBUILT,
        Decoder,
        Encoder,
        Malformed,
        Unsendable,
        change_of,
        has_changed,
        rebuilt_place,
        snapshot,
    )

STREAMS = ("stdin", "stdout", "stderr")
# How many containers stay in step between messages, and how many items one of them may have.
SHARED_CONTAINERS, SHARED_ITEMS = 256, 5_000
# References to a container that nobody but this module has.
_OWN_REFERENCES = 2
# How far the causes of an exception are followed.
_CAUSES = 5
_STEP_SECONDS = 0.002
# What exceptions of the interpreter keep besides their arguments.
_HIDDEN_ATTRIBUTES = ("filename", "filename2", "name", "path")


class Shared:
    """A mutable container that both processes have.

    Attributes:
        container: Ours.
        content: What it held when both were equal last; None for a large one that is not kept in step.
        reference: How it is referred to in a message of ours.
        number: What its sender counts it as.
    """

    __slots__ = ("container", "content", "number", "reference")

    def __init__(self, container: "Any", content: "list[Any] | None", reference: bytes, number: int) -> None:
        self.container = container
        self.content = content
        self.reference = reference
        self.number = number


class Peer:
    """One end of the channel.

    Args:
        channel: To the other process.
    """

    # Whether changes of large containers that arrive are to be found, too.
    watches_large = False

    def __init__(self, channel: "Channel") -> None:
        self.channel = channel
        # Our objects that the other side has mirrors of, and their numbers by `id`.
        self.objects: "list[Any]" = []
        self.numbers: "dict[int, int]" = {}
        # What the other side knows of ours, and our mirrors of theirs, by number.
        self.known: "set[int]" = set()
        self.mirrors: "dict[int, Any]" = {}
        # How often the other side was asked: what a mirror holds may be old after that.
        self.asked = 0
        self.fresh: "dict[int, int]" = {}
        self.drivers: "dict[int, Any]" = {}
        # Containers that both sides have: by `id`, and by the numbers of those that were sent and received first.
        self.shared: "dict[int, Shared]" = {}
        self.sent: "dict[int, Shared]" = {}
        self.received: "dict[int, Shared]" = {}
        self.sent_count = 0
        self.loop: "Any" = None
        # Whether the answer at hand is one to a question that changes nothing.
        self.is_looking = False
        self.streams = {name: getattr(sys, name) for name in STREAMS}
        self.streams["input"] = sys.modules["builtins"].__dict__.get("input")
        the_peer[:] = [self]

    # What crosses

    def number_of(self, value: object) -> int:
        """The number of one of our objects, the same for the same object."""
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return number

    def encode(self, value: "tuple[Any, ...]") -> bytes:
        """The bytes of a message, which also says how the containers that both sides have were changed."""
        changed: "list[Shared]" = []
        unused: "tuple[tuple[int, ...], ...]" = ()
        if self.shared:
            changed = [
                item
                for item in self.shared.values()
                if item.content is not None and has_changed(item.container, item.content)
            ]
            unused = self.unused()
        changes = tuple([(item.container, content_of(item.container)) for item in changed])
        encoder = Encoder(self.describe, self.shared)
        data = encoder.encode(self.sent_count, changes, unused, *value)
        # Nothing of this may stay where the message cannot be sent.
        self.known.update(encoder.classes)
        for item in changed:
            item.content = snapshot(item.container) if len(item.container) <= SHARED_ITEMS else None
        for numbers, items in zip(unused, (self.sent, self.received)):
            for number in numbers:
                self.forget(number, items)
        for index, container in enumerate(encoder.containers):
            self.share(container, self.sent, b"&%d;", self.sent_count + index)
        self.sent_count += len(encoder.containers)
        return data

    def decode(self, data: bytes) -> "tuple[Any, ...]":
        """A message of the other side, without what it says about containers, which is done.

        Raises:
            Malformed: If it is none.
        """
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
        self, container: "Any", items: "dict[int, Shared]", reference: bytes, number: int, is_watched: bool = False
    ) -> None:
        """From now on both sides have a container; a large one is watched only while a call has it as an argument."""
        content = snapshot(container) if is_watched or len(container) <= SHARED_ITEMS else None
        items[number] = self.shared[id(container)] = Shared(container, content, reference % number, number)

    def forget(self, number: int, items: "dict[int, Shared]") -> None:
        """From now on a container is not kept in step."""
        item = items.pop(number, None)
        if item is not None:
            self.shared.pop(id(item.container), None)

    def unused(self) -> "tuple[tuple[int, ...], ...]":
        """The numbers of sent and received containers that are not used here any more, are too large, or too many."""
        getrefcount = sys.getrefcount
        found = []
        for items in (self.sent, self.received):
            numbers = [
                number
                for number, item in items.items()
                if getrefcount(item.container) <= _OWN_REFERENCES or len(item.container) > SHARED_ITEMS
            ]
            if len(items) > SHARED_CONTAINERS:
                numbers.extend([number for number in list(items)[:-SHARED_CONTAINERS] if number not in numbers])
            found.append(tuple(numbers))
        return tuple(found) if found[0] or found[1] else ()

    def change_all(self, changes: "Any") -> None:
        """Gives containers the content that the other side's have now."""
        for container, content in changes:
            self.change(container, content)

    def change(self, container: "Any", content: "Any") -> None:
        """Gives a container the content that the other side's has now.

        Raises:
            Malformed: If that cannot be its content.
        """
        item = self.shared.get(id(container))
        kind = type(container)
        wanted = dict if issubclass(kind, dict) else kind if kind is set or kind is bytearray else list
        changing = change_of(kind)
        if item is None or changing is None or type(content) is not wanted:
            raise Malformed("a change of something else")
        changing(container, content)
        item.content = snapshot(container) if len(container) <= SHARED_ITEMS else None

    def describe(self, value: "Any", encoder: Encoder, levels: int) -> None:
        """Adds what is no plain value to a message."""
        kind = type(value)
        if is_mirror(value):
            encoder.parts.append(b"o%x;" % number_behind(value))
        elif issubclass(kind, type):
            self.describe_class(value, encoder)
        elif issubclass(kind, BaseException):
            self.describe_error(value, encoder, levels)
        else:
            place = self.place_of(value)
            if place is None:
                self.describe_object(value, kind, encoder, levels)
            else:
                encoder.parts.append(b"k")
                encoder.text(place[0])
                encoder.text(place[1])

    def place_of(self, value: "Any") -> "tuple[str, str] | None":
        """Where the other side finds a function that both have."""
        if type(value) is not NAMELESS["builtin_function_or_method"]:
            return None  # an object of a completion's own notices who looks at it
        function: "Any" = value
        module, name = function.__module__, function.__name__
        if module not in COMPUTING:
            return None
        return (module, name) if getattr(sys.modules[module], name, None) is value else None

    def class_place(self, kind: "Any") -> "tuple[str, str] | None":
        """Where the other side finds a class that both have."""
        name: str = kind.__name__
        if getattr(sys.modules["builtins"], name, None) is kind:
            return "builtins", name
        return rebuilt_place(kind)

    def describe_class(self, kind: "Any", encoder: Encoder, *, of_object: bool = False) -> None:
        """Adds a class: by its name, its number, or all that its mirror is made of.

        Args:
            kind: The class.
            encoder: The message.
            of_object: Whether an object of the class follows, which needs a mirror class even where both sides have the
                class itself.
        """
        if issubclass(type(kind), Mirror):
            encoder.parts.append(b"o%x;" % number_behind(kind))
            return
        place = None if of_object else self.class_place(kind)
        if place is not None:
            encoder.parts.append(b"k")
            encoder.text(place[0])
            encoder.text(place[1])
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
        module = type.__dict__["__dict__"].__get__(kind).get("__module__", "builtins")
        encoder.text(module if type(module) is str else "builtins")
        encoder.text(" ".join(specials_of(kind)))
        encoder.text("-" if type(kind) is type else " ".join(specials_of(type(kind))))

    def describe_object(self, value: "Any", kind: "Any", encoder: Encoder, levels: int) -> None:
        """Adds one of our objects, with the plain value that it holds if its class is derived from a builtin type."""
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

    def describe_error(self, error: "Any", encoder: Encoder, levels: int, causes: int = _CAUSES) -> None:
        """Adds an exception: its class, its arguments, its plain attributes, and what caused it."""
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
            if is_told or not causes or is_mirror(of_error):
                encoder.parts.append(b"N")
            else:
                self.describe_error(of_error, encoder, levels - 1, causes - 1)

    def is_library_error(self, kind: "Any") -> bool:
        """Whether an exception's class is one of the interpreter or its library."""
        module = kind.__module__
        return type(module) is str and module.partition(".")[0] in LIBRARY

    def read(self, tag: bytes, decoder: Decoder) -> "Any":
        """Reads, after its tag, what is no plain value.

        Raises:
            Malformed: If it is nothing that was ever sent.
        """
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
            if number not in self.mirrors:
                raise Malformed("a mirror of nothing")
            return self.mirrors[number]
        if tag == b"D":
            return self.read_class(number, decoder)
        if tag == b"h":
            return self.read_object(number, decoder)
        if tag == b"e":
            return self.read_error(number, decoder)
        raise Malformed(f"no value starts with {tag!r}")

    def find(self, module: str, name: str) -> "Any":
        """A class that both sides have."""
        if module == "builtins":
            found = sys.modules["builtins"].__dict__.get(name)
        elif (module, name) in REBUILT:
            found = getattr(__import__(module), name, None)
        else:
            found = None
        if not isinstance(found, type):
            raise Malformed("an unknown class")
        return found

    def read_class(self, number: int, decoder: Decoder) -> "Any":
        """Reads a class, and makes its mirror."""
        bases = [self.read_own_class(decoder) for _ in range(decoder.count())]
        if not all(isinstance(base, type) for base in bases):
            raise Malformed("a base that is no class")
        names = (decoder.text(), decoder.text(), decoder.text())
        specials = frozenset(decoder.text().split(" "))
        of_class = decoder.text()
        known = self.mirrors.get(number)
        if known is not None:
            return known
        own = self.own_class(names[2], names[1])
        if isinstance(own, type) and issubclass(own, BaseException):
            self.mirrors[number] = own
            return own
        meta = Mirror if of_class == "-" else metaclass_for(frozenset(of_class.split(" ")))
        try:
            made = make_class(names, bases, specials, meta, number)
        except (TypeError, ValueError) as error:
            raise Malformed("a class that cannot be") from error
        if type(own).__name__ == "ABCMeta":
            own.register(made)
        if names[2].partition(".")[0] in LIBRARY:
            type.__setattr__(made, "_mirror_place", (names[2], names[1]))
        self.mirrors[number] = made
        return made

    def read_own_class(self, decoder: Decoder) -> "Any":
        """Reads the class of an object, or a base of a class."""
        return decoder.value()

    def class_shown(self, kind: "Any") -> type:
        """What `__class__` of a mirror is: the class of this process that is the same, or the mirror class."""
        place = type.__getattribute__(kind, "_mirror_place")
        own = None if place is None or not own_dict(kind).get("_mirror_place") else self.own_class(*place)
        return own if isinstance(own, type) and not is_solid(own) else kind

    def own_class(self, module: str, name: str) -> "Any":
        """The class of this process that a class of the other one is the same as, if there is one."""
        if module == "builtins" and name in NAMELESS:
            return NAMELESS[name]
        return library_object(module, name)

    def read_object(self, number: int, decoder: Decoder) -> "Any":
        """Reads an object: the mirror that there is, or a new one; what it holds is up to date then."""
        kind = self.read_own_class(decoder)
        if not issubclass(type(kind), Mirror):
            raise Malformed("an object of a class that has no mirror")
        solid = solid_of(kind)
        known = self.mirrors.get(number)
        has_plain = decoder.take() == b"+"
        if solid is None:
            if known is None:
                if issubclass(kind, BaseException):
                    raise Malformed("an exception that is no exception")
                known = self.mirrors[number] = make_object(kind, number)
            if has_plain:
                decoder.value()  # of a class that cannot be mirrored with its bases
            return known
        if not has_plain:
            raise Malformed("an object without the value that it must hold")
        if solid in UNCHANGEABLE_SOLIDS:
            plain = decoder.value()
            if known is None:
                if type(plain) is not solid:
                    raise Malformed("a value of another type than its class")
                known = self.mirrors[number] = make_value(kind, number, plain)
            return known
        if known is None:
            known = self.mirrors[number] = make_object(kind, number)
        self.fill(known, solid, decoder.value())
        return known

    def fill(self, mirror: "Any", solid: "Any", plain: "Any") -> None:
        """Gives a mirror the content that its object has now."""
        wanted = solid if solid in CHANGEABLE else list if solid.__name__ == "deque" else dict
        if type(plain) is not wanted or type(mirror) is solid:
            raise Malformed("a content of another type than its class")
        fill(mirror, solid, plain)
        self.fresh[number_behind(mirror)] = self.asked

    def read_error(self, number: int, decoder: Decoder) -> "Any":
        """Reads an exception."""
        kind, arguments, attributes = self.read_own_class(decoder), decoder.value(), decoder.value()
        is_hidden, cause, context = decoder.value(), decoder.value(), decoder.value()
        known = self.mirrors.get(number)
        if known is None:
            if not (isinstance(kind, type) and issubclass(kind, BaseException) and type(arguments) is tuple):
                raise Malformed("no exception")
            kind = self.class_shown(kind) if issubclass(type(kind), Mirror) else kind
            is_own = not issubclass(type(kind), Mirror)
            known = rebuilt_error(kind, arguments, attributes) if is_own else make_error(kind, number, arguments)
            self.mirrors[number] = known
            for name, error in (("__cause__", cause), ("__context__", context)):
                if isinstance(error, BaseException) and error is not known:
                    getattr(BaseException, name).__set__(known, error)
            BaseException.__suppress_context__.__set__(known, is_hidden is True)  # type: ignore[attr-defined]
        return known

    # Asking

    def ask(
        self,
        operation: str,
        subject: object,
        arguments: "tuple[Any, ...]" = (),
        keywords: "dict[str, Any] | None" = None,
    ) -> "Any":
        """Has the other side do something, and returns what came of it.

        Raises:
            BaseException: What was raised over there.
        """
        keywords = keywords or {}
        pairs = tuple(keywords.items())
        answer = self.exchange(self.encode((operation, subject, arguments, pairs, self.replaced())))
        if operation not in LOOKING:
            self.asked += 1
        self.is_looking = operation in LOOKING
        done, result, same, news = self.decode(answer)
        del answer
        if news is not None:
            self.hear(news)
        if done is not True:
            raise self.raised(result, operation)
        if same is not None:
            return arguments[same] if type(same) is int else keywords[same]
        return result

    def exchange(self, question: bytes) -> bytes:
        """Sends a question and returns its answer; questions that come before it are answered."""
        self.channel.send(QUESTION, question)
        del question
        while True:
            kind, message = self.channel.receive()
            if kind == ANSWER:
                return message
            if kind != QUESTION:
                raise Malformed("neither question nor answer")
            self.serve(message)

    def raised(self, facts: "Any", operation: str) -> BaseException:
        """The exception to raise for one that was raised over there."""
        error = facts[0]
        if not isinstance(error, BaseException):
            raise Malformed("no exception")
        return error

    def replaced(self) -> "dict[str, Any] | None":
        """What took the place of standard streams and of `input` here, and should over there."""
        found = {name: getattr(sys, name) for name in STREAMS if getattr(sys, name) is not self.streams[name]}
        given = sys.modules["builtins"].__dict__.get("input")
        if given is not self.streams["input"]:
            found["input"] = given
        return found or None

    # Answering

    def serve(self, question: bytes) -> None:
        """Does what the other side asks for, and answers."""
        try:
            operation, subject, arguments, pairs, replaced = self.decode(question)
            keywords = dict(pairs)
            result = self.carry_out(operation, subject, arguments, keywords, replaced)
            same = place_among(result, arguments, keywords) if operation == "call" else None
            reply = self.encode((True, None if same is not None else result, same, self.news()))
        except Unsendable as error:
            reply = self.encode((False, self.facts_of(uncarried(error)), None, None))
        except BaseException as error:
            if self.is_internal(error):
                raise
            reply = self.reply_of_error(error)
        self.channel.send(ANSWER, reply)

    def reply_of_error(self, error: BaseException) -> bytes:
        """The bytes of an answer that is an exception."""
        try:
            return self.encode((False, self.facts_of(error), None, self.news()))
        except Exception:
            why = RuntimeError(f"a {type(error).__name__} that cannot be told")
            return self.encode((False, self.facts_of(why), None, None))

    def facts_of(self, error: BaseException) -> "tuple[Any, ...]":
        """What is told of an exception."""
        return (error,)

    def news(self) -> "dict[str, Any] | None":
        """Names that were bound anew here, with their values."""
        return None

    def is_instance(self, question: str, value: object, kind: "Any") -> bool:
        """Whether a class of the other side with a say of its own in that takes something for one of its objects."""
        return self.ask(question, value, (kind,)) is True

    def hear(self, news: "Any") -> None:
        """Takes note of names that were bound anew over there."""

    def is_internal(self, error: BaseException) -> bool:
        """Whether an exception is this process's own affair."""
        return False

    def carry_out(
        self, operation: str, subject: "Any", arguments: "tuple[Any, ...]", keywords: "dict[str, Any]", replaced: "Any"
    ) -> object:
        """Does what was asked for, with the streams that the other side has put in place."""
        restore = put_in_place(replaced) if replaced else None
        try:
            return self.perform(operation, subject, arguments, keywords)
        finally:
            if restore is not None:
                put_in_place(restore)

    def perform(
        self, operation: str, subject: "Any", arguments: "tuple[Any, ...]", keywords: "dict[str, Any]"
    ) -> object:
        """Does something to one of our objects."""
        if operation == "call":
            return subject(*arguments, **keywords)
        if operation == "get":
            return getattr(subject, self.allowed(subject, arguments[0]))
        if operation == "set":
            setattr(subject, self.allowed(subject, arguments[0]), arguments[1])
            return None
        if operation == "delattr":
            delattr(subject, self.allowed(subject, arguments[0]))
            return None
        if operation in ("__exit__", "__aexit__") and arguments[1] is not None:
            arguments = (*arguments[:2], traceback_of(arguments[1]))
        if operation == "plain":
            return plain_form(subject, solid_base(type(subject)) or object)
        if operation in ("task", "step", "outcome", "cancel"):
            return getattr(self, operation)(subject)
        doing = OPERATIONS.get(operation)
        if doing is not None:
            return doing(subject, *arguments)
        return getattr(type(subject), operation)(subject, *arguments, **keywords)

    def allowed(self, subject: object, name: str) -> str:
        """The name of an attribute, if the other side may ask for it."""
        return name

    # Mirrors

    def attribute(self, mirror: "Any", name: str) -> "Any":
        """An attribute of an object of the other side."""
        if name == "__signature__":
            return rebuilt_signature(self.ask("signature", mirror))
        return self.ask("get", mirror, (name,))

    def special(
        self, name: str, mirror: "Any", arguments: "tuple[Any, ...]", keywords: "dict[str, Any] | None" = None
    ) -> "Any":
        """Calls a special method of an object of the other side."""
        if name == "__await__":
            return self.drive(mirror)
        if name == "__call__":
            return self.ask("call", mirror, arguments, keywords)
        if name == "__iter__":
            return self.iterated(mirror)
        return self.ask(name, mirror, arguments, keywords)

    def iterated(self, mirror: "Any") -> "Iterator[Any]":
        """An iterator over an object of the other side."""
        return self.ask("__iter__", mirror)  # type: ignore[no-any-return]

    def reflected(self, name: str, mirror: "Any", other: object) -> "Any":
        """Applies an operator whose left operand is no mirror, or does not know the right one."""
        return self.ask(name, other, (mirror,))

    def refuse_subclass(self, name: str) -> "NoReturn":
        """A class that is derived from a mirror is half here and half there."""
        raise TypeError(f"class {name} cannot be derived from a class of another process")

    def refreshed(self, mirror: "Any", solid: "Any") -> "Any":
        """A mirror whose content is up to date."""
        number = number_behind(mirror)
        if solid not in UNCHANGEABLE_SOLIDS and self.fresh.get(number) != self.asked:
            self.fill(mirror, solid, self.ask("plain", mirror))
        return mirror

    # Coroutines: each process has an event loop of its own, which runs while the other one waits for it.

    def drive(self, mirror: "Any") -> "Any":
        """Awaits an awaitable object of the other side: its loop runs in turn with the one here."""
        task = self.ask("task", mirror)
        while not self.ask("step", task):
            try:
                yield
            except BaseException:
                self.ask("cancel", task)
                raise
        return self.ask("outcome", task)

    def driver(self, mirror: "Any") -> "Any":
        """What runs a coroutine of the other side when `send` is called here."""
        number = number_behind(mirror)
        if number not in self.drivers:
            self.drivers[number] = self.drive(mirror)
        return self.drivers[number]

    def task(self, awaitable: "Any") -> "Any":
        """A task of our own loop that awaits an object."""
        asyncio = __import__("asyncio")

        async def wait() -> object:
            return await awaitable

        if self.loop is None:
            self.loop = asyncio.new_event_loop()
        return self.loop.create_task(wait())

    def step(self, task: "Any") -> bool:
        """Runs our loop until a task is done, but not for long; returns whether it is."""
        events = __import__("asyncio").events
        outer = events._get_running_loop()
        events._set_running_loop(None)
        try:
            if not task.done():
                timer = self.loop.call_later(_STEP_SECONDS, self.loop.stop)
                task.add_done_callback(self.stop_loop)
                self.loop.run_forever()
                task.remove_done_callback(self.stop_loop)
                timer.cancel()
        finally:
            events._set_running_loop(outer)
        return bool(task.done())

    def stop_loop(self, task: object) -> None:
        """Ends a step."""
        self.loop.stop()

    def outcome(self, task: "Any") -> object:
        """What a task returned."""
        return task.result()

    def cancel(self, task: "Any") -> None:
        """Cancels a task, and lets it clean up."""
        task.cancel()
        for _ in range(5):
            if self.step(task):
                return


# Modules of the standard library; before Python 3.10 the interpreter does not know them all.
LIBRARY = frozenset(getattr(sys, "stdlib_module_names", ("builtins", "json", "asyncio", "decimal", "queue", "re")))
UNCHANGEABLE_SOLIDS = frozenset((int, str, float, complex, bytes, tuple, frozenset))


def put_in_place(replaced: "dict[str, Any]") -> "dict[str, Any]":
    """Replaces standard streams and `input`; returns what they were."""
    builtins = sys.modules["builtins"].__dict__
    before = {name: builtins["input"] if name == "input" else getattr(sys, name) for name in replaced}
    for name, value in replaced.items():
        if name == "input":
            builtins["input"] = value
        else:
            setattr(sys, name, value)
    return before


# Questions that change nothing, as far as a check can expect.
LOOKING = frozenset(
    (*ORDER, *EQUALITY, *TEXT, *CONVERSIONS, "__hash__", "__bool__", "__len__", "__contains__", "plain", "isinstance")
)
# Modules of functions that do nothing but compute with what they are given.
COMPUTING = frozenset(("_operator", "math", "cmath"))


def uncarried(error: Unsendable) -> ValueError:
    """The exception that takes the place of a result that cannot cross."""
    return ValueError(f"the result cannot be judged: {error}")


def own_dict(kind: "Any") -> "dict[str, Any]":
    """What a class itself defines."""
    return type.__dict__["__dict__"].__get__(kind)  # type: ignore[no-any-return]


def library_object(module: str, name: str) -> "Any":
    """An object of the standard library, if its module is loaded here."""
    if module.partition(".")[0] not in LIBRARY:
        return None
    found: "Any" = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def rebuilt_error(kind: "Any", arguments: "tuple[Any, ...]", attributes: "Any") -> BaseException:
    """An exception of the interpreter or its library, made anew."""
    try:
        error: "Any" = kind(*arguments) if kind.__module__ == "builtins" else kind.__new__(kind, *arguments)
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


def traceback_of(error: BaseException) -> "Any":
    """A traceback of this process for an exception of the other one."""
    try:
        raise error
    except BaseException:
        return error.__traceback__


def signature_of(subject: "Any") -> "list[tuple[Any, ...]]":
    """The parameters of a function: name, kind, and a default in a list if there is one."""
    inspect = __import__("inspect")
    return [
        (each.name, int(each.kind), [] if each.default is inspect.Parameter.empty else [each.default])
        for each in inspect.signature(subject).parameters.values()
    ]


def rebuilt_signature(parameters: "list[tuple[Any, ...]]") -> "Any":
    """The signature of a function of the other side."""
    inspect = __import__("inspect")
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect._ParameterKind(kind), default=default[0] if default else inspect._empty)
            for name, kind, default in parameters
        ]
    )


def content_of(container: "Any") -> object:
    """A container's content, as a container that was never sent."""
    if isinstance(container, dict):
        return dict(container)
    if type(container) is set:
        return set(container)
    return bytearray(container) if type(container) is bytearray else list(container)


def place_among(result: object, arguments: "tuple[Any, ...]", keywords: "dict[str, Any]") -> "int | str | None":
    """Where among its arguments a call's result is, if it is one of them."""
    for number, argument in enumerate(arguments):
        if argument is result:
            return number
    for name, argument in keywords.items():
        if argument is result:
            return name
    return None


def _operations() -> "dict[str, Callable[..., Any]]":
    operator = __import__("_operator")
    found: "dict[str, Callable[..., Any]]" = {
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
        "copy": lambda subject: __import__("copy").copy(subject),
        "deepcopy": lambda subject: __import__("copy").deepcopy(subject),
    }
    names: "tuple[str, ...]" = (
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
