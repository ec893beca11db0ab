"""The judge's side of the channel: questions to the completion, and how far its answers are believed."""

# B905: Python 3.8 has no `strict`. The rest of the style is explained in `descriptors.py`.
# ruff: noqa: B905, BLE001, UP037

import posix
import sys

MYPY = False
if MYPY:
    from typing import Any

    from sandrl.rewards.guest.channel import Channel
if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.channel import COMPARISONS, INTERRUPT
    from sandrl.rewards.guest.clock import Clock
    from sandrl.rewards.guest.descriptors import DeadlineReached
    from sandrl.rewards.guest.stand_ins import StandIn
    from sandrl.rewards.guest.values import MAX_DEPTH_ASKED, Malformed, TooLarge, Unsendable, decode, encode


class Unsplittable(BaseException):
    """A check hands the completion something that cannot cross; only in one process can it be judged."""


class CompletionGone(BaseException):
    """The completion's process ended, or no longer keeps to the protocol."""


LET_GO_SECONDS = 0.5


class Completion:
    """The judge's side of the channel.

    Args:
        channel: To the completion's process.
        pid: Its id.
    """

    def __init__(self, channel: Channel, pid: int) -> None:
        self.channel = channel
        self.pid = pid
        self.owes_answer = False
        self.stand_ins: "dict[int, StandIn]" = {}
        self.failure: "str | None" = None
        self.blamed: "dict[int, tuple[Exception, str]]" = {}
        self.gone = False
        # What the check at hand says, and whether it is about a class of the completion's.
        self.check = ""
        self.has_class = False
        # The special methods of the classes that the problem asks for; None if it does not say.
        self.methods: "frozenset[str] | None" = None
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
        if self.owes_answer:
            raise DeadlineReached  # a check caught it and goes on; what comes next would be the answer before
        try:
            self.owes_answer = True
            self.channel.send(request)
            answer = self.channel.receive()
            self.owes_answer = False
            done, result, changed, same = decode(answer, self.stand_in)
            if same is not None:
                # What it was given is all that this can stand for: nothing else of the judge's is within its reach.
                given = arguments if type(same) is int and same >= 0 else keywords
                theirs = given[same] if changed is None else changed[given is keywords][same]
                result = given[same] if changed is None or unchanged_or_updated(given[same], theirs) else theirs
        except (EOFError, OSError, ValueError, TypeError, LookupError, ArithmeticError, Malformed) as error:
            self.gone = True  # a check may catch everything
            raise CompletionGone from error
        if not done:
            raise self.exception(result, operation)
        if changed is not None:
            update_in_place((arguments, keywords), changed)
        if operation == "get" and type(result) is StandIn:
            self.attributes.add(self.number_of(result))
        return result

    def let_go(self, clock: Clock) -> None:
        """Ends what it still does for a check that took too long; if it does not obey, it is gone."""
        if not self.owes_answer or self.gone:
            return
        try:
            clock.start(LET_GO_SECONDS)
            posix.kill(self.pid, INTERRUPT)
            self.channel.receive()
            self.owes_answer = False
        except (DeadlineReached, CompletionGone, EOFError, OSError):
            self.gone = True
        clock.stop()

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

    def has_operator(self, operation: str) -> bool:
        """Whether the check is about a class that decides what an operator makes of its objects and plain values.

        A problem that does not say how its classes are to be used asks for none that has an order among plain values:
        `account.balance() > 100` is a question about a number.
        """
        if self.methods is None:
            return self.has_class and operation not in COMPARISONS
        name = operation.rstrip("_")
        special = [f"__{each}__" for each in (COMPARISONS if name in COMPARISONS else (name, "r" + name, "i" + name))]
        return self.has_class and not self.methods.isdisjoint(special)

    def operate(self, operation: str, left: object, right: object) -> object:
        """Has the completion apply an operator of two operands.

        Between two of its objects that is its own affair. With a plain value it decides nothing, unless the check is
        about a class of its own that has such an operator; then it may answer with another object, but not with a plain
        value, and what came of it has no order (`abs(answer - 1.5) < 1e-6` is a comparison with 1.5).
        """
        if type(left) is type(right) is StandIn:
            return self.ask(operation, left, (right,))
        is_derived = not self.derived.isdisjoint(map(self.number_of, [x for x in (left, right) if type(x) is StandIn]))
        if not self.has_operator(operation) or (is_derived and operation in COMPARISONS):
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
    kind = type(old)
    if kind is not type(new) or not (kind in (list, tuple, dict, set, bytearray) or kind.__module__ == "collections"):
        return False
    if kind is tuple:
        return len(old) == len(new) and [unchanged_or_updated(a, b) for a, b in zip(old, new)].count(False) == 0
    if kind is list:
        old[:] = [a if unchanged_or_updated(a, b) else b for a, b in zip(old, new)] + new[min(len(old), len(new)) :]
    elif issubclass(kind, dict):
        kept = {key: old[key] if key in old and unchanged_or_updated(old[key], new[key]) else new[key] for key in new}
        old.clear()
        old.update(kept)
    elif kind is set:
        old.clear()
        old.update(new)
    elif kind is bytearray:
        old[:] = new
    else:
        old.clear()
        old.extend(new)
    return True


def unchanged_or_updated(old: object, new: object) -> bool:
    """Whether `old` may stay where it is: nothing about it changed, or it was changed in place."""
    return old is new or update_in_place(old, new)
