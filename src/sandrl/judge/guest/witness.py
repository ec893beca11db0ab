"""Determines whether the truth of a comparison rests on the word of the completion's own operator alone.

Where a check compares an object of the completion, `==` is a method of the completion, and one that is always true
passes. So the judge asks for the states of objects before it asks for the comparison, and looks for another witness:
the operator of the reference's class, on objects of that class with these states, or, without one, the states
themselves, as plain values. An object that equals a plain value must also differ from other values, among which that
one is hidden. The verdict never changes by this. Where no witness agrees, its trust is weaker.
"""

from __future__ import annotations

import marshal
import posix
from typing import TYPE_CHECKING

from sandrl.judge.guest.containers import plain_form
from sandrl.judge.guest.operations import OPERATIONS
from sandrl.judge.guest.proxies import EQUALITY, ProxyClass, is_proxy, number_behind, solid_of

if TYPE_CHECKING:
    from typing import Any

    from sandrl.judge.guest.client import CompletionProcess

# Of objects in objects.
MOST_STATE_LEVELS = 8
MOST_SOUGHT_ITEMS = 1000


class Undecided(Exception):
    """There is no other witness."""


class Witness:
    """Whether the check at hand rests on the completion's word: whether a comparison of it had no witness."""

    def __init__(self, completion: CompletionProcess) -> None:
        self.completion = completion
        self.rests = False
        self.reference = ""
        self.names: dict[str, Any] | None = None
        # What checks made objects with, by the numbers of these: None if that cannot be compared.
        self.arguments: dict[int, bytes | None] = {}
        # Whether one object was made of different arguments, and objects that operators and methods gave first.
        self.is_ambiguous = False
        self.results: set[int] = set()

    def note(self, made: bool, proxy: object, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Takes note of an object that has arrived, and of what a check has made it with.

        That one object is two, which makes them equal, is the word of the completion alone.
        """
        number = number_behind(proxy)
        if not made:
            if number not in self.arguments:
                self.results.add(number)
            return
        try:
            key: bytes | None = marshal.dumps((arguments, sorted(keywords.items())), 2)
        except (ValueError, TypeError):
            key = None
        if number in self.results or (number in self.arguments and (key is None or self.arguments[number] != key)):
            self.rests = self.is_ambiguous = True
        self.arguments[number] = key

    def decide(self, name: str, left: Any, right: Any) -> Any:
        """Has the completion apply an operator, and looks for another witness of the answer."""
        operands = left, right
        states: list[Any] | None = None
        if not self.rests:
            try:
                states = [self.state(each) for each in operands]
            except Undecided:
                self.rests = True
        if states is not None and not (is_proxy(left) and is_proxy(right)) and name in EQUALITY:
            return self.decide_among(name, left, right, states)
        result = self.completion.ask(name, left, (right,))
        # Another object has no truth yet.
        if states is not None and not is_proxy(result):
            try:
                self.rests = not self.agrees(name, operands, states, bool(result))
            except Undecided:
                self.rests = True
        return result

    def decide_among(self, name: str, left: Any, right: Any, states: list[Any]) -> Any:
        others = decoys_of(right)
        place = posix.urandom(1)[0] % (len(others) + 1)
        is_equal = [self.is_equal(name, left, each) for each in others[:place]]
        result = self.completion.ask(name, left, (right,))
        if is_proxy(result) or (result is True) is not (name == "__eq__"):
            return result  # that they differ is what the judge itself says of an object and a plain value
        is_equal += [self.is_equal(name, left, each) for each in others[place:]]
        try:
            self.rests = self.by_reference("__eq__", states) is not True
        except Undecided:
            self.rests = not is_equal or any(is_equal)
        return result

    def is_equal(self, name: str, left: Any, other: object) -> bool:
        """Whether the completion does not say that an object differs from a plain value."""
        try:
            return self.completion.ask(name, left, (other,)) is not (name == "__ne__")
        except (Exception, SystemExit):
            return True

    def agrees(self, name: str, operands: tuple[Any, ...], states: list[Any], result: bool) -> bool:
        is_same = states[0] == states[1]
        if name == "__eq__" and is_same and not self.tells(operands, states[0]):
            raise Undecided
        try:
            return self.by_reference(name, states) is result
        except Undecided:
            pass
        if name == "__contains__":
            return self.by_items(*operands) is result
        return (is_same if name == "__eq__" else self.by_order(name, states)) is result

    def by_reference(self, name: str, states: list[Any]) -> object:
        """What the reference's class says of objects with these states."""
        if not self.reference:
            raise Undecided
        try:
            if self.names is None:
                self.names = {"__name__": "reference"}
                exec(self.reference, self.names)
            return OPERATIONS[name](*[self.built(state) for state in states])
        except (Exception, SystemExit) as error:
            raise Undecided from error

    def by_order(self, name: str, states: list[Any]) -> object:
        """What the builtin types say of the values that two objects of a class hold, in their order."""
        left, right = states
        if not (is_state(left) and is_state(right) and left.kind is right.kind and [*left.parts] == [*right.parts]):
            raise Undecided
        try:
            return OPERATIONS[name]([*left.parts.values()], [*right.parts.values()])
        except (Exception, SystemExit) as error:
            raise Undecided from error

    def by_items(self, container: Any, item: object) -> bool:
        """Whether an object is among the items of another one, which can be looked at more than once."""
        if not hasattr(type(container), "__iter__") or hasattr(type(container), "__next__"):
            raise Undecided
        try:
            return any(item is each for _, each in zip(range(MOST_SOUGHT_ITEMS), container))
        except (Exception, SystemExit) as error:
            raise Undecided from error

    def tells(self, operands: tuple[Any, ...], state: Any) -> bool:
        """Whether a state says something about an object: others, made with other arguments, have another one."""
        if not is_state(state):
            return True
        numbers = [number_behind(each) for each in operands if is_proxy(each)]
        made = {self.arguments[number] for number in numbers if number in self.arguments}
        others = [
            self.completion.proxies[number]
            for number, arguments in self.arguments.items()
            if number not in numbers and arguments and arguments not in made and number in self.completion.proxies
        ]
        same_kind = [each for each in others if type(each) is state.kind][-MOST_STATE_LEVELS:]
        return bool(state.parts) and not any(self.state(each) == state for each in same_kind)

    def state(self, value: Any, levels: int = MOST_STATE_LEVELS) -> Any:
        """A value with the states of objects in the place of these; `Undecided` if there is none."""
        kind = type(value)
        if not levels:
            raise Undecided
        if is_proxy(value):
            if issubclass(kind, ProxyClass):
                return value
            provenance = self.completion.provenance
            provenance.describing += 1  # it hands nothing over
            try:
                parts = self.completion.ask("state", value)
                solid = solid_of(kind)
                if solid is not None:
                    parts = {**parts, "": plain_form(self.completion.refreshed(value, solid), solid)}
            except Exception as error:
                raise Undecided from error
            finally:
                provenance.describing -= 1
            if type(parts) is not dict:
                raise Undecided
            return State(kind, {name: self.state(part, levels - 1) for name, part in parts.items()})
        if kind is dict:
            return {self.state(key, levels - 1): self.state(part, levels - 1) for key, part in value.items()}
        if kind in (list, tuple, set, frozenset):
            return kind([self.state(part, levels - 1) for part in value])
        return value

    def built(self, state: Any) -> Any:
        kind = type(state)
        if kind is dict:
            return {self.built(key): self.built(part) for key, part in state.items()}
        if kind in (list, tuple, set, frozenset):
            return kind([self.built(part) for part in state])
        if kind is not State:
            return state
        own = (self.names or {})[type.__getattribute__(state.kind, "__name__")]
        parts = {name: self.built(part) for name, part in state.parts.items()}
        made = own.__new__(own, parts.pop("")) if "" in parts else own.__new__(own)
        for name, part in parts.items():
            object.__setattr__(made, name, part)
        return made


def decoys_of(value: Any) -> list[Any]:
    """Plain values like one that differ from it and from each other; none for a kind that has no such values."""
    kind = type(value)
    if kind is bool or value is None:
        return [not value]
    if kind in (int, float, complex):
        others = [value + step * (1 + abs(value) // 2**40) for step in (-2, -1, 1, 2, 10)] if value - value == 0 else []
    elif kind in (str, bytes, list, tuple):
        others = [value[:-1], value[1:], value + value, value + kind(b"1"), kind(b"1") + value]
    elif kind in (set, frozenset):
        others = [value | {step} for step in range(5)]
    elif kind is dict:
        others = [{**value, step: step} for step in range(5)]
    else:
        others = []
    found: list[Any] = []
    # A large one is sent once more, not five times.
    for each in others[: 1 if hasattr(kind, "__len__") and len(value) > MOST_SOUGHT_ITEMS else len(others)]:
        if each != value and each not in found:
            found.append(each)
    return found


class State:
    """The state of an object of the completion: its class, and the values of its attributes by their names."""

    def __init__(self, kind: type, parts: dict[str, Any]) -> None:
        self.kind = kind
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return type(other) is State and other.kind is self.kind and other.parts == self.parts

    def __hash__(self) -> int:
        return hash((id(self.kind), *self.parts))


def is_state(value: object) -> bool:
    return type(value) is State
