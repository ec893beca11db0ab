"""Where the completion's objects come from: created by a check itself, or returned by the completion.

An object that a method or a function returns may pretend to be the value that a check asks for, even if it is `self`,
and even in a list. An object that a check made by calling a class by its name is what the check requires. Objects and
classes are identified by their numbers on the channel.
"""

from __future__ import annotations

from typing import Any

from sandrl.judge.guest.operations import OPERATORS
from sandrl.judge.guest.proxies import CONVERSIONS, ProxyClass, is_proxy, number_behind


class Provenance:
    """What is known of the completion's objects and classes, as sets of their numbers.

    Attributes:
        named: Classes that checks name: their objects do themselves what the class is there for.
        comparable: Those whose own `==` and `<` may compare an object that the check has made with a plain value.
        doubtful: Classes that came in any other way than by their name.
        made: Objects that a check made by calling a class that it names, and that nothing else has returned.
        returned: Objects that came in any other way.
        lent: Objects that checks know by a global name of the completion.
        derived: Objects that came of an operator or a conversion of an object that no check has made.
        attributes: Objects that were an attribute.
    """

    def __init__(self) -> None:
        self.named: set[int] = set()
        self.comparable: set[int] = set()
        self.doubtful: set[int] = set()
        self.made: set[int] = set()
        self.returned: set[int] = set()
        self.lent: set[int] = set()
        self.derived: set[int] = set()
        self.attributes: set[int] = set()
        # Objects and classes in the messages that are being read.
        self.arrived: list[int] = []
        self.arrived_classes: list[int] = []
        # How many descriptions of objects are being read, which name their class without handing it over.
        self.describing = 0

    def note_arrival(self, value: object) -> None:
        if not self.describing and is_proxy(value):
            arrived = self.arrived_classes if issubclass(type(value), ProxyClass) else self.arrived
            arrived.append(number_behind(value))

    def settle(self, own: tuple[int, ...] = ()) -> None:
        """Takes note of what has arrived: nothing of it was made by a check, except its own objects."""
        self.returned.update(self.arrived)
        self.returned.difference_update(own)
        self.made -= self.returned
        self.arrived.clear()

    def settle_error(self) -> None:
        self.doubtful.update(self.arrived_classes)
        self.settle()

    def remember(self, operation: str, subject: object, result: object) -> None:
        """Takes note of the answer to a question: a class in it may take the place of a method."""
        if operation != "global":
            self.doubtful.update(self.arrived_classes)
        self.arrived_classes.clear()
        number = number_behind(result) if is_proxy(result) else -1
        if operation == "get" and number >= 0:
            self.attributes.add(number)
        is_call = operation == "call" and self.is_class_of_check(subject)
        own: list[int] = []
        if is_call or operation in OPERATORS or operation in CONVERSIONS:
            parts = result if type(result) is tuple and not is_call else (result,)
            own = [number_behind(each) for each in parts if is_proxy(each)]
            own = [each for each in own if each not in self.returned and self.arrived.count(each) == 1]
        self.settle(tuple(own))
        if is_call:
            self.made.update(own)

    def is_class_of_check(self, subject: object) -> bool:
        if not issubclass(type(subject), ProxyClass):
            return False
        number = number_behind(subject)
        return number in self.named and number not in self.doubtful

    def result_of_lent(self, result: Any) -> Any:
        """What an operator gives whose operands the check knows by name is used like them."""
        if is_proxy(result):
            self.lent.add(number_behind(result))
        return result

    def is_lent(self, left: Any, right: Any) -> bool:
        """Whether one operand is an object that the check knows by name, and the other one is no number."""
        proxy, other = (left, right) if is_proxy(left) else (right, left)
        return number_behind(proxy) in self.lent and not isinstance(other, (int, float, complex))

    def decides(self, kind: type) -> bool:
        return is_among(kind, self.named)


def is_among(kind: type, numbers: set[int]) -> bool:
    for base in type.__dict__["__mro__"].__get__(kind):
        if issubclass(type(base), ProxyClass) and type.__getattribute__(base, "_proxy_number") in numbers:
            return True
    return False
