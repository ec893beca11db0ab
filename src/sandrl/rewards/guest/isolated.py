"""Judges a completion from another process: checks run here, the completion's functions are called over a pipe.

The design decision: the completion's process never contains a check or an expected value. It is forked before the
checks are read; they then run in this process, in a namespace where the completion's functions are stand-ins. Arguments
and results cross as plain values (`values.py`); an object that is none crosses as an opaque stand-in, which equals no
plain value whatever its own `__eq__` says, and has no say in what an operator makes of it and a plain value unless the
problem asks for a class: what a check compares with never reaches the completion.

Files of this package are shipped as one; the rules of `in_process.py` apply here too.
"""

# B905: Python 3.8 has no `strict`. The rest: see `in_process.py`.
# ruff: noqa: B905, BLE001, SIM105, UP037

import _signal  # type: ignore[import-not-found]
import posix
import sys

MYPY = False
if MYPY:
    from collections.abc import Callable, Iterator
    from typing import Any

    from sandrl.rewards.guest.in_process import Libc, Request, Say
if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.in_process import (
        JUDGES,
        DeadlineReached,
        Judged,
        blame,
        completion_lines,
        describe,
        end_child,
        finish,
        fresh_main,
        judge_child,
        judge_top_level,
        read_exactly,
        read_hidden,
        start_child,
        write_all,
    )
    from sandrl.rewards.guest.values import (
        MAX_BYTES,
        MAX_DEPTH_ASKED,
        REBUILT,
        Malformed,
        Opaque,
        TooLarge,
        Unsendable,
        decode,
        encode,
    )

NOT_NAMES_NOR_CALLS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "_(")}
NOT_NAMES_NOR_CALLS[ord("(")] = "( "
NOT_IDENTIFIERS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")}


class Unsplittable(BaseException):
    """A check hands the completion something that cannot cross; only in one process can it be judged."""


class CompletionGone(BaseException):
    """The completion's process ended, or no longer keeps to the protocol."""


class Channel:
    """Messages over a pair of pipes: four bytes of length, then a value.

    Args:
        reading: Where the other side's messages come from.
        writing: Where ours go.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self.writing = writing

    def send(self, data: bytes) -> None:
        """Sends one encoded value."""
        write_all(self.writing, len(data).to_bytes(4, "little") + data)

    def receive(self) -> bytes:
        """The bytes of the next message."""
        size = int.from_bytes(read_exactly(4, self.reading), "little")
        if size > MAX_BYTES:
            raise EOFError("a message too long")
        return read_exactly(size, self.reading)


def no_number(value: object) -> int:
    """For messages that carry only plain values."""
    raise Unsendable(f"a {type(value).__name__} where only plain values belong")


# ---- in the completion's process -------------------------------------------------------------------------------------


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


def serve(namespace: "dict[str, Any]", channel: Channel) -> None:
    """Answers the judge's requests until it closes the channel."""
    objects = Objects()

    def answer(operation: str, subject: "Any", arguments: "tuple[Any, ...]", keywords: "dict[str, Any]") -> object:
        if operation == "call":
            made = subject(*arguments, **keywords)
            # What a check makes of a class it means to use as one, even if that class is a kind of list.
            return Opaque(made) if isinstance(subject, type) and type(made).__module__ == "__main__" else made
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
            result = answer(operation, subject, arguments, keywords)
            after = encode((arguments, keywords), objects.number_of, MAX_DEPTH_ASKED)
            changed = (arguments, keywords) if before != after else None
            reply = encode((True, result, changed), objects.number_of)
        except Unsendable as error:
            why = f"the result cannot be judged: {error}"
            reply = encode((False, ("ValueError", (), why, "failed"), None), no_number)
        except BaseException as error:
            reply = encode((False, describe_exception(error), None), no_number)
        channel.send(reply)


def _binary(name: str) -> "Callable[[Any, Any], object]":
    def apply(left: object, right: object) -> object:
        result: object = getattr(__import__("operator"), name)(left, right)
        return result

    return apply


BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
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
    }
)


def run_completion(request: "Request", say: "Say", channel: Channel) -> None:
    """The whole life of the completion's process: its code, then answers, then the end."""
    namespace = fresh_main()
    try:
        exec(request["setup"], namespace)
    except BaseException:
        pass  # what it needs may be the completion's; the judge runs it too, and tells
    try:
        exec(request["code"], namespace)
    except SystemExit:
        finish(say, "failed", "it exited before its checks ran")
    except BaseException as error:
        finish(say, *judge_top_level(error))
    channel.send(encode("ready", no_number))
    serve(namespace, channel)
    finish(say, "passed", "")


# ---- in the judge ----------------------------------------------------------------------------------------------------


class Completion:
    """The judge's side of the channel."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.stand_ins: "dict[int, StandIn]" = {}
        self.failure: "str | None" = None
        self.blamed: "dict[int, tuple[Exception, str]]" = {}
        self.gone = False
        # What the check at hand says, and whether it is about a class of the completion's.
        self.check = ""
        self.has_class = False
        self.attributes: "set[int]" = set()
        self.derived: "set[int]" = set()

    def take_failure(self) -> "str | None":
        """What the completion's last exception was, in its own words, once."""
        failure, self.failure = self.failure, None
        return failure

    def wait_until_ready(self) -> None:
        """Returns once the completion's code has run.

        Raises:
            CompletionGone: If it did not get that far.
        """
        try:
            if decode(self.channel.receive(), self.no_stand_in) != "ready":
                raise CompletionGone
        except (EOFError, ValueError, Malformed) as error:
            raise CompletionGone from error

    def no_stand_in(self, number: int, is_callable: bool, name: str) -> object:
        """For messages that carry only plain values."""
        raise Malformed("an object where none belongs")

    def stand_in(self, number: int, is_callable: bool, name: str) -> object:
        """What stands for the completion's object of that number, the same for the same object."""
        known = self.stand_ins.get(number)
        if known is None:
            known = self.stand_ins[number] = StandIn(self, number, name)
        return known

    def number_of(self, value: object) -> int:
        """The number of a stand-in; anything else of the judge's own cannot be handed over."""
        if type(value) is StandIn:
            number: int = object.__getattribute__(value, "_number")
            return number
        raise Unsplittable(f"a {type(value).__name__} cannot be handed to the completion")

    def ask(
        self,
        operation: str,
        subject: object,
        arguments: "tuple[object, ...]" = (),
        keywords: "dict[str, object] | None" = None,
    ) -> "Any":
        """Has the completion do something, and returns what came of it.

        Raises:
            Exception: The builtin exception that the completion's was a kind of.
            CompletionGone: If it does not answer.
        """
        keywords = keywords or {}
        request = self.request(operation, subject, arguments, keywords)
        if self.gone:
            raise CompletionGone
        try:
            self.channel.send(request)
            done, result, changed = decode(self.channel.receive(), self.stand_in)
        except (EOFError, OSError, ValueError, TypeError, OverflowError, ArithmeticError, Malformed) as error:
            self.gone = True  # a check may catch everything
            raise CompletionGone from error
        if not done:
            raise self.exception(result, operation)
        if changed is not None:
            update_in_place((arguments, keywords), changed)
        if operation == "get" and type(result) is StandIn:
            self.attributes.add(self.number_of(result))
        return result

    def request(
        self, operation: str, subject: object, arguments: "tuple[object, ...]", keywords: "dict[str, object]"
    ) -> bytes:
        """The bytes of a question.

        Raises:
            Unsplittable: If the check hands over what cannot cross.
            TypeError: If it does so only because the completion answered with an object in place of a value: a list
                can be sorted by a function here, an object that calls itself one cannot.
        """
        try:
            return encode((operation, subject, arguments, keywords), self.number_of, MAX_DEPTH_ASKED)
        except TooLarge as error:
            raise ValueError(str(error)) from error
        except (Unsendable, Unsplittable) as error:
            is_attribute = type(subject) is StandIn and self.number_of(subject) in self.attributes
            if self.has_class or (operation == "call" and not is_attribute):
                raise Unsplittable(str(error)) from error
            raise TypeError(f"the completion's object is no plain value ({error})") from error

    def operate(self, operation: str, left: object, right: object) -> object:
        """Has the completion apply an operator of two operands.

        Between two of its objects that is its own affair. With a plain value it decides nothing, unless the check is
        about a class of its own; then it may answer with another object, but not with a plain value, and what came of
        it has no order (`abs(answer - 1.5) < 1e-6` is a comparison with 1.5).
        """
        if type(left) is type(right) is StandIn:
            return self.ask(operation, left, (right,))
        is_derived = not self.derived.isdisjoint(map(self.number_of, [x for x in (left, right) if type(x) is StandIn]))
        if not self.has_class or (is_derived and operation in COMPARISONS):
            raise TypeError(f"the completion's object is no plain value ({operation})")
        result = self.ask(operation, left, (right,))
        if operation not in COMPARISONS:
            if type(result) is not StandIn:
                raise TypeError(f"the completion's object becomes a plain value ({operation})")
            self.derived.add(self.number_of(result))
        return result

    def convert(self, operation: str, stand_in: "StandIn") -> "Any":
        """Has the completion make something else of an object."""
        result = self.ask(operation, stand_in)
        if type(result) is StandIn:
            self.derived.add(self.number_of(result))
        elif self.number_of(stand_in) in self.derived:
            raise TypeError(f"the completion's object becomes a plain value ({operation})")
        return result

    def exception(self, facts: "Any", operation: str) -> Exception:
        """The judge's own exception for one of the completion's."""
        try:
            name, arguments, self.failure, status = facts
            kind = getattr(sys.modules["builtins"], name)
        except (AttributeError, TypeError, ValueError) as error:
            raise CompletionGone from error
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            kind = RuntimeError  # SystemExit and the like end nothing here
        if issubclass(kind, (StopIteration, StopAsyncIteration)) and operation != "next" and name not in self.check:
            kind = RuntimeError  # nor does it end the loop of a check: `all(map(f, …))` would be true
        try:
            raised: Exception = kind(*arguments)
        except Exception:
            raised = RuntimeError(self.failure)
        self.blamed[id(raised)] = raised, "resource_limit" if status == "resource_limit" else "failed"
        return raised


def update_in_place(old: "Any", new: "Any") -> bool:
    """Gives containers of the judge the content that the completion gave their copies."""
    if type(old) is not type(new) or type(old) not in (list, tuple, dict, set, bytearray):
        return False
    if type(old) is tuple:
        return len(old) == len(new) and [unchanged_or_updated(a, b) for a, b in zip(old, new)].count(False) == 0
    if type(old) is list:
        old[:] = [a if unchanged_or_updated(a, b) else b for a, b in zip(old, new)] + new[min(len(old), len(new)) :]
    elif type(old) is dict:
        kept = {key: old[key] if key in old and unchanged_or_updated(old[key], new[key]) else new[key] for key in new}
        old.clear()
        old.update(kept)
    elif type(old) is set:
        old.clear()
        old.update(new)
    else:
        old[:] = new
    return True


def unchanged_or_updated(old: object, new: object) -> bool:
    """Whether `old` may stay where it is: nothing about it changed, or it was changed in place."""
    return old is new or update_in_place(old, new)


class StandIn:
    """Stands for an object of the completion; what is done to it is done there."""

    __slots__ = ("_completion", "_name", "_number")

    def __init__(self, completion: Completion, number: int, name: str) -> None:
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
        return hash(("stand-in", object.__getattribute__(self, "_number")))

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
        if type(item) is StandIn or completion.has_class:
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
    for name in BINARY:
        special = name.rstrip("_")

        def forward(self: StandIn, other: object, name: str = name) -> object:
            return operate(self, name, self, other)

        def backward(self: StandIn, other: object, name: str = name) -> object:
            return operate(self, name, other, self)

        setattr(StandIn, f"__{special}__", forward)
        setattr(StandIn, f"__r{special}__", backward)


_operator_methods()


STANDARD_CLASSES = {name: module for module, name in REBUILT}


class Checks:
    """Runs a problem's checks against a completion in another process.

    Args:
        completion: The other process.
        problem: `setup`, `tests`, and `under_test`: the names it asks a completion to define; also `classes`, those of
            them that are classes, where that is known.
    """

    def __init__(self, completion: Completion, problem: "Request") -> None:
        self.completion = completion
        self.tests = problem["tests"]
        self.under_test = frozenset(problem["under_test"])
        self.classes = problem.get("classes")
        self.setup = problem["setup"]
        self.namespace: "dict[str, Any]" = {"__name__": "checks", "__builtins__": sys.modules["builtins"]}
        self.offered: "frozenset[str]" = frozenset()
        self.lent: "set[str]" = set()
        # Words of functions that setup and earlier checks defined: they may mean the completion's objects, too.
        self.kept_words: "frozenset[str]" = frozenset()

    def lend_names(self, text: str) -> None:
        """Puts the completion's objects that a text may mean into the namespace, fresh as they are now."""
        for name in self.lent:
            self.namespace.pop(name, None)
        builtin = sys.modules["builtins"].__dict__
        words = set(text.translate(NOT_IDENTIFIERS).split())
        wanted = (words | self.kept_words) & self.offered
        self.lent = set()
        self.completion.check = text
        self.completion.has_class = any(self.is_class(name) for name in wanted)
        for name in wanted:
            if name in self.namespace or (name in builtin and name not in self.under_test):
                continue
            kind, value = self.completion.ask("global", None, (name,))
            if kind == "module" and value != name:
                continue  # under another name a check cannot mean it
            if kind == "module" or self.means_module(name, text):
                # The judge's own, never the completion's.
                try:
                    value = __import__(name)
                except ImportError:
                    continue
            elif type(value) is StandIn and name in STANDARD_CLASSES and name not in self.under_test:
                # A check that counts with `Counter` and leaves its import to the completion means that class.
                value = getattr(__import__(STANDARD_CLASSES[name]), name) if self.under_test else value
            self.namespace[name] = value
            self.lent.add(name)
        if "def " in text or "lambda" in text or "class " in text:
            self.kept_words |= words

    def is_class(self, name: str) -> bool:
        """Whether a name is that of a class the problem asks for: in the problem's own words, or by its look."""
        if self.classes is not None:
            return name in self.classes
        return (name in self.under_test or not self.under_test) and name[:1].isupper() and name[1:2].islower()

    def means_module(self, name: str, text: str) -> bool:
        """Whether a text means a module of the standard library by a name that the completion gave something else."""
        known = name in getattr(sys, "stdlib_module_names", ()) and name not in self.under_test
        return known and name + "." in text and " " + name + "(" not in " " + text.translate(NOT_NAMES_NOR_CALLS)

    def run_text(self, text: str) -> None:
        """Runs setup or a check; names it defines itself stay defined."""
        self.lend_names(text)
        lent = {name: self.namespace[name] for name in self.lent}
        exec(text, self.namespace)
        # A name that the text bound anew is the check's own from now on.
        self.lent = {name for name in self.lent if self.namespace.get(name) is lent[name]}

    def run(self) -> "tuple[int, str, str]":
        """Runs everything.

        Returns:
            How many checks passed, and the status and detail of the first that did not.

        Raises:
            Unsplittable: If a check cannot be judged from another process.
            CompletionGone: If the completion stopped answering.
        """
        names = self.completion.ask("names", None)
        self.offered = frozenset(name for name in names if type(name) is str) if type(names) is list else frozenset()
        try:
            self.run_text(self.setup)
        except Exception as error:
            return 0, "failed", "the problem's setup fails with this completion: " + describe(error)
        passed, status, detail = 0, "passed", ""
        for number, check in enumerate(self.tests, 1):
            self.completion.take_failure()
            try:
                self.run_text(check)
                # A check that catches everything catches the end of the completion or of its time, too.
                if self.completion.gone:
                    raise CompletionGone
                if not _signal.getitimer(_signal.ITIMER_REAL)[0]:
                    raise DeadlineReached
                passed += 1
            except Exception as error:
                if status == "passed":
                    blamed = self.completion.blamed.get(id(error), (None, "failed"))
                    status = "resource_limit" if isinstance(error, MemoryError) else blamed[1]
                    what = self.completion.take_failure() or describe(error)
                    detail = f"check {number} of {len(self.tests)}: {what}"
        return passed, status, detail


def watch_for_end(pid: int, completion: Completion) -> None:
    """From here on the end of the completion's process raises `CompletionGone`.

    Processes it forked may hold the channel open after it, so the end of the channel is not enough of a sign.
    """

    def on_end(number: int, frame: object) -> None:
        completion.gone = True
        raise CompletionGone

    _signal.signal(_signal.SIGCHLD, on_end)
    if posix.waitid(posix.P_PID, pid, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT) is not None:
        raise CompletionGone


def judge_isolated(request: "Request", call: "Libc | None") -> Judged:
    """Judges a completion whose checks run here, in the supervisor, against a process that never sees them."""
    seconds = request["timeout_seconds"]
    to_read, their_write = posix.pipe()
    their_read, to_write = posix.pipe()

    def body(request: "Request", say: "Say") -> None:
        run_completion(request, say, Channel(their_read, their_write))

    child = start_child(body, request, posix.open("/dev/null", posix.O_RDONLY), call, (their_read, their_write))
    posix.close(their_read)
    posix.close(their_write)
    hidden = read_hidden(request)
    completion = Completion(Channel(to_read, to_write))
    passed, status, detail, left, gone = 0, "passed", "", 0.0, False
    try:
        _signal.setitimer(_signal.ITIMER_REAL, seconds)
        try:
            watch_for_end(child.pid, completion)
            completion.wait_until_ready()
            passed, status, detail = Checks(completion, hidden).run()
        except CompletionGone:
            gone = True
        except Unsplittable as error:
            status, detail = "not_isolated", str(error)
        left, _ = _signal.setitimer(_signal.ITIMER_REAL, 0)
    except DeadlineReached:
        status, detail = "timeout", f"it ran longer than {seconds:g} s"
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    posix.close(to_write)
    posix.close(to_read)
    # It has a moment to flush what it printed.
    ended = end_child(child, min(left, FLUSH_SECONDS), seconds - left)
    if gone:
        status, detail = judge_child(ended, seconds)
        if status in ("passed", "timeout", "invalid_problem", "not_isolated"):
            status, detail = "crashed", "it stopped answering before its checks were done"
    total = len(hidden["tests"])
    if status == "passed" and passed != total:
        status, detail = "failed", f"{total - passed} of {total} checks failed"
    return Judged(status, detail, passed, total, ended.times, ended.stdout, ended.stderr)


FLUSH_SECONDS = 0.5
JUDGES["isolated"] = judge_isolated
