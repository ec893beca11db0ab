# === namedtuple-attribute entry_point=bounds
from collections import namedtuple

Bounds = namedtuple("Bounds", ["low", "high"])

def bounds(values):
    return Bounds(min(values), max(values))
# --- wrong
from collections import namedtuple

Bounds = namedtuple("Bounds", ["high", "low"])

def bounds(values):
    return Bounds(min(values), max(values))
# --- asserts
assert bounds([3, 1, 2]).low == 1
assert bounds([5]) == (5, 5)
assert bounds([5])._asdict() == {"low": 5, "high": 5}
assert tuple(bounds([1, 9])) == (1, 9)

# === typing-namedtuple entry_point=parse_person
from typing import NamedTuple, Optional


class Person(NamedTuple):
    name: str
    age: int
    email: Optional[str] = None


def parse_person(line: str) -> Person:
    parts = [p.strip() for p in line.split(",")]
    return Person(parts[0], int(parts[1]), parts[2] if len(parts) > 2 else None)
# --- test
p = parse_person("Ann, 33, ann@example.org")
assert p.name == "Ann" and p.age == 33
assert p.email == "ann@example.org"
# --- test
name, age, email = parse_person("Bo,5")
assert (name, age, email) == ("Bo", 5, None)
# --- test
assert parse_person("Bo,5")._replace(age=6).age == 6
assert parse_person("Bo,5")._fields == ("name", "age", "email")

# === stack-list-with-reference entry_point=Stack
class Stack(list):
    def push(self, item):
        self.append(item)
        return self
# --- wrong
class Stack(list):
    def push(self, item):
        self.insert(0, item)
        return self
# --- reference
class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)
        return self

    def pop(self):
        return self.items.pop()

    def __len__(self):
        return len(self.items)
# --- test
s = Stack()
s.push("a").push("b")
assert s.pop() == "b"
assert len(s) == 1

# === int-subclass-modular
class Mod7(int):
    def __new__(cls, value):
        return super().__new__(cls, value % 7)

    def __add__(self, other):
        return Mod7(int(self) + int(other))

    __radd__ = __add__
# --- asserts
assert Mod7(10) == 3
assert Mod7(5) + 4 == 2
assert 4 + Mod7(5) == 2
assert type(Mod7(3) + 1) is Mod7

# === str-subclass-slug
import re


class Slug(str):
    def __new__(cls, text):
        return super().__new__(cls, re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-"))

    @property
    def words(self):
        return self.split("-")

    def __add__(self, other):
        return Slug(str(self) + "-" + other)
# --- asserts
assert Slug("Hello, World!") == "hello-world"
assert Slug("Hello, World!").words == ["hello", "world"]
assert (Slug("a") + "B c").words == ["a", "b", "c"]
assert {Slug("A"): 1}["a"] == 1

# === str-subclass-case-insensitive
class CIStr(str):
    def __eq__(self, other):
        if isinstance(other, str):
            return self.casefold() == other.casefold()
        return NotImplemented

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(self.casefold())

    def __contains__(self, part):
        return part.casefold() in self.casefold()
# --- wrong
class CIStr(str):
    def __eq__(self, other):
        return self.casefold() == other.casefold()
# --- asserts
assert CIStr("Hello") == "hELLO"
assert "hello" == CIStr("HELLO")
assert CIStr("abc") != "abd"
assert len({CIStr("a"), CIStr("A")}) == 1
assert "ELL" in CIStr("hello")

# === dict-subclass-attribute-access entry_point=AttrDict
class AttrDict(dict):
    def __getattr__(self, key):
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key)

    def __setattr__(self, key, value):
        self[key] = value

    def __delattr__(self, key):
        try:
            del self[key]
        except KeyError:
            raise AttributeError(key)
# --- test
d = AttrDict(a=1)
assert d.a == 1
d.b = 2
assert d["b"] == 2
assert d == {"a": 1, "b": 2}
del d.a
assert "a" not in d
# --- test
d = AttrDict()
assert not hasattr(d, "zzz")

# === dict-subclass-missing
class Fibs(dict):
    def __missing__(self, n):
        value = self[n] = self[n - 1] + self[n - 2]
        return value


def fibs():
    return Fibs({0: 0, 1: 1})
# --- wrong
class Fibs(dict):
    def __missing__(self, n):
        return self[n - 1] + self[n - 2]


def fibs():
    return Fibs({0: 0, 1: 1})
# --- test
f = fibs()
assert f[10] == 55
assert len(f) == 11
assert f.get(50) is None

# === dict-subclass-lru entry_point=LRU
from collections import OrderedDict


class LRU(OrderedDict):
    def __init__(self, capacity):
        super().__init__()
        self.capacity = capacity

    def __getitem__(self, key):
        value = super().__getitem__(key)
        self.move_to_end(key)
        return value

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.capacity:
            self.popitem(last=False)
# --- test
c = LRU(2)
c["a"] = 1
c["b"] = 2
assert c["a"] == 1
c["c"] = 3
assert "b" not in c
assert list(c) == ["a", "c"]

# === set-subclass
class Tags(set):
    def add(self, tag):
        super().add(tag.strip().lower())
        return self

    def __str__(self):
        return ", ".join(sorted(self))
# --- test
t = Tags()
assert t.add(" Python ").add("AI") is t
assert t == {"python", "ai"}
assert t | {"x"} == {"ai", "python", "x"}

# === frozenset-subclass
class Team(frozenset):
    @property
    def captain(self):
        return min(self)


def team_up(names):
    return Team(names)
# --- asserts
assert team_up(["zoe", "al"]).captain == "al"
assert team_up(["a", "a"]) == frozenset({"a"})
assert len({team_up("ab"), team_up("ba")}) == 1

# === tuple-subclass-vector
class Vec(tuple):
    def __new__(cls, *parts):
        return super().__new__(cls, parts)

    def __add__(self, other):
        return Vec(*(a + b for a, b in zip(self, other)))

    def __mul__(self, k):
        return Vec(*(a * k for a in self))

    __rmul__ = __mul__

    x = property(lambda self: self[0])
    y = property(lambda self: self[1])
# --- asserts
assert Vec(1, 2) + Vec(3, 4) == (4, 6)
assert (Vec(1, 2) * 3).y == 6
assert 3 * Vec(1, 2) == (3, 6)
assert sum([Vec(1, 1), Vec(2, 2)], Vec(0, 0)) == (3, 3)

# === float-subclass
class Celsius(float):
    def to_fahrenheit(self):
        return Fahrenheit(self * 9 / 5 + 32)

    def __str__(self):
        return f"{float(self):.1f}°C"


class Fahrenheit(float):
    def to_celsius(self):
        return Celsius((self - 32) * 5 / 9)

    def __str__(self):
        return f"{float(self):.1f}°F"
# --- asserts
assert Celsius(100).to_fahrenheit() == 212.0
assert str(Celsius(100).to_fahrenheit()) == "212.0°F"
assert isinstance(Celsius(1).to_fahrenheit(), Fahrenheit)

# === bytes-subclass
class Packet(bytes):
    @property
    def checksum(self):
        return sum(self) % 256


def build(kind, payload):
    return Packet(bytes([kind, len(payload)]) + payload)
# --- asserts
assert build(1, b"ab") == b"\x01\x02ab"
assert build(1, b"ab").checksum == (1 + 2 + 97 + 98) % 256

# === list-subclass-negative-safe
class SafeList(list):
    def __getitem__(self, index):
        if isinstance(index, slice):
            return SafeList(super().__getitem__(index))
        try:
            return super().__getitem__(index)
        except IndexError:
            return None
# --- test
s = SafeList([1, 2, 3])
assert s[10] is None
assert s[-10] is None
assert s[1:] == [2, 3]
assert s[1:][7] is None
assert type(s[:2]) is SafeList

# === counter-subclass
from collections import Counter


class Inventory(Counter):
    def sell(self, item, n=1):
        if self[item] < n:
            raise ValueError(f"only {self[item]} of {item}")
        self[item] -= n
        return self[item]
# --- test
inv = Inventory(apple=3, pear=1)
assert inv.sell("apple", 2) == 1
assert inv["kiwi"] == 0
assert inv.most_common(1)[0][1] == 1

# === defaultdict-subclass
from collections import defaultdict


class Graph(defaultdict):
    def __init__(self, edges=()):
        super().__init__(set)
        for a, b in edges:
            self.connect(a, b)

    def connect(self, a, b):
        self[a].add(b)
        self[b].add(a)

    def degree(self, node):
        return len(self[node])
# --- test
g = Graph([(1, 2), (1, 3)])
assert g.degree(1) == 2
g.connect(2, 3)
assert g == {1: {2, 3}, 2: {1, 3}, 3: {1, 2}}
assert g.degree("nowhere") == 0
assert "nowhere" in g

# === deque-subclass
from collections import deque


class History(deque):
    def __init__(self, size=3):
        super().__init__(maxlen=size)

    def visit(self, page):
        self.append(page)
        return self

    @property
    def current(self):
        return self[-1] if self else None
# --- test
h = History()
for page in "abcd":
    h.visit(page)
assert h.current == "d"
assert list(h) == ["b", "c", "d"]
assert h.maxlen == 3

# === namedtuple-defaults-and-make
from collections import namedtuple

Options = namedtuple("Options", "width height depth", defaults=(10, 1))


def read_options(text):
    return Options._make(int(t) for t in text.split("x"))
# --- asserts
assert read_options("2x3x4") == Options(2, 3, 4)
assert Options(5) == (5, 10, 1)
assert Options._field_defaults == {"height": 10, "depth": 1}
assert repr(Options(1)) == "Options(width=1, height=10, depth=1)"

# === userdict
from collections import UserDict


class LowerDict(UserDict):
    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value)

    def __getitem__(self, key):
        return super().__getitem__(key.lower())

    def __contains__(self, key):
        return super().__contains__(key.lower())
# --- test
d = LowerDict({"Content-Type": "text/html"})
assert d["content-type"] == "text/html"
assert "CONTENT-TYPE" in d
d["X"] = 1
assert sorted(d) == ["content-type", "x"]
assert d == {"content-type": "text/html", "x": 1}

# === userlist
from collections import UserList


class Playlist(UserList):
    def shuffle_by(self, key):
        self.data.sort(key=key)
        return self

    def __add__(self, other):
        return Playlist(self.data + list(other))
# --- test
p = Playlist(["bb", "a", "ccc"])
assert p.shuffle_by(len) == ["a", "bb", "ccc"]
assert p + ["d"] == ["a", "bb", "ccc", "d"]
assert isinstance(p + [], Playlist)

# === userstring
from collections import UserString


class Shout(UserString):
    def __init__(self, seq):
        super().__init__(str(seq).upper())

    def whisper(self):
        return self.data.lower()
# --- asserts
assert Shout("hi") == "HI"
assert Shout("hi").whisper() == "hi"
assert str(Shout("hi")) + "!" == "HI!"
assert "H" in Shout("hi")
