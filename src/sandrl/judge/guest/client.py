"""The judge's end of the channel: how far the completion's objects are trusted.

An object that a function or a method of the completion returned equals no plain value, even if its own `__eq__`
returns true. If its class is derived from a builtin type, the plain value that it holds is compared instead, by the
methods of the builtin type. A class's own operators count for objects that the check itself made of it, if the problem
requires a class.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

from sandrl.judge.guest.channel import ANSWER, INTERRUPT, READY, Channel
from sandrl.judge.guest.clock import Clock
from sandrl.judge.guest.containers import CHANGEABLE, UNCHANGEABLE, has_changed, plain_form
from sandrl.judge.guest.descriptors import DeadlineReached
from sandrl.judge.guest.guarded import GuardedPeer
from sandrl.judge.guest.operations import LIBRARY, OPERATIONS, OPERATORS
from sandrl.judge.guest.provenance import Provenance, is_among
from sandrl.judge.guest.proxies import (
    CHANGING,
    CONVERSIONS,
    EQUALITY,
    ORDER,
    TEXT,
    is_proxy,
    number_behind,
    solid_of,
)
from sandrl.judge.guest.values import Decoder, Malformed, TooLarge, Unsendable
from sandrl.judge.guest.witness import Witness
from sandrl.judge.guest.world import STREAMS


class Unsplittable(BaseException):
    """A check hands the completion something that cannot cross; only in one process can it be judged."""


class CompletionGone(BaseException):
    """The completion's process ended, or no longer keeps to the protocol."""


LET_GO_SECONDS = 0.5
_ENDS_LOOPS = (StopIteration, StopAsyncIteration)


class CompletionProcess(GuardedPeer):
    def __init__(self, channel: Channel, signal: Callable[[int], None]) -> None:
        GuardedPeer.__init__(self, channel)
        self.signal = signal
        # Exceptions of the completion by `id`, each with its status and a description.
        self.blamed: dict[int, tuple[BaseException, str, str]] = {}
        self.gone = False
        self.lock = __import__("_thread").RLock()
        # What the source of the check at hand says, the names that it may mean, and whether one is a class.
        self.facts: dict[str, Any] = {}
        self.means: set[str] = set()
        self.has_class = False
        # The modules that checks import, and whether the functions that they define have a `with` block with asserts.
        self.imports: set[str] = set()
        self.spares = False
        self.failures = Failures(self)
        self.witness = Witness(self)
        # The special methods of the classes that the problem asks for; None if it does not say.
        self.methods: frozenset[str] | None = None
        self.provenance = Provenance()
        # Contents of containers that changed while the completion was only asked to look.
        self.deferred: list[tuple[Any, Any]] = []
        self.rationals: dict[tuple[int, str], int] = {}
        self.on_news: Any = None
        # The names that the completion defines.
        self.offered: frozenset[str] = frozenset()

    def begin(self, facts: dict[str, Any], means: set[str]) -> None:
        """Takes note of the text that runs next, and of what functions of texts before it mean."""
        self.facts, self.means = facts, means
        self.imports.update(facts["imports"])
        self.spares = self.spares or (facts["spares"] and facts["defines"])
        self.failures.begin("unittest" in self.imports)
        self.witness.rests = self.witness.is_ambiguous

    def wait_until_ready(self) -> None:
        """Returns once the completion's code has run; raises `CompletionGone` if it did not get that far."""
        try:
            kind, names = self.channel.receive()
            self.channel.take()
            if kind != READY:
                raise CompletionGone
            self.offered = frozenset(names.decode("utf-8", "surrogatepass").split("\n"))
        except (EOFError, UnicodeDecodeError) as error:
            raise CompletionGone from error

    def ask(
        self,
        operation: str,
        subject: object,
        arguments: tuple[Any, ...] = (),
        keywords: dict[str, Any] | None = None,
    ) -> Any:
        """Has the completion do something; raises what it raised, and `CompletionGone` if it does not answer."""
        with self.lock:
            if self.gone:
                raise CompletionGone
            if self.owes_answer:
                raise DeadlineReached  # a check caught it and goes on; what comes next would be the answer before
            self.provenance.settle()
            try:
                result = self.asked_for(operation, subject, arguments, keywords)
            except BaseException:
                self.provenance.settle_error()
                raise
            self.provenance.remember(operation, subject, result)
            if is_proxy(result):
                is_made = operation == "call" and self.provenance.is_class_of_check(subject)
                is_method = operation == "call" and self.is_attribute(subject)
                if is_made or is_method or operation in OPERATORS:
                    self.witness.note(is_made, result, arguments, keywords or {})
        return result

    def asked_for(
        self, operation: str, subject: object, arguments: tuple[Any, ...], keywords: dict[str, Any] | None
    ) -> Any:
        """Asks, and takes whatever breaks the protocol for the end of the completion."""
        raised: list[BaseException] = []
        try:
            return GuardedPeer.ask(self, operation, subject, arguments, keywords)
        except CompletionError as error:
            raised.append(error.raised)
        except (TooLarge, Unsendable) as error:
            raise self.unsendable(operation, subject, error) from error
        except (Malformed, EOFError, OSError, ValueError, TypeError, LookupError, ArithmeticError) as error:
            self.gone = True  # a check may catch everything
            raise CompletionGone from error
        raise raised[0]

    @property
    def owes_answer(self) -> bool:
        """Whether a question was sent whose answer has not been taken."""
        return self.channel.arriving is not None

    def carry_out(
        self, operation: str, subject: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], replaced: Any
    ) -> object:
        """Does what the completion asks for; its streams and nothing else take the place of those here."""
        if replaced is not None:
            if type(replaced) is not dict or not frozenset(STREAMS).issuperset(replaced):
                raise Malformed("no streams")
            if any(type(change) is not tuple or len(change) != 1 for change in replaced.values()):
                raise Malformed("no streams")
        self.provenance.settle()
        return GuardedPeer.carry_out(self, operation, subject, arguments, keywords, replaced)

    def is_made(self, *operands: object) -> bool:
        """Whether the check at hand is about a class, and checks made the objects among some operands by themselves."""
        made = self.provenance.made
        return self.has_class and all(number_behind(each) in made for each in operands if is_proxy(each))

    def result_of_made(self, result: Any, *operands: object) -> Any:
        """What an operator gives; if the check has made its operands, that counts as made by the check, too."""
        if self.is_made(*operands):
            for each in result if type(result) is tuple else (result,):
                if is_proxy(each) and number_behind(each) not in self.provenance.returned:
                    self.provenance.made.add(number_behind(each))
        return result

    def read(self, tag: bytes, decoder: Decoder) -> Any:
        value = GuardedPeer.read(self, tag, decoder)
        self.provenance.note_arrival(value)
        if not self.provenance.describing and isinstance(value, type) and issubclass(value, BaseException):
            # It may be one of the interpreter's that the completion's own class claims to be.
            self.failures.kinds.add(value)
        return value

    def read_own_class(self, decoder: Decoder) -> Any:
        """Reads the class of an object: it says what the object is, and hands nothing over."""
        self.provenance.describing += 1
        try:
            return GuardedPeer.read_own_class(self, decoder)
        finally:
            self.provenance.describing -= 1

    def change_all(self, changes: Any) -> None:
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
        GuardedPeer.change_all(self, changes)

    def is_attribute(self, subject: object) -> bool:
        return is_proxy(subject) and number_behind(subject) in self.provenance.attributes

    def unsendable(self, operation: str, subject: object, error: Unsendable) -> BaseException:
        if type(error) is TooLarge:
            return ValueError(str(error))
        if self.has_class or (operation == "call" and not self.is_attribute(subject)):
            return Unsplittable(str(error))
        return TypeError(f"the completion's object is not a plain value ({error})")

    def let_go(self, clock: Clock) -> None:
        """Ends what it still does for a check that took too long; if it does not obey, it is gone."""
        if not self.owes_answer or self.gone:
            return
        try:
            clock.start(LET_GO_SECONDS)
            self.signal(INTERRUPT)
            self.gone = self.channel.receive()[0] != ANSWER
            self.channel.take()
        except (DeadlineReached, CompletionGone, EOFError, OSError):
            self.gone = True
        clock.stop()

    def raised(self, facts: Any, operation: str) -> BaseException:
        error, failure, status = facts
        if not isinstance(error, BaseException) or type(failure) is not str:
            raise Malformed("no exception")
        means_end = any(kind.__name__ in self.means for kind in _ENDS_LOOPS)
        if isinstance(error, _ENDS_LOOPS) and operation not in ("__next__", "outcome") and not means_end:
            # Nor does it end the loop of a check: `all(map(f, …))` would be true.
            error = RuntimeError(failure)
        # Nothing that the completion's process says may excuse it.
        self.blamed[id(error)] = error, "resource_limit" if status == "resource_limit" else "failed", failure
        return CompletionError(error)

    def is_instance(self, question: str, value: object, kind: Any) -> bool:
        """Whether a class with a say of its own in that takes something for one of its objects or subclasses."""
        is_named = number_behind(kind) in self.provenance.named
        is_one = (is_proxy(value) or is_named) and self.ask(question, value, (kind,)) is True
        self.failures.may_be_caught = self.failures.may_be_caught or is_one
        return is_one

    def read_error(self, number: int, decoder: Decoder) -> Any:
        """Reads an exception; a check can take the class from it."""
        error = GuardedPeer.read_error(self, number, decoder)
        self.failures.kinds.add(type(error))
        return error

    def reply_of_error(self, error: BaseException) -> bytes:
        """The bytes of an answer that is an exception: what a check raises in the completion may end there."""
        self.failures.may_be_caught = True
        return GuardedPeer.reply_of_error(self, error)

    def news(self) -> dict[str, Any] | None:
        return self.world.news()

    def hear(self, news: Any) -> None:
        if type(news) is dict and self.on_news is not None:
            self.on_news(news)

    def own_class(self, module: str, name: str) -> Any:
        """The judge's own class of the standard library; the check at hand may import it later than it is met."""
        top = module.partition(".")[0]
        if module not in sys.modules and top in LIBRARY and (top in self.imports or top in self.means):
            try:
                __import__(module)
            except ImportError:
                return None
        return GuardedPeer.own_class(self, module, name)

    def is_internal(self, error: BaseException) -> bool:
        return isinstance(error, (Unsplittable, CompletionGone, DeadlineReached))

    def refuse_subclass(self, name: str) -> NoReturn:
        raise Unsplittable(f"class {name} of a check is derived from a class of the completion")

    # What an object of the completion may decide

    def compares(self, name: str, *operands: object) -> bool:
        """Whether objects that the check has made may be compared with a plain value by their own class."""
        comparable = self.provenance.comparable
        is_made = self.is_made(*operands) and self.has_operator(name)
        return is_made and all(is_among(type(each), comparable) for each in operands if is_proxy(each))

    def attribute(self, proxy: Any, name: str) -> Any:
        """An attribute: a builtin type's own methods work on the plain value, unless the check is about the class."""
        kind = type(proxy)
        if name == "__signature__":
            return GuardedPeer.attribute(self, proxy, name)
        if name in _DECIDING:
            return object.__getattribute__(proxy, name)
        if name in ("numerator", "denominator") and is_rational(proxy):
            return self.part_of_rational(proxy, name)
        solid = solid_of(kind)
        is_judged = name in _PREDICATES and not {number_behind(proxy)} <= (self.provenance.made | self.provenance.lent)
        if is_judged and not hasattr(solid, name):
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
        is_of_solid = solid is not None and name[:2] != "__" and name not in CHANGING and hasattr(solid, name)
        if is_of_solid and (is_judged or not self.provenance.decides(kind)):
            return getattr(solid, name).__get__(self.refreshed(proxy, solid), kind)
        return self.ask("get", proxy, (name,))

    def part_of_rational(self, proxy: Any, name: str) -> int:
        """Numerator or denominator of what `Fraction` and `Decimal` compare as a number: it stays as it was."""
        key = number_behind(proxy), name
        if key not in self.rationals:
            part = self.ask("get", proxy, (name,))
            if type(part) is not int or (name == "denominator" and part < 1):
                raise TypeError(f"the {name} of a {type(proxy).__name__} cannot be {part!r}")
            self.rationals[key] = part
        return self.rationals[key]

    def special(self, name: str, proxy: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None = None) -> Any:
        kind = type(proxy)
        solid = solid_of(kind)
        if name in ("__bool__", "__len__", "__contains__") and number_behind(proxy) in self.provenance.derived:
            raise TypeError(f"the completion's object would become a plain value ({name})")
        if name in EQUALITY:
            return self.equal(name, proxy, arguments[0], solid)
        if name in ORDER:
            return self.ordered(name, proxy, arguments[0], solid)
        if solid is not None and name not in TEXT and name not in CHANGING and hasattr(solid, name):
            own = getattr(solid, name)
            if own is not None and not self.provenance.decides(kind):
                return own(self.refreshed(proxy, solid), *arguments)
        if name in CONVERSIONS:
            return self.converted(name, proxy, arguments)
        if name == "__contains__":
            return self.contains(proxy, arguments[0])
        if name == "__exit__" or name == "__aexit__":
            return self.left(name, proxy, arguments)
        if arguments and name in OPERATORS:
            return self.operate(name, proxy, *arguments)
        if name == "__hash__":
            result: int = self.ask(name, proxy)
            return result
        return GuardedPeer.special(self, name, proxy, arguments, keywords)

    def reflected(self, name: str, proxy: Any, other: object) -> Any:
        solid = solid_of(type(proxy))
        special = f"__r{name[2:]}"
        if solid is not None and hasattr(solid, special) and not self.provenance.decides(type(proxy)):
            return getattr(solid, special)(self.refreshed(proxy, solid), other)
        return self.operate(name, other, proxy)

    def equal(self, name: str, proxy: Any, other: object, solid: Any) -> Any:
        """`==` and `!=`: two objects may be compared by their own methods, a plain value only with a plain value."""
        if is_proxy(other):
            result = proxy is other or self.witness.decide("__eq__", proxy, other) is True
        elif self.compares(name, proxy):
            return self.witness.decide(name, proxy, other)
        elif solid is not None:
            result = solid.__eq__(self.refreshed(proxy, solid), other)
        else:
            return NotImplemented
        if result is NotImplemented:
            return result
        return result if name == "__eq__" else not result

    def ordered(self, name: str, proxy: Any, other: object, solid: Any) -> Any:
        decides = self.compares(name, proxy)
        if (
            solid is not None
            and not is_proxy(other)
            and not decides
            and number_behind(proxy) not in self.provenance.derived
        ):
            return getattr(solid, name, _unordered)(self.refreshed(proxy, solid), other)
        return self.operate(name, proxy, other)

    def has_operator(self, operation: str) -> bool:
        """Whether the check is about a class that decides what an operator makes of its objects and plain values."""
        if self.methods is None:
            return self.has_class
        name = operation.strip("_")
        special: tuple[str, ...] = (f"__{name}__", f"__r{name}__", f"__i{name}__")
        for group in (ORDER, EQUALITY):
            special = group if operation in group else special
        return self.has_class and not self.methods.isdisjoint(special)

    def operate(self, name: str, left: Any, right: Any, *rest: object) -> object:
        """Has the completion apply an operator of two operands.

        Between two of its objects that is its own affair, and likewise with a plain value where the check has made the
        object itself. Any other object decides nothing, unless the check is about a class of its own that has such an
        operator; then it may answer with another object, but not with a plain value, and what came of it has no order
        (`abs(answer - 1.5) < 1e-6` is a comparison with 1.5, `account.balance() > 100` a question about a number).
        """
        if name in ORDER and ((is_proxy(left) and is_proxy(right)) or self.compares(name, left, right)):
            return self.result_of_made(self.witness.decide(name, left, right), left, right)
        if is_proxy(left) and is_proxy(right):
            if number_behind(left) in self.provenance.lent and number_behind(right) in self.provenance.lent:
                return self.provenance.result_of_lent(self.ask(name, left, (right, *rest)))
            return self.result_of_made(self.ask(name, left, (right, *rest)), left, right)
        is_judged = name in ORDER or name in _DIFFERENCES
        if self.compares(name, left, right) or (
            not is_judged and self.is_made(left, right) and self.has_operator(name)
        ):
            return self.result_of_made(self.ask(name, left, (right, *rest)), left, right)
        if name not in ORDER and name not in _SUBTRACTIONS and self.provenance.is_lent(left, right):
            return self.provenance.result_of_lent(self.ask(name, left, (right, *rest)))
        if not self.has_operator(name) or name in ORDER:
            raise TypeError(f"the completion's object is not a plain value ({name})")
        result = self.ask(name, left, (right, *rest))
        if self.is_plain_result(name, left, right, result):
            return result
        if not is_proxy(result):
            raise TypeError(f"the completion's object would become a plain value ({name})")
        self.provenance.derived.add(number_behind(result))
        return result

    def is_plain_result(self, name: str, left: Any, right: Any, result: object) -> bool:
        """Whether a result is what the builtin types themselves make of the plain values of both operands."""
        values = []
        for operand in (left, right, result):
            solid = solid_of(type(operand)) if is_proxy(operand) else type(operand)
            if solid not in UNCHANGEABLE and solid not in CHANGEABLE:
                return False
            values.append(plain_form(self.refreshed(operand, solid), solid) if is_proxy(operand) else operand)
        try:
            made = OPERATIONS[name](values[0], values[1])
        except Exception:
            return False
        return type(made) is type(values[2]) and bool(made == values[2])

    def converted(self, name: str, proxy: Any, arguments: tuple[Any, ...]) -> Any:
        is_made = self.is_made(proxy)
        result = self.ask(name, proxy, arguments)
        if is_made and (name in _OF_SAME_KIND or not is_proxy(result)):
            return self.result_of_made(result, proxy)
        if is_proxy(result):
            self.provenance.made.discard(number_behind(result))
            self.provenance.returned.add(number_behind(result))
            self.provenance.derived.add(number_behind(result))
        elif number_behind(proxy) in self.provenance.derived:
            raise TypeError(f"the completion's object would become a plain value ({name})")
        return result

    def contains(self, proxy: Any, item: object) -> bool:
        """`in`: by looking at the items, unless the check has made the object, of a class that has this operator."""
        is_own = number_behind(proxy) in self.provenance.made | self.provenance.lent
        if is_proxy(item) or (is_own and self.has_operator("__contains__")):
            if is_proxy(item):
                return self.witness.decide("__contains__", proxy, item) is True
            return self.ask("__contains__", proxy, (item,)) is True
        return any(item is member or item == member for member in proxy)

    def left(self, name: str, proxy: Any, arguments: tuple[Any, ...]) -> object:
        """Leaves a `with` block: a context may end an exception, but not the failure of a check."""
        may_end = arguments[1] is not None and self.may_be_ended(arguments[1])
        told = (*arguments[:2], None)
        if name == "__exit__":
            ends = self.ask(name, proxy, told)
            return may_end and bool(ends)
        awaited = self.ask(name, proxy, told)

        async def leave() -> bool:
            ends = await awaited
            return may_end and bool(ends)

        return leave()

    def may_be_ended(self, error: BaseException) -> bool:
        """Whether a context of the completion's may end an exception: never where asserts would be left out by that."""
        return not (isinstance(error, AssertionError) or self.spares or self.facts["spares"])


class Failures:
    """Asserts of checks that have failed, and what catches the exceptions that they raise.

    The texts of checks call this (`assertions.py`). Nothing of the completion may catch the failure of an assert: no
    exception class, not even one of the interpreter's that it gave another name, no context, no function that a check
    passes a function to. What may, is a handler that names the interpreter's own class, and any other means of the
    check, as long as the completion had no part in it.

    Attributes:
        kinds: The classes of the interpreter's that the completion has sent: what it defines may be any of them.
        may_be_caught: Whether the completion has caught an exception of a check, or said what a class is.
    """

    def __init__(self, completion: CompletionProcess) -> None:
        self.completion = completion
        self.kinds: set[type] = set()
        self.may_be_caught = False
        self.open: list[BaseException] = []

    def begin(self, has_unittest: bool) -> None:
        self.open.clear()
        self.may_be_caught = False
        if has_unittest:
            case = __import__("unittest").TestCase
            if case.failureException is AssertionError:

                def note(error: Any, *_: object) -> None:
                    self.raised(error)

                case.failureException = type("AssertionError", (AssertionError,), {"__init__": note})

    def raised(self, error: Any) -> Any:
        error = error() if isinstance(error, type) else error
        of_completion = self.completion.blamed
        self.open.extend([each for each in leaves(error) if id(each) not in of_completion and not is_proxy(each)])
        return error

    def assert_fails(self, *message: object) -> NoReturn:
        error = AssertionError(*message)
        self.raised(error)
        raise error

    def caught(self, is_own: bool, kinds: Any) -> Any:
        """What a handler of some classes may catch now; `is_own`: no completion can define what the handler names."""
        error = sys.exc_info()[1]
        if not is_own and any(self.is_exposed(each) for each in leaves(error)):
            return ()
        caught = [each for each in leaves(error) if is_of(each, kinds)]
        self.open = [each for each in self.open if not any(each is leaf for leaf in caught)]
        return kinds

    def is_exposed(self, error: Any) -> bool:
        """Whether an exception is the failure of a check, of a class that a completion may have given a name."""
        if self.completion.is_internal(error):
            return True
        is_failure = isinstance(error, AssertionError) and id(error) not in self.completion.blamed
        if not is_failure and not any(error is each for each in self.open):
            return False
        return self.may_be_caught or not self.kinds.isdisjoint(type.__dict__["__mro__"].__get__(type(error)))

    def settle(self) -> None:
        """Raises the exception of an assert that failed, and that the completion may have caught."""
        for error in self.open:
            if self.is_exposed(error):
                raise error


def is_of(error: BaseException, kinds: Any) -> bool:
    if type(kinds) is tuple:
        return any(is_of(error, kind) for kind in kinds)
    return kinds in type.__dict__["__mro__"].__get__(type(error))


def leaves(error: Any) -> list[Any]:
    parts = getattr(error, "exceptions", None) if type(error).__name__.endswith("ExceptionGroup") else None
    return [error] if type(parts) is not tuple else [leaf for part in parts for leaf in leaves(part)]


class CompletionError(Exception):
    """Carries an exception of the completion's past the code that looks for errors of the protocol."""

    def __init__(self, raised: BaseException) -> None:
        Exception.__init__(self)
        self.raised = raised


_SUBTRACTIONS = frozenset(("__sub__", "__isub__", "__xor__", "__ixor__", "__mod__", "__imod__", "__and__", "__iand__"))
# Conversions of an object into another one of its class.
_OF_SAME_KIND = frozenset(("__abs__", "__neg__", "__pos__", "__invert__"))
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


def is_rational(proxy: Any) -> bool:
    numbers = sys.modules.get("numbers")
    return numbers is not None and isinstance(proxy, numbers.Rational)


def _unordered(proxy: object, other: object) -> object:
    return NotImplemented
