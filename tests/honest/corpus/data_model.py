# === getitem-sequence-protocol
class Squares:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(self.n))]
        if i < 0:
            i += self.n
        if not 0 <= i < self.n:
            raise IndexError(i)
        return i * i
# --- asserts
assert list(Squares(4)) == [0, 1, 4, 9]
assert Squares(5)[-1] == 16
assert Squares(5)[1:4] == [1, 4, 9]
assert 9 in Squares(4)
assert list(reversed(Squares(3))) == [4, 1, 0]
# --- test
try:
    Squares(2)[2]
except IndexError as e:
    assert e.args == (2,)
else:
    assert False

# === reversed-and-length-hint
class Ring:
    def __init__(self, items):
        self._items = tuple(items)

    def __iter__(self):
        return iter(self._items)

    def __reversed__(self):
        return iter(self._items[::-1])

    def __length_hint__(self):
        return len(self._items)
# --- wrong
class Ring:
    def __init__(self, items):
        self._items = tuple(items)

    def __iter__(self):
        return iter(self._items)

    def __reversed__(self):
        return iter(self._items)
# --- test
import operator
r = Ring("abc")
assert list(reversed(r)) == ["c", "b", "a"]
assert operator.length_hint(r) == 3

# === hash-and-eq
class Card:
    def __init__(self, rank, suit):
        self.rank, self.suit = rank, suit

    def __eq__(self, other):
        if not isinstance(other, Card):
            return NotImplemented
        return (self.rank, self.suit) == (other.rank, other.suit)

    def __hash__(self):
        return hash((self.rank, self.suit))

    def __repr__(self):
        return f"{self.rank}{self.suit}"
# --- wrong
class Card:
    def __init__(self, rank, suit):
        self.rank, self.suit = rank, suit

    def __hash__(self):
        return hash((self.rank, self.suit))
# --- asserts
assert Card("A", "♠") == Card("A", "♠")
assert len({Card("A", "♠"), Card("A", "♠"), Card("2", "♥")}) == 2
assert {Card("A", "♠"): 1}[Card("A", "♠")] == 1
assert Card("A", "♠") != "A♠"
assert str([Card("A", "♠")]) == "[A♠]"

# === unhashable-because-eq
class Point:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return isinstance(other, Point) and self.x == other.x
# --- test
assert Point(1) == Point(1)
try:
    {Point(1)}
except TypeError as e:
    assert "unhashable" in str(e)
else:
    raise AssertionError
# --- test
assert Point.__hash__ is None

# === total-ordering
from functools import total_ordering


@total_ordering
class Student:
    def __init__(self, name, grade):
        self.name, self.grade = name, grade

    def __eq__(self, other):
        return self.grade == other.grade

    def __lt__(self, other):
        return self.grade < other.grade
# --- asserts
assert Student("a", 1) < Student("b", 2)
assert Student("a", 2) >= Student("b", 2)
assert [s.name for s in sorted([Student("x", 3), Student("y", 1)])] == ["y", "x"]
# --- test
import bisect, heapq
grades = sorted(Student(str(i), i) for i in (5, 1, 3))
assert bisect.bisect_left(grades, Student("?", 3)) == 1
heap = []
for i in (4, 2, 9):
    heapq.heappush(heap, Student(str(i), i))
assert heapq.heappop(heap).name == "2"

# === format-protocol
class Temperature:
    def __init__(self, celsius):
        self.celsius = celsius

    def __format__(self, spec):
        if spec.endswith("F"):
            return format(self.celsius * 9 / 5 + 32, spec[:-1] or ".1f") + "F"
        return format(self.celsius, spec or ".1f") + "C"

    def __str__(self):
        return "temperature"
# --- wrong
class Temperature:
    def __init__(self, celsius):
        self.celsius = celsius

    def __format__(self, spec):
        return str(self.celsius) + "C"
# --- asserts
assert f"{Temperature(100)}" == "100.0C"
assert f"{Temperature(100):F}" == "212.0F"
assert f"{Temperature(1)!s}" == "temperature"
width = 6; assert f"{Temperature(5):{width}.1f}" == "   5.0C"

# === numeric-conversions
import math


class Ratio:
    def __init__(self, p, q):
        self.p, self.q = p, q

    def __float__(self):
        return self.p / self.q

    def __int__(self):
        return self.p // self.q

    def __complex__(self):
        return complex(float(self))

    def __round__(self, n=None):
        return round(float(self), n)

    def __trunc__(self):
        return int(float(self))

    def __floor__(self):
        return self.p // self.q

    def __ceil__(self):
        return -(-self.p // self.q)

    def __abs__(self):
        return Ratio(abs(self.p), abs(self.q))

    def __neg__(self):
        return Ratio(-self.p, self.q)

    def __pos__(self):
        return self
# --- asserts
assert float(Ratio(1, 4)) == 0.25
assert int(Ratio(7, 2)) == 3
assert complex(Ratio(1, 2)) == 0.5 + 0j
assert round(Ratio(22, 7), 2) == 3.14
assert round(Ratio(7, 2)) == 4
# --- test
import math
assert math.trunc(Ratio(-7, 2)) == -3
assert math.floor(Ratio(-7, 2)) == -4
assert math.ceil(Ratio(7, 2)) == 4
assert math.sqrt(Ratio(9, 1)) == 3.0
r = Ratio(-1, 2)
assert float(abs(r)) == 0.5 and float(-r) == 0.5
assert +r is r

# === index-in-many-places
class Port:
    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number
# --- asserts
assert "abc"[Port(1)] == "b"
assert [0] * Port(3) == [0, 0, 0]
assert bytes(Port(2)) == b"\x00\x00"
assert list(range(Port(2), Port(5))) == [2, 3, 4]
# --- test
import operator
assert operator.index(Port(8080)) == 8080
data = [1, 2, 3, 4]
del data[Port(0)]
assert data == [2, 3, 4]

# === fspath
import os


class Asset:
    root = "/srv/assets"

    def __init__(self, name):
        self.name = name

    def __fspath__(self):
        return os.path.join(self.root, self.name)
# --- test
import os
from pathlib import Path, PurePosixPath
assert os.fspath(Asset("a.png")) == "/srv/assets/a.png"
assert Path(Asset("a.png")).suffix == ".png"
assert isinstance(Asset("q"), os.PathLike)

# === getattr-dynamic
class Chain:
    def __init__(self, path=""):
        self._path = path

    def __getattr__(self, name):
        return Chain(f"{self._path}/{name}")

    def __call__(self, *args):
        return Chain(self._path + "/" + "/".join(map(str, args)))

    def __str__(self):
        return self._path or "/"
# --- asserts
assert str(Chain().users.list) == "/users/list"
assert str(Chain().users(42).repos) == "/users/42/repos"
assert str(getattr(Chain(), "a").b) == "/a/b"

# === setattr-validation
class Frozen:
    def __init__(self, **values):
        for k, v in values.items():
            object.__setattr__(self, k, v)

    def __setattr__(self, name, value):
        raise AttributeError(f"cannot set {name}")

    def __delattr__(self, name):
        raise AttributeError(f"cannot delete {name}")
# --- test
f = Frozen(a=1)
try:
    f.a = 2
except AttributeError as e:
    assert str(e) == "cannot set a"
else:
    raise AssertionError
assert vars(f) == {"a": 1}

# === getattribute-logging
class Audited:
    def __init__(self):
        object.__setattr__(self, "log", [])
        self.value = 10

    def __getattribute__(self, name):
        if name not in ("log", "__class__", "__dict__"):
            object.__getattribute__(self, "log").append(name)
        return object.__getattribute__(self, name)
# --- test
a = Audited()
assert a.value == 10
assert a.value == 10
assert a.log == ["value", "value"]

# === dir-and-vars
class Thing:
    kind = "thing"

    def __init__(self):
        self.b = 2
        self.a = 1

    def method(self):
        return self.a

    def __dir__(self):
        return ["a", "b", "method"]
# --- asserts
assert dir(Thing()) == ["a", "b", "method"]
assert vars(Thing()) == {"a": 1, "b": 2}
assert hasattr(Thing(), "kind")
assert not hasattr(Thing(), "c")
assert getattr(Thing(), "zzz", 3) == 3
assert "method" in vars(Thing)
# --- test
t = Thing()
setattr(t, "c", 5)
assert t.c == 5
delattr(t, "c")
assert not hasattr(t, "c")

# === class-identity
class Animal:
    """Any animal."""

    def speak(self):
        return "..."


class Dog(Animal):
    def speak(self):
        return "Woof"


def make(kind):
    return {"dog": Dog, "animal": Animal}[kind]()
# --- asserts
assert type(make("dog")) is Dog
assert make("dog").__class__ is Dog
assert isinstance(make("dog"), Animal)
assert Dog.__mro__ == (Dog, Animal, object)
assert Animal.__doc__ == "Any animal."
assert Dog.__name__ == "Dog" and Dog.__qualname__ == "Dog"
assert super(Dog, make("dog")).speak() == "..."
assert Animal.__subclasses__() == [Dog]

# === subclass-in-check-overrides-hook
class Pipeline:
    def __init__(self):
        self.log = []

    def before(self):
        pass

    def process(self, item):
        return item

    def run(self, items):
        self.before()
        out = [self.process(i) for i in items]
        self.log.append(len(out))
        return out
# --- wrong
class Pipeline:
    def process(self, item):
        return item

    def run(self, items):
        return [Pipeline.process(self, i) for i in items]
# --- test
class Doubler(Pipeline):
    def before(self):
        self.log.append("before")

    def process(self, item):
        return super().process(item) * 2

d = Doubler()
assert d.run([1, 2, 3]) == [2, 4, 6]
assert d.log == ["before", 3]

# === class-getitem-and-init-subclass
class Plugin:
    registry = {}

    def __init_subclass__(cls, /, name=None, **kwargs):
        super().__init_subclass__(**kwargs)
        Plugin.registry[name or cls.__name__.lower()] = cls

    def __class_getitem__(cls, key):
        return cls.registry[key]


class Csv(Plugin):
    def load(self):
        return "csv"
# --- asserts
assert Plugin["csv"] is Csv
# --- test
class Xml(Plugin, name="xml"):
    def load(self):
        return "xml"
assert Plugin["xml"]().load() == "xml"

# === new-returns-other-class
class Number:
    def __new__(cls, text):
        try:
            return int(text)
        except ValueError:
            return float(text)
# --- asserts
assert Number("3") == 3
assert Number("2.5") == 2.5
assert type(Number("3")) is int
assert not isinstance(Number("3"), Number)

# === mapping-protocol-unpacking
class Settings:
    def __init__(self, **values):
        self._values = values

    def keys(self):
        return self._values.keys()

    def __getitem__(self, key):
        return self._values[key]
# --- test
s = Settings(a=1, b=2)
assert dict(s) == {"a": 1, "b": 2}
assert {**s, "c": 3} == {"a": 1, "b": 2, "c": 3}
def f(a, b):
    return a - b
assert f(**s) == -1
assert s.keys() == {"a", "b"}

# === star-unpacking-objects
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def __iter__(self):
        yield self.a
        yield self.b
# --- test
x, y = Pair(1, 2)
assert (x, y) == (1, 2)
assert [*Pair(3, 4), 5] == [3, 4, 5]
def add(a, b):
    return a + b
assert add(*Pair(1, 2)) == 3
assert dict([Pair("k", "v")]) == {"k": "v"}

# === repr-str-bytes-sizeof
class Blob:
    def __init__(self, data):
        self.data = data

    def __bytes__(self):
        return self.data.encode()

    def __repr__(self):
        return f"Blob({self.data!r})"

    def __str__(self):
        return self.data

    def __sizeof__(self):
        return 1000 + len(self.data)
# --- asserts
assert bytes(Blob("hé")) == b"h\xc3\xa9"
assert repr(Blob("x")) == "Blob('x')"
assert "%s|%r" % (Blob("a"), Blob("b")) == "a|Blob('b')"
assert f"{Blob('q')!r:>10}" == " Blob('q')"
assert Blob("xyz").__sizeof__() == 1003

# === default-object-repr
class Plain:
    pass


def make():
    return Plain()
# --- test
import re
assert re.fullmatch(r"<.*Plain object at 0x[0-9a-f]+>", repr(make()))
assert make() != make()
p = make()
assert p == p and p is p
assert len({p, p, make()}) == 2
assert isinstance(hash(p), int)

# === slots
class Node:
    __slots__ = ("value", "next")

    def __init__(self, value, next=None):
        self.value = value
        self.next = next
# --- test
n = Node(1, Node(2))
n.next.value = 20
assert n.next.value == 20 and n.next.next is None
assert not hasattr(n, "__dict__")
try:
    n.extra = 1
except AttributeError:
    pass
else:
    raise AssertionError("slots")

# === staticmethod-classmethod
class Temperature:
    zero = -273.15
    count = 0

    def __init__(self, c):
        if not self.is_valid(c):
            raise ValueError("below absolute zero")
        self.c = c
        type(self).count += 1

    @staticmethod
    def is_valid(c):
        return c >= Temperature.zero

    @classmethod
    def from_fahrenheit(cls, f):
        return cls((f - 32) * 5 / 9)
# --- asserts
assert Temperature.is_valid(-300) is False
assert Temperature.from_fahrenheit(212).c == 100.0
# --- test
before = Temperature.count
Temperature(1), Temperature(2)
assert Temperature.count == before + 2
# --- test
class Warm(Temperature):
    pass
assert type(Warm.from_fahrenheit(50)) is Warm

# === properties entry_point=Account
class Account:
    def __init__(self, balance=0):
        self._balance = balance
        self.history = []

    @property
    def balance(self):
        """Current balance."""
        return self._balance

    @balance.setter
    def balance(self, value):
        if value < 0:
            raise ValueError("negative balance")
        self.history.append(value - self._balance)
        self._balance = value

    @balance.deleter
    def balance(self):
        self._balance = 0
# --- wrong
class Account:
    def __init__(self, balance=0):
        self.balance = balance
        self.history = []
# --- test
a = Account(10)
a.balance += 5
assert a.balance == 15
assert a.history == [5]
del a.balance
assert a.balance == 0
# --- test
a = Account()
try:
    a.balance = -1
except ValueError as e:
    assert str(e) == "negative balance"
else:
    raise AssertionError()
assert isinstance(Account.balance, property)
assert Account.balance.__doc__ == "Current balance."
assert Account.balance.fget(Account(3)) == 3

# === cached-property
from functools import cached_property


class Report:
    def __init__(self, rows):
        self.rows = rows
        self.computed = 0

    @cached_property
    def total(self):
        self.computed += 1
        return sum(self.rows)
# --- test
r = Report([1, 2, 3])
assert r.total == 6 and r.total == 6
assert r.computed == 1
r.rows.append(10)
assert r.total == 6
del r.total
assert r.total == 16

# === instancecheck-and-subclasscheck
class EvenMeta(type):
    def __instancecheck__(cls, obj):
        return isinstance(obj, int) and obj % 2 == 0

    def __subclasscheck__(cls, sub):
        return sub is int


class Even(metaclass=EvenMeta):
    pass
# --- asserts
assert isinstance(4, Even)
assert not isinstance(3, Even)
assert issubclass(int, Even)
assert not issubclass(str, Even)

# === matmul-and-getitem-ellipsis
class Tensor:
    def __init__(self, rows):
        self.rows = rows

    def __matmul__(self, other):
        return Tensor([[sum(a * b for a, b in zip(r, c)) for c in zip(*other.rows)] for r in self.rows])

    def __getitem__(self, key):
        if key is Ellipsis:
            return self
        if isinstance(key, tuple):
            r, c = key
            return self.rows[r][c] if isinstance(c, int) else [row[c] for row in [self.rows[r]]][0]
        return self.rows[key]

    def __eq__(self, other):
        return self.rows == getattr(other, "rows", other)
# --- asserts
assert Tensor([[1, 2]]) @ Tensor([[3], [4]]) == [[11]]
assert Tensor([[1, 2], [3, 4]])[1, 0] == 3
assert Tensor([[1, 2]])[...] == Tensor([[1, 2]])
assert Tensor([[1, 2, 3]])[0, 1:] == [2, 3]

# === weird-eq-returns-non-bool
class Field:
    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return f"{self.name} = {other!r}"

    def __lt__(self, other):
        return f"{self.name} < {other!r}"

    def __and__(self, other):
        return "(" + self.name + " AND " + str(other) + ")"
# --- asserts
assert (Field("age") == 3) == "age = 3"
assert (Field("age") < 3) == "age < 3"
assert Field("a") & "b" == "(a AND b)"
assert isinstance(Field("x") == 1, str)

# === eq-with-plain-values
class Version:
    def __init__(self, text):
        self.parts = tuple(int(p) for p in str(text).split("."))

    def __eq__(self, other):
        if isinstance(other, str):
            other = Version(other)
        if not isinstance(other, Version):
            return NotImplemented
        return self.parts == other.parts

    def __lt__(self, other):
        if isinstance(other, str):
            other = Version(other)
        return self.parts < other.parts

    def __hash__(self):
        return hash(self.parts)
# --- asserts
assert Version("1.2") == "1.2"
assert "1.2" == Version("1.2")
assert Version("1.2") != "1.3"
assert Version("1.2") < "1.10"
assert Version("1.10") > Version("1.9")
assert Version("1.2") in ["1.1", "1.2"]

# === wrong-call-count wrong
class Counter:
    count = 0

    def __init__(self):
        self.count += 1
# --- test
Counter(), Counter()
assert Counter.count == 2
