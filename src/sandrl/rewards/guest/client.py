"""The judge's end of the channel: how far the completion's objects are believed.

An object that a function or a method of the completion returned equals no plain value, whatever its own `__eq__` says.
If its class is derived from a builtin type, the plain value that it holds is compared instead, by the methods of the
builtin type. Own operators of a class count for objects that the check itself made of it, where the problem asks for a
class.
"""

# The style is explained in `descriptors.py`.
# ruff: noqa: BLE001, SIM102, SIM905, UP037

import posix
import sys

MYPY = False
if MYPY:
    from typing import Any, NoReturn

    from sandrl.rewards.guest.channel import Channel
if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.channel import ANSWER, INTERRUPT, READY
    from sandrl.rewards.guest.clock import Clock
    from sandrl.rewards.guest.descriptors import DeadlineReached
    from sandrl.rewards.guest.mirrors import (
        CHANGEABLE,
        CHANGING,
        CONVERSIONS,
        EQUALITY,
        NAMELESS,
        ORDER,
        SPECIALS,
        TEXT,
        Mirror,
        is_mirror,
        number_behind,
        plain_form,
        solid_of,
    )
    from sandrl.rewards.guest.objects import Peer
    from sandrl.rewards.guest.operations import COMPUTING, LIBRARY, OPERATIONS, STREAMS, UNCHANGEABLE_SOLIDS
    from sandrl.rewards.guest.values import (
        Decoder,
        Malformed,
        TooLarge,
        Unsendable,
        has_changed,
        rebuilt_place,
    )


class Unsplittable(BaseException):
    """A check hands the completion something that cannot cross; only in one process can it be judged."""


class CompletionGone(BaseException):
    """The completion's process ended, or no longer keeps to the protocol."""


LET_GO_SECONDS = 0.5
_ENDS_LOOPS = (StopIteration, StopAsyncIteration)
# The module that classes and functions of checks belong to.
CHECKS = "checks"
# What an object of the judge's own may never be asked for, whatever its class: the way to what a check expects.
_REVEALING = frozenset(
    "gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_await cr_origin ag_frame ag_code ag_await tb_frame tb_next"
    " f_back f_globals f_locals f_builtins f_code".split()
)
_OF_FUNCTIONS = frozenset(("__name__", "__qualname__", "__doc__", "__module__", "__defaults__", "__annotations__"))


class Parameters:
    """What a completion may know of the code of a check's function.

    Args:
        code: The code.
    """

    def __init__(self, code: "Any") -> None:
        count = code.co_argcount + code.co_kwonlyargcount
        self.co_argcount, self.co_kwonlyargcount = code.co_argcount, code.co_kwonlyargcount
        self.co_posonlyargcount = code.co_posonlyargcount
        self.co_name, self.co_flags, self.co_varnames = code.co_name, code.co_flags, code.co_varnames[:count]


class Completion(Peer):
    """The judge's end of the channel.

    Args:
        channel: To the completion's process.
        pid: Its id.
    """

    def __init__(self, channel: "Channel", pid: int) -> None:
        Peer.__init__(self, channel)
        self.pid = pid
        self.owes_answer = False
        # Exceptions of the completion by `id`, each with its status and a description.
        self.blamed: "dict[int, tuple[BaseException, str, str]]" = {}
        self.gone = False
        self.lock = __import__("_thread").RLock()
        # What the check at hand says, and whether it is about a class of the completion's.
        self.check = ""
        self.has_class = False
        # The special methods of the classes that the problem asks for; None if it does not say.
        self.methods: "frozenset[str] | None" = None
        # Numbers of classes that checks name: their objects do themselves what the class is there for.
        self.named: "set[int]" = set()
        # Those whose own `==` and `<` may compare an object that the check has made with a plain value.
        self.comparable: "set[int]" = set()
        self.attributes: "set[int]" = set()
        self.derived: "set[int]" = set()
        # Numbers of objects that a check made by calling a class that it names, and that nothing else has returned.
        self.made: "set[int]" = set()
        # Numbers of objects that came in any other way, and of classes that did.
        self.returned: "set[int]" = set()
        self.doubtful: "set[int]" = set()
        # Numbers of the objects and of the classes in the messages that are being read.
        self.arrived: "list[int]" = []
        self.arrived_classes: "list[int]" = []
        # How many descriptions of objects are being read, which name their class without handing it over.
        self.describing = 0
        # Contents of containers that changed while the completion was only asked to look.
        self.deferred: "list[tuple[Any, Any]]" = []
        self.rationals: "dict[tuple[int, str], int]" = {}
        # Texts that define functions: what is in them may run in any check.
        self.helpers: "list[str]" = []
        # Numbers of objects that checks know by a global name of the completion.
        self.lent: "set[int]" = set()
        self.on_news: "Any" = None

    def wait_until_ready(self) -> None:
        """Returns once the completion's code has run.

        Raises:
            CompletionGone: If it did not get that far.
        """
        try:
            if self.channel.receive()[0] != READY:
                raise CompletionGone
        except EOFError as error:
            raise CompletionGone from error

    def ask(
        self,
        operation: str,
        subject: object,
        arguments: "tuple[Any, ...]" = (),
        keywords: "dict[str, Any] | None" = None,
    ) -> "Any":
        """Has the completion do something, and returns what came of it.

        Raises:
            BaseException: What the completion raised.
            CompletionGone: If it does not answer.
        """
        with self.lock:
            if self.gone:
                raise CompletionGone
            if self.owes_answer:
                raise DeadlineReached  # a check caught it and goes on; what comes next would be the answer before
            self.settle(())
            try:
                result = self.asked_for(operation, subject, arguments, keywords)
            except BaseException:
                # What an exception carries was returned, too.
                self.doubtful.update(self.arrived_classes)
                self.settle(())
                raise
            self.remember(operation, subject, result)
        if operation == "get" and catches_failures(result) and self.catches():
            raise AttributeError(f"{arguments[0]} would catch the failure of a check")
        return result

    def settle(self, own: "tuple[int, ...]") -> None:
        """Takes note of what has arrived: nothing of it was made by a check, except its own objects."""
        self.returned.update(self.arrived)
        self.returned.difference_update(own)
        self.made -= self.returned
        self.arrived.clear()

    def remember(self, operation: str, subject: object, result: object) -> None:
        """Remembers where the objects of the completion come from.

        What a method or a function returns may be a value that the check asks for, even if it is `self`, and even in a
        list. A class that the completion hands over may take the place of a method.
        """
        if operation != "global":
            self.doubtful.update(self.arrived_classes)
        self.arrived_classes.clear()
        number = number_behind(result) if is_mirror(result) else -1
        if operation == "get" and number >= 0:
            self.attributes.add(number)
        is_call = operation == "call" and self.is_class_of_check(subject)
        own: "list[int]" = []
        if is_call or operation in _OPERATORS or operation in CONVERSIONS:
            parts = result if type(result) is tuple and not is_call else (result,)
            own = [number_behind(each) for each in parts if is_mirror(each)]
            own = [each for each in own if each not in self.returned and self.arrived.count(each) == 1]
        self.settle(tuple(own))
        if is_call:
            self.made.update(own)

    def is_class_of_check(self, subject: object) -> bool:
        """Whether something is a class that the check knows by its own name, and in no other way."""
        if not issubclass(type(subject), Mirror):
            return False
        number = number_behind(subject)
        return number in self.named and number not in self.doubtful

    def catches(self) -> bool:
        """Whether the check at hand catches exceptions."""
        return "except" in self.check or "suppress" in self.check or "aises" in self.check

    def is_made(self, *operands: object) -> bool:
        """Whether a check made the objects among some operands by itself."""
        return self.has_class and all(number_behind(each) in self.made for each in operands if is_mirror(each))

    def asked_for(
        self, operation: str, subject: object, arguments: "tuple[Any, ...]", keywords: "dict[str, Any] | None"
    ) -> "Any":
        """Asks, and takes whatever breaks the protocol for the end of the completion."""
        raised: "list[BaseException]" = []
        try:
            return Peer.ask(self, operation, subject, arguments, keywords)
        except CompletionError as error:
            raised.append(error.raised)
        except (TooLarge, Unsendable) as error:
            raise self.unsendable(operation, subject, error) from error
        except (Malformed, EOFError, OSError, ValueError, TypeError, LookupError, ArithmeticError) as error:
            self.gone = True  # a check may catch everything
            raise CompletionGone from error
        raise raised[0]

    def exchange(self, question: bytes) -> bytes:
        """Sends a question and returns its answer."""
        self.owes_answer = True
        answer = Peer.exchange(self, question)
        self.owes_answer = False
        return answer

    def carry_out(
        self, operation: str, subject: "Any", arguments: "tuple[Any, ...]", keywords: "dict[str, Any]", replaced: "Any"
    ) -> object:
        """Does what the completion asks for; its streams and nothing else take the place of those here."""
        if replaced is not None and (type(replaced) is not dict or not {*STREAMS, "input"}.issuperset(replaced)):
            raise Malformed("no streams")
        self.settle(())
        return Peer.carry_out(self, operation, subject, arguments, keywords, replaced)

    def perform(
        self, operation: str, subject: "Any", arguments: "tuple[Any, ...]", keywords: "dict[str, Any]"
    ) -> object:
        """Does something to an object of a check, and to nothing else: the completion may send any question.

        Raises:
            AttributeError: If it may not be done.
        """
        is_handed = self.is_handed_over(subject)
        if not is_handed and operation in _OF_TWO:
            is_handed = bool(arguments) and self.is_handed_over(arguments[0])
        if not is_handed or operation not in _QUESTIONS:
            raise AttributeError(f"a {type(subject).__name__} of the judge has nothing to do with {operation!r}")
        if operation in _OF_CLASSES and isinstance(subject, type) and subject.__module__ != CHECKS:
            raise AttributeError(f"class {subject.__name__} is none of the check's")
        if operation == "get" and arguments[0] == "__code__" and type(subject) is NAMELESS["function"]:
            # Of a function's code only its parameters are told.
            return Parameters(getattr(subject, arguments[0]))
        if operation == "set" or operation == "delattr":
            self.refuse_change(subject, arguments[0])
        result = Peer.perform(self, operation, subject, arguments, keywords)
        # The completion may read the attributes of an object, but sets them one by one.
        return dict(result) if operation == "get" and arguments[0] == "__dict__" else result  # type: ignore[call-overload]

    def is_handed_over(self, value: object) -> bool:
        """Whether something is an object of the judge's that a check has handed over."""
        return id(value) in self.numbers and self.objects[self.numbers[id(value)]] is value

    def refuse_change(self, subject: "Any", name: str) -> None:
        """Refuses to change what an object of a check does; what it holds may be changed.

        Raises:
            AttributeError: If the name is that of a method, or of the interpreter's.
        """
        kind = subject if isinstance(subject, type) else type(subject)
        for base in type.__dict__["__mro__"].__get__(kind):
            own = type.__dict__["__dict__"].__get__(base).get(name)
            has_setter = hasattr(type(own), "__set__") and kind is not subject
            if own is not None and not has_setter and (callable(own) or hasattr(type(own), "__get__")):
                raise AttributeError(f"{name!r} of a {kind.__name__} of the check cannot be changed")
        if name[:2] == "__":
            raise AttributeError(f"{name!r} of a {kind.__name__} of the check cannot be changed")

    def change_all(self, changes: "Any") -> None:
        """Changes containers, but none while the completion was only asked to look at something.

        Two answers to questions about one result would be about different contents.
        """
        if self.is_looking:
            self.deferred.extend([(container, content) for container, content in changes])
            return
        for container, content in self.deferred:
            item = self.shared.get(id(container))
            if item is not None and (item.content is None or not has_changed(container, item.content)):
                self.change(container, content)
        self.deferred.clear()
        Peer.change_all(self, changes)

    def read(self, tag: bytes, decoder: "Decoder") -> "Any":
        """Reads what is no plain value, and takes note of the objects and classes that arrive."""
        value = Peer.read(self, tag, decoder)
        if not self.describing and is_mirror(value):
            arrived = self.arrived_classes if issubclass(type(value), Mirror) else self.arrived
            arrived.append(number_behind(value))
        return value

    def read_own_class(self, decoder: "Decoder") -> "Any":
        """Reads the class of an object: it says what the object is, and hands nothing over."""
        self.describing += 1
        try:
            return Peer.read_own_class(self, decoder)
        finally:
            self.describing -= 1

    def serve(self, question: bytes) -> None:
        """Answers a question of the completion's; an error of a check's own function is its answer."""
        self.owes_answer = False
        try:
            Peer.serve(self, question)
        finally:
            self.owes_answer = True

    def unsendable(self, operation: str, subject: object, error: Unsendable) -> BaseException:
        """What follows where something of the judge's cannot be handed over."""
        if type(error) is TooLarge:
            return ValueError(str(error))
        is_attribute = is_mirror(subject) and number_behind(subject) in self.attributes
        if self.has_class or (operation == "call" and not is_attribute):
            return Unsplittable(str(error))
        return TypeError(f"the completion's object is no plain value ({error})")

    def let_go(self, clock: "Clock") -> None:
        """Ends what it still does for a check that took too long; if it does not obey, it is gone."""
        if not self.owes_answer or self.gone:
            return
        try:
            clock.start(LET_GO_SECONDS)
            posix.kill(self.pid, INTERRUPT)
            self.gone = self.channel.receive()[0] != ANSWER
            self.owes_answer = False
        except (DeadlineReached, CompletionGone, EOFError, OSError):
            self.gone = True
        clock.stop()

    def raised(self, facts: "Any", operation: str) -> BaseException:
        """The exception to raise for one of the completion's."""
        error, failure, status = facts
        if not isinstance(error, BaseException) or type(failure) is not str:
            raise Malformed("no exception")
        if isinstance(error, _ENDS_LOOPS) and operation not in ("__next__", "outcome"):
            # Nor does it end the loop of a check: `all(map(f, …))` would be true.
            if not any(kind.__name__ in self.check for kind in _ENDS_LOOPS):
                error = RuntimeError(failure)
        known = ("resource_limit", "not_isolated")
        self.blamed[id(error)] = error, status if status in known else "failed", failure
        return CompletionError(error)

    def is_instance(self, question: str, value: object, kind: "Any") -> bool:
        """Whether a class with a say of its own in that takes something for one of its objects or subclasses."""
        is_named = number_behind(kind) in self.named
        return (is_mirror(value) or is_named) and self.ask(question, value, (kind,)) is True

    def hear(self, news: "Any") -> None:
        """Takes note of global names that the completion bound anew."""
        if type(news) is dict and self.on_news is not None:
            self.on_news(news)

    def own_class(self, module: str, name: str) -> "Any":
        """The judge's own class of the standard library; the check at hand may import it later than it is met."""
        if module not in sys.modules and module.partition(".")[0] in LIBRARY and module in self.check:
            try:
                __import__(module)
            except ImportError:
                return None
        return Peer.own_class(self, module, name)

    def is_internal(self, error: BaseException) -> bool:
        """Whether an exception is the judge's own affair."""
        return isinstance(error, (Unsplittable, CompletionGone, DeadlineReached))

    # What of the judge's own crosses

    def find(self, module: str, name: str) -> "Any":
        """A class, or a function of the library's that only computes, that both sides have."""
        if module in COMPUTING:
            found = getattr(__import__(module), name, None)
            if type(found) is type(len):
                return found
        return Peer.find(self, module, name)

    def place_of(self, value: "Any") -> "tuple[str, str] | None":
        """Where the completion finds a function of the standard library."""
        if type(value) not in _NAMED_KINDS:
            return None
        return self.class_place(getattr(value, "__objclass__", None), "." + value.__name__) or library_place(value)

    def class_place(self, kind: "Any", rest: str = "") -> "tuple[str, str] | None":
        """Where the completion finds a class of the standard library."""
        if kind is None:
            return None
        place = rebuilt_place(kind) or library_place(kind)
        return None if place is None else (place[0], place[1] + rest)

    def allowed(self, subject: object, name: str) -> str:
        """The name of an attribute of the judge's own, if the completion may ask for it.

        Raises:
            AttributeError: If it may not.
        """
        is_of_check = type(subject).__module__ == CHECKS or (isinstance(subject, type) and subject.__module__ == CHECKS)
        if name[:1] == "_":
            may = name in _OF_FUNCTIONS or (is_of_check and name in ("__dict__", "__init__"))
            may = may or (name in SPECIALS and (is_of_check or type(subject) not in _CODE_KINDS))
        else:
            may = name not in _REVEALING and type(subject) is not type(sys)
        if not may:
            raise AttributeError(f"{type(subject).__name__!r} object has no attribute {name!r}")
        return name

    def refuse_subclass(self, name: str) -> "NoReturn":
        """A class of a check that is derived from one of the completion's would be half here and half there."""
        raise Unsplittable(f"class {name} of a check is derived from a class of the completion")

    # What an object of the completion may decide

    def decides(self, kind: type) -> bool:
        """Whether a class is, or is derived from, one that a check names."""
        return self.is_among(kind, self.named)

    def is_among(self, kind: type, numbers: "set[int]") -> bool:
        """Whether a class, or one of its bases, is among some."""
        for base in type.__dict__["__mro__"].__get__(kind):
            if issubclass(type(base), Mirror) and type.__getattribute__(base, "_mirror_number") in numbers:
                return True
        return False

    def compares(self, name: str, *operands: object) -> bool:
        """Whether objects that the check has made may be compared with a plain value by their own class."""
        if not (self.is_made(*operands) and self.has_operator(name)):
            return False
        return all(self.is_among(type(each), self.comparable) for each in operands if is_mirror(each))

    def attribute(self, mirror: "Any", name: str) -> "Any":
        """An attribute: a builtin type's own methods work on the plain value, unless the check is about the class."""
        kind = type(mirror)
        if name == "__signature__":
            return Peer.attribute(self, mirror, name)
        if name in _DECIDING:
            return object.__getattribute__(mirror, name)
        if name in ("numerator", "denominator") and is_rational(mirror):
            return self.part_of_rational(mirror, name)
        solid = solid_of(kind)
        is_judged = name in _PREDICATES and not {number_behind(mirror)} <= (self.made | self.lent)
        if is_judged and not hasattr(solid, name):
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
        if solid is not None and name[:2] != "__" and name not in CHANGING and hasattr(solid, name):
            if is_judged or not self.decides(kind):
                return getattr(solid, name).__get__(self.refreshed(mirror, solid), kind)
        return self.ask("get", mirror, (name,))

    def part_of_rational(self, mirror: "Any", name: str) -> int:
        """Numerator or denominator of what `Fraction` and `Decimal` compare as a number: it stays what it was at first.

        Raises:
            TypeError: If it cannot be one of a number.
        """
        key = number_behind(mirror), name
        if key not in self.rationals:
            part = self.ask("get", mirror, (name,))
            if type(part) is not int or (name == "denominator" and part < 1):
                raise TypeError(f"the {name} of a {type(mirror).__name__} cannot be {part!r}")
            self.rationals[key] = part
        return self.rationals[key]

    def special(
        self, name: str, mirror: "Any", arguments: "tuple[Any, ...]", keywords: "dict[str, Any] | None" = None
    ) -> "Any":
        """Calls a special method, as far as the completion may decide what it gives."""
        kind = type(mirror)
        solid = solid_of(kind)
        if name in ("__bool__", "__len__", "__contains__") and number_behind(mirror) in self.derived:
            raise TypeError(f"the completion's object becomes a plain value ({name})")
        if name in EQUALITY:
            return self.equal(name, mirror, arguments[0], solid)
        if name in ORDER:
            return self.ordered(name, mirror, arguments[0], solid)
        if solid is not None and name not in TEXT and name not in CHANGING and hasattr(solid, name):
            own = getattr(solid, name)
            if own is not None and not self.decides(kind):
                return own(self.refreshed(mirror, solid), *arguments)
        if name in CONVERSIONS:
            return self.converted(name, mirror, arguments)
        if name == "__contains__":
            return self.contains(mirror, arguments[0])
        if name == "__exit__" or name == "__aexit__":
            return self.left(name, mirror, arguments)
        if arguments and name in _OPERATORS:
            return self.operate(name, mirror, *arguments)
        if name == "__hash__":
            result: int = self.ask(name, mirror)
            return result
        return Peer.special(self, name, mirror, arguments, keywords)

    def reflected(self, name: str, mirror: "Any", other: object) -> "Any":
        """Applies an operator whose right operand is an object of the completion."""
        solid = solid_of(type(mirror))
        special = f"__r{name[2:]}"
        if solid is not None and hasattr(solid, special) and not self.decides(type(mirror)):
            return getattr(solid, special)(self.refreshed(mirror, solid), other)
        return self.operate(name, other, mirror)

    def equal(self, name: str, mirror: "Any", other: object, solid: "Any") -> "Any":
        """`==` and `!=`: two objects may be compared by their own methods, a plain value only with a plain value."""
        if is_mirror(other):
            result = mirror is other or self.ask("__eq__", mirror, (other,)) is True
        elif self.compares(name, mirror):
            return self.ask(name, mirror, (other,))
        elif solid is not None:
            result = solid.__eq__(self.refreshed(mirror, solid), other)
        else:
            return NotImplemented
        if result is NotImplemented:
            return result
        return result if name == "__eq__" else not result

    def ordered(self, name: str, mirror: "Any", other: object, solid: "Any") -> "Any":
        """`<` and the like."""
        decides = self.compares(name, mirror)
        if solid is not None and not is_mirror(other) and not decides and number_behind(mirror) not in self.derived:
            return getattr(solid, name, _unordered)(self.refreshed(mirror, solid), other)
        return self.operate(name, mirror, other)

    def has_operator(self, operation: str) -> bool:
        """Whether the check is about a class that decides what an operator makes of its objects and plain values."""
        if self.methods is None:
            return self.has_class
        name = operation.strip("_")
        special: "tuple[str, ...]" = (f"__{name}__", f"__r{name}__", f"__i{name}__")
        for group in (ORDER, EQUALITY):
            special = group if operation in group else special
        return self.has_class and not self.methods.isdisjoint(special)

    def operate(self, name: str, left: "Any", right: "Any", *rest: object) -> object:
        """Has the completion apply an operator of two operands.

        Between two of its objects that is its own affair, and likewise with a plain value where the check has made the
        object itself. Any other object decides nothing, unless the check is about a class of its own that has such an
        operator; then it may answer with another object, but not with a plain value, and what came of it has no order
        (`abs(answer - 1.5) < 1e-6` is a comparison with 1.5, `account.balance() > 100` a question about a number).
        """
        if is_mirror(left) and is_mirror(right):
            if number_behind(left) in self.lent and number_behind(right) in self.lent:
                return self.result_of_lent(self.ask(name, left, (right, *rest)))
            return self.result_of_made(self.ask(name, left, (right, *rest)), left, right)
        is_judged = name in ORDER or name in _DIFFERENCES
        if self.compares(name, left, right) or (
            not is_judged and self.is_made(left, right) and self.has_operator(name)
        ):
            return self.result_of_made(self.ask(name, left, (right, *rest)), left, right)
        if name not in ORDER and name not in _SUBTRACTIONS and self.is_lent(left, right):
            return self.result_of_lent(self.ask(name, left, (right, *rest)))
        if not self.has_operator(name) or name in ORDER:
            raise TypeError(f"the completion's object is no plain value ({name})")
        result = self.ask(name, left, (right, *rest))
        if self.is_plain_result(name, left, right, result):
            return result
        if not is_mirror(result):
            raise TypeError(f"the completion's object becomes a plain value ({name})")
        self.derived.add(number_behind(result))
        return result

    def result_of_made(self, result: "Any", *operands: object) -> "Any":
        """What an operator gives whose operands the check has made counts as made by the check, too."""
        for each in result if type(result) is tuple else (result,):
            if is_mirror(each) and self.is_made(*operands) and number_behind(each) not in self.returned:
                self.made.add(number_behind(each))
        return result

    def is_plain_result(self, name: str, left: "Any", right: "Any", result: object) -> bool:
        """Whether a result is what the builtin types themselves make of the plain values of both operands."""
        values = []
        for operand in (left, right, result):
            solid = solid_of(type(operand)) if is_mirror(operand) else type(operand)
            if solid not in UNCHANGEABLE_SOLIDS and solid not in CHANGEABLE:
                return False
            values.append(plain_form(self.refreshed(operand, solid), solid) if is_mirror(operand) else operand)
        try:
            made = OPERATIONS[name](values[0], values[1])
        except Exception:
            return False
        return type(made) is type(values[2]) and bool(made == values[2])

    def result_of_lent(self, result: "Any") -> "Any":
        """What an operator gives whose operands the check knows by name is used like them."""
        if is_mirror(result):
            self.lent.add(number_behind(result))
        return result

    def is_lent(self, left: "Any", right: "Any") -> bool:
        """Whether one operand is an object that the check knows by name, and the other one is no number."""
        mirror, other = (left, right) if is_mirror(left) else (right, left)
        return number_behind(mirror) in self.lent and not isinstance(other, (int, float, complex))

    def converted(self, name: str, mirror: "Any", arguments: "tuple[Any, ...]") -> "Any":
        """Has the completion make something else of an object."""
        is_made = self.is_made(mirror)
        result = self.ask(name, mirror, arguments)
        if is_made and (name in _OF_SAME_KIND or not is_mirror(result)):
            return self.result_of_made(result, mirror)
        if is_mirror(result):
            self.made.discard(number_behind(result))
            self.returned.add(number_behind(result))
            self.derived.add(number_behind(result))
        elif number_behind(mirror) in self.derived:
            raise TypeError(f"the completion's object becomes a plain value ({name})")
        return result

    def contains(self, mirror: "Any", item: object) -> bool:
        """`in`: by looking at the items, unless the check has made the object, of a class that has this operator."""
        is_own = number_behind(mirror) in self.made | self.lent
        if is_mirror(item) or (is_own and self.has_operator("__contains__")):
            return self.ask("__contains__", mirror, (item,)) is True
        return any(item is member or item == member for member in mirror)

    def left(self, name: str, mirror: "Any", arguments: "tuple[Any, ...]") -> object:
        """Leaves a `with` block: a context may end an exception, but not the failure of a check."""
        may_end = arguments[1] is not None and self.may_be_ended(arguments[1])
        told = (*arguments[:2], None)
        if name == "__exit__":
            ends = self.ask(name, mirror, told)
            return may_end and bool(ends)
        awaited = self.ask(name, mirror, told)

        async def leave() -> bool:
            ends = await awaited
            return may_end and bool(ends)

        return leave()

    def may_be_ended(self, error: BaseException) -> bool:
        """Whether a context of the completion's may end an exception: never where asserts would be left out by that."""
        if isinstance(error, AssertionError):
            return False
        ast = __import__("ast")
        for text in (self.check, *self.helpers):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, (ast.With, ast.AsyncWith)):
                    if any(isinstance(inner, ast.Assert) for statement in node.body for inner in ast.walk(statement)):
                        return False
        return True


class CompletionError(Exception):
    """Carries an exception of the completion's past the code that looks for errors of the protocol."""

    def __init__(self, raised: BaseException) -> None:
        Exception.__init__(self)
        self.raised = raised


_OPERATORS = frozenset(
    f"__{prefix}{name}__"
    for prefix in ("", "i")
    for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split()
)
_SUBTRACTIONS = frozenset(("__sub__", "__isub__", "__xor__", "__ixor__", "__mod__", "__imod__", "__and__", "__iand__"))
# Conversions of an object into another one of its class.
_OF_SAME_KIND = frozenset(("__abs__", "__neg__", "__pos__", "__invert__"))
# Questions about two objects, of which the second one may be the check's.
_OF_TWO = frozenset((*_OPERATORS, *ORDER, *EQUALITY, "isinstance", "issubclass"))
# Questions that a class answers by what it is: the check's own classes do, those of the library are everywhere.
_OF_CLASSES = frozenset(("call", "get", "set", "delattr"))
_QUESTIONS = frozenset(
    "call get set delattr dir copy deepcopy plain task step outcome cancel isinstance issubclass signature".split()
) | (SPECIALS - {"__call__"})
# Special methods that a check may call by name.
_DECIDING = frozenset((*EQUALITY, *ORDER, "__contains__", "__bool__"))
# Operators that say how far two values are apart.
_DIFFERENCES = frozenset(
    f"__{prefix}{name}__" for prefix in ("", "i") for name in "sub xor mod and truediv floordiv divmod".split()
)
# Methods of builtin types that say yes or no: an object that is no such value would say yes.
_PREDICATES = frozenset(
    name
    for kind in (str, bytes, set, float)
    for name in dir(kind)
    if name[:2] == "is" or name in ("startswith", "endswith")
)
_CODE_KINDS = (*NAMELESS.values(), type)
_NAMED_KINDS = (type(len), type(str.upper), type(lambda: 0), type(str.__len__))


def catches_failures(value: "Any") -> bool:
    """Whether an `except` with a value would catch the failure of an assert."""
    if type(value) is tuple:
        return any(map(catches_failures, value))
    return any(value is kind for kind in (AssertionError, Exception, BaseException))


def is_rational(mirror: "Any") -> bool:
    """Whether numbers of the library take an object for a fraction."""
    numbers = sys.modules.get("numbers")
    return numbers is not None and isinstance(mirror, numbers.Rational)


def _unordered(mirror: object, other: object) -> object:
    return NotImplemented


def library_place(value: "Any") -> "tuple[str, str] | None":
    """Where a class or function of the standard library is found."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if type(module) is not str or type(name) is not str or module.partition(".")[0] not in LIBRARY:
        return None
    found: "Any" = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if found is value else None
