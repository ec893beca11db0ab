# === dataclass-basic entry_point=Point
from dataclasses import dataclass


@dataclass
class Point:
    x: float
    y: float = 0.0
# --- asserts
assert Point(1, 2) == Point(1, 2)
assert Point(1) == Point(1, 0.0)
assert repr(Point(1, 2)) == "Point(x=1, y=2)"
assert Point(1, 2) != (1, 2)
assert Point.__match_args__ == ("x", "y")
# --- test
p = Point(1)
p.y = 7
assert p == Point(1, 7)

# === dataclass-order-frozen
from dataclasses import dataclass, field


@dataclass(order=True, frozen=True)
class Task:
    priority: int
    name: str = field(compare=False)
    tags: tuple = ()
# --- wrong
from dataclasses import dataclass


@dataclass(order=True)
class Task:
    name: str
    priority: int
# --- test
import heapq
tasks = [Task(2, "b"), Task(1, "a"), Task(3, "c")]
assert min(tasks).name == "a"
assert [t.name for t in sorted(tasks, reverse=True)] == ["c", "b", "a"]
assert Task(1, "x") == Task(1, "y")
assert len({Task(1, "x"), Task(1, "y")}) == 1
assert Task(1, "a") < Task(1, "a", ("z",))
# --- test
from dataclasses import FrozenInstanceError
try:
    Task(1, "a").priority = 5
except FrozenInstanceError:
    pass
else:
    raise AssertionError("frozen")

# === dataclass-default-factory
from dataclasses import dataclass, field
from typing import Dict, List


@dataclass
class Cart:
    owner: str
    items: List[str] = field(default_factory=list)
    prices: Dict[str, int] = field(default_factory=dict, repr=False)

    def add(self, item, price):
        self.items.append(item)
        self.prices[item] = price
        return self

    @property
    def total(self):
        return sum(self.prices.values())
# --- test
a, b = Cart("a"), Cart("b")
a.add("x", 3).add("y", 4)
assert a.total == 7
assert b.items == []
assert a.items == ["x", "y"]
assert repr(a) == "Cart(owner='a', items=['x', 'y'])"

# === dataclass-post-init-and-initvar
from dataclasses import InitVar, dataclass, field


@dataclass
class Rect:
    w: int
    h: int
    scale: InitVar[int] = 1
    area: int = field(init=False)

    def __post_init__(self, scale):
        if self.w <= 0 or self.h <= 0:
            raise ValueError("sides must be positive")
        self.w *= scale
        self.h *= scale
        self.area = self.w * self.h
# --- asserts
assert Rect(2, 3).area == 6
assert Rect(2, 3, scale=2).area == 24
assert Rect(1, 1, 5) == Rect(5, 5)

# === dataclass-helpers
from dataclasses import dataclass, field, asdict, astuple, replace


@dataclass
class Address:
    city: str
    zip: str = "0"


@dataclass
class Person:
    name: str
    address: Address
    friends: list = field(default_factory=list)
# --- test
from dataclasses import asdict, astuple, fields, is_dataclass, replace
p = Person("Al", Address("Ulm"))
assert asdict(p) == {"name": "Al", "address": {"city": "Ulm", "zip": "0"}, "friends": []}
assert astuple(p) == ("Al", ("Ulm", "0"), [])
assert is_dataclass(p) and is_dataclass(Person)
assert [f.name for f in fields(Person)] == ["name", "address", "friends"]
q = replace(p, name="Bo")
assert q.name == "Bo" and q.address is p.address

# === dataclass-slots-kw-only
from dataclasses import dataclass, KW_ONLY


@dataclass(slots=True)
class Conn:
    host: str
    _: KW_ONLY
    port: int = 80
    tls: bool = False

    @property
    def url(self):
        return f"http{'s' if self.tls else ''}://{self.host}:{self.port}"
# --- test
assert Conn("h", port=8080, tls=True).url == "https://h:8080"
assert Conn("h") == Conn("h", port=80)
try:
    Conn("h", 80)
except TypeError:
    pass
else:
    raise AssertionError("keyword only")

# === dataclass-subclassed-in-check
from dataclasses import dataclass


@dataclass
class Node:
    value: int

    def doubled(self):
        return self.value * 2
# --- test
from dataclasses import dataclass
@dataclass
class Named(Node):
    name: str = ""
n = Named(4, "four")
assert n.doubled() == 8
assert n == Named(4, "four")

# === pattern-matching-on-completion-class
from dataclasses import dataclass


@dataclass
class Circle:
    r: float


@dataclass
class Rect:
    w: float
    h: float


def area(shape):
    match shape:
        case Circle(r):
            return 3 * r * r
        case Rect(w=w, h=h):
            return w * h
        case [*shapes]:
            return sum(map(area, shapes))
# --- asserts
assert area(Circle(2)) == 12
assert area(Rect(2, 3)) == 6
assert area([Circle(1), Rect(1, 1)]) == 4
# --- test
match Rect(4, 5):
    case Circle(r=r):
        raise AssertionError
    case Rect(w, h):
        assert (w, h) == (4, 5)

# === abc-abstract
from abc import ABC, abstractmethod


class Shape(ABC):
    @abstractmethod
    def area(self) -> float: ...

    @property
    @abstractmethod
    def name(self) -> str: ...

    def __str__(self):
        return f"{self.name}: {self.area()}"


class Square(Shape):
    name = "square"

    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side ** 2
# --- test
assert str(Square(3)) == "square: 9"
try:
    Shape()
except TypeError as e:
    assert "abstract" in str(e)
else:
    raise AssertionError("Shape is abstract")
# --- test
import inspect
assert inspect.isabstract(Shape) and not inspect.isabstract(Square)
assert Shape.__abstractmethods__ == {"area", "name"}
# --- test
class Dot(Shape):
    name = "dot"
    def area(self):
        return 0
assert str(Dot()) == "dot: 0"

# === abc-collections-mixins
from collections.abc import MutableMapping, MutableSequence, Set


class CaseDict(MutableMapping):
    def __init__(self, *args, **kw):
        self._d = {}
        self.update(*args, **kw)

    def __getitem__(self, k): return self._d[k.lower()]
    def __setitem__(self, k, v): self._d[k.lower()] = v
    def __delitem__(self, k): del self._d[k.lower()]
    def __iter__(self): return iter(self._d)
    def __len__(self): return len(self._d)


class Typed(MutableSequence):
    def __init__(self, kind, items=()):
        self.kind, self._items = kind, []
        self.extend(items)

    def __getitem__(self, i): return self._items[i]
    def __setitem__(self, i, v): self._items[i] = self._check(v)
    def __delitem__(self, i): del self._items[i]
    def __len__(self): return len(self._items)
    def insert(self, i, v): self._items.insert(i, self._check(v))

    def _check(self, v):
        if not isinstance(v, self.kind):
            raise TypeError(f"{self.kind.__name__} expected")
        return v
# --- test
d = CaseDict(A=1)
d["B"] = 2
assert d["b"] == 2 and "a" in d
assert dict(d) == {"a": 1, "b": 2}
assert d.pop("A") == 1
# --- test
t = Typed(int, [1, 2])
t.append(3)
t += [4]
assert list(t) == [1, 2, 3, 4]
assert t.pop() == 4

# === abc-set-algebra
from collections.abc import Set


class ListSet(Set):
    def __init__(self, items=()):
        self.items = []
        for i in items:
            if i not in self.items:
                self.items.append(i)

    def __contains__(self, x): return x in self.items
    def __iter__(self): return iter(self.items)
    def __len__(self): return len(self.items)
# --- asserts
assert list(ListSet([3, 1, 3]) & ListSet([1, 2])) == [1]
assert ListSet([1, 2]) == {2, 1}
assert list(ListSet([2, 1]) | {5}) == [2, 1, 5]
assert isinstance(ListSet([1]) - {1}, ListSet)
assert {1, 2} >= ListSet([1])

# === protocol-runtime-checkable
from typing import Protocol, runtime_checkable


@runtime_checkable
class Quacks(Protocol):
    def quack(self) -> str: ...


class Duck:
    def quack(self):
        return "Quack"


def make_noise(thing: Quacks) -> str:
    if not isinstance(thing, Quacks):
        raise TypeError("does not quack")
    return thing.quack()
# --- test
assert make_noise(Duck()) == "Quack"
class Robot:
    def quack(self):
        return "beep"
assert make_noise(Robot()) == "beep"
assert isinstance(Robot(), Quacks)

# === generic-class
from typing import Generic, Iterator, List, Optional, TypeVar

T = TypeVar("T")


class Stack(Generic[T]):
    def __init__(self) -> None:
        self._items: List[T] = []

    def push(self, item: T) -> None:
        self._items.append(item)

    def pop(self) -> T:
        if not self._items:
            raise IndexError("pop from empty stack")
        return self._items.pop()

    def peek(self) -> Optional[T]:
        return self._items[-1] if self._items else None

    def __iter__(self) -> Iterator[T]:
        return reversed(self._items)

    def __len__(self) -> int:
        return len(self._items)
# --- test
s = Stack[int]()
s.push(1); s.push(2)
assert list(s) == [2, 1] and len(s) == 2
assert s.pop() == 2 and s.peek() == 1
# --- test
assert Stack[int].__origin__ is Stack

# === newtype-and-annotations
from __future__ import annotations

from typing import NewType, Union, get_type_hints

UserId = NewType("UserId", int)


class Repo:
    limit: int = 10

    def find(self, id: UserId | None) -> dict[str, int]:
        return {"id": id or 0}
# --- test
import typing
assert UserId(5) == 5
assert Repo().find(UserId(3)) == {"id": 3}
assert Repo.__annotations__ == {"limit": "int"}
assert typing.get_type_hints(Repo) == {"limit": int}
assert Repo.find.__annotations__["return"] == "dict[str, int]"

# === simplenamespace-result
from types import SimpleNamespace


def stats(values):
    values = sorted(values)
    return SimpleNamespace(low=values[0], high=values[-1], mean=sum(values) / len(values))
# --- asserts
assert stats([3, 1, 2]).low == 1
assert stats([1, 2]) == stats([2, 1])
assert vars(stats([4])) == {"low": 4, "high": 4, "mean": 4.0}
from types import SimpleNamespace; assert stats([1]) == SimpleNamespace(low=1, high=1, mean=1.0)

# === nested-classes-and-class-attributes
class Outer:
    registry = []
    LIMIT = 5

    class Inner:
        kind = "inner"

        def __init__(self, v):
            self.v = v

    def make(self, v):
        item = self.Inner(v)
        Outer.registry.append(item)
        return item
# --- test
o = Outer()
i = o.make(3)
assert isinstance(i, Outer.Inner)
assert Outer.registry == [i] and Outer.registry[0] is i
assert Outer.Inner.kind == "inner" and i.kind == "inner"
o.LIMIT = 7
assert Outer.LIMIT == 5 and o.LIMIT == 7
Outer.LIMIT = 9
assert Outer().LIMIT == 9 and o.LIMIT == 7

# === wrong-dataclass-mutable-default-shared wrong
class Cart:
    def __init__(self, items=[]):
        self.items = items

    def add(self, x):
        self.items.append(x)
# --- test
a, b = Cart(), Cart()
a.add(1)
assert b.items == []

# === wrong-frozen wrong
from dataclasses import dataclass


@dataclass
class P:
    x: int
# --- test
try:
    P(1).x = 2
except AttributeError:
    pass
else:
    raise AssertionError("frozen expected")

# === wrong-abstract wrong
class Shape:
    def area(self):
        raise NotImplementedError
# --- test
try:
    Shape()
except TypeError:
    pass
else:
    raise AssertionError("abstract expected")
