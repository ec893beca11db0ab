# === enum-basic entry_point=Color
from enum import Enum


class Color(Enum):
    RED = 1
    GREEN = 2
    BLUE = 3

    @classmethod
    def parse(cls, text):
        return cls[text.strip().upper()]

    def next(self):
        members = list(type(self))
        return members[(members.index(self) + 1) % len(members)]
# --- asserts
assert Color.RED.value == 1
assert Color.RED.name == "RED"
assert Color(2) is Color.GREEN
assert Color["BLUE"] == Color.BLUE
assert Color.parse(" red ") is Color.RED
assert Color.BLUE.next() == Color.RED
assert [c.name for c in Color] == ["RED", "GREEN", "BLUE"]
assert len(Color) == 3
assert Color.RED in Color
assert str(Color.RED) == "Color.RED"
assert repr(Color.RED) == "<Color.RED: 1>"

# === int-enum-name entry_point=Level
from enum import IntEnum


class Level(IntEnum):
    LOW = 1
    MID = 5
    HIGH = 10


def level_of(score):
    if score < 3:
        return Level.LOW
    return Level.MID if score < 8 else Level.HIGH
# --- wrong
from enum import IntEnum


class Level(IntEnum):
    LOW = 1
    MID = 5


def level_of(score):
    return int(Level.LOW if score < 3 else Level.MID)
# --- asserts
assert level_of(1) == 1
assert level_of(5).name == "MID"
assert level_of(9) is Level.HIGH
assert level_of(9) > level_of(1)
assert level_of(5) + 1 == 6
assert sorted([Level.HIGH, Level.LOW])[0].name == "LOW"

# === str-enum-mixin
from enum import Enum


class Suit(str, Enum):
    HEARTS = "hearts"
    SPADES = "spades"

    @property
    def symbol(self):
        return {"hearts": "♥", "spades": "♠"}[self.value]


def suits():
    return list(Suit)
# --- wrong
from enum import Enum


class Suit(Enum):
    HEARTS = "hearts"
# --- asserts
assert Suit.HEARTS == "hearts"
assert Suit.HEARTS.value == "hearts"
assert suits()[1].symbol == "♠"
assert Suit("spades") is Suit.SPADES
assert Suit.HEARTS.upper() == "HEARTS"
assert isinstance(Suit.HEARTS, str)
assert [s.name for s in suits()] == ["HEARTS", "SPADES"]
assert {"hearts": 1}[Suit.HEARTS] == 1

# === strenum-auto
from enum import StrEnum, auto


class Status(StrEnum):
    PENDING = auto()
    DONE = auto()


def transition(s):
    return Status.DONE if s == "pending" else Status(s)
# --- asserts
assert transition("pending") == "done"
assert transition("pending") is Status.DONE
assert f"{Status.PENDING}" == "pending"
assert str(transition("done")) == "done"
assert transition("done").name == "DONE"

# === flag-combinations
from enum import Flag, auto


class Perm(Flag):
    R = auto()
    W = auto()
    X = auto()
    RW = R | W


def parse(text):
    result = Perm(0)
    for c in text:
        result |= Perm[c.upper()]
    return result
# --- asserts
assert parse("rw") == Perm.RW
assert parse("rw") is Perm.RW
assert Perm.R in parse("rx")
assert not parse("")
assert (Perm.RW ^ Perm.R) is Perm.W
assert parse("rwx").value == 7
assert ~Perm.R == Perm.W | Perm.X

# === intflag
from enum import IntFlag


class Mode(IntFlag):
    A = 1
    B = 2
    C = 4


def combine(*names):
    value = Mode(0)
    for name in names:
        value |= Mode[name]
    return value
# --- asserts
assert combine("A", "C") == 5
assert combine("A", "C") & 1
assert Mode.C in combine("A", "C")
assert int(combine()) == 0

# === enum-with-data
from enum import Enum


class Planet(Enum):
    EARTH = (5.976e24, 6.37814e6)
    MARS = (6.421e23, 3.3972e6)

    def __init__(self, mass, radius):
        self.mass = mass
        self.radius = radius

    @property
    def gravity(self):
        return 6.67300e-11 * self.mass / self.radius ** 2
# --- asserts
assert round(Planet.EARTH.gravity, 2) == 9.8
assert Planet.MARS.value == (6.421e23, 3.3972e6)
assert Planet((6.421e23, 3.3972e6)) is Planet.MARS
assert max(Planet, key=lambda p: p.gravity) is Planet.EARTH

# === enum-missing-hook
from enum import Enum


class Direction(Enum):
    NORTH = "N"
    SOUTH = "S"

    @classmethod
    def _missing_(cls, value):
        if isinstance(value, str):
            for member in cls:
                if member.value == value.upper() or member.name == value.upper():
                    return member
        return None

    @property
    def opposite(self):
        return Direction.SOUTH if self is Direction.NORTH else Direction.NORTH
# --- asserts
assert Direction("n") is Direction.NORTH
assert Direction("south").opposite is Direction.NORTH
assert Direction.NORTH.opposite.opposite == Direction.NORTH
# --- test
for bad in ("x", 3, None):
    try:
        Direction(bad)
    except ValueError:
        continue
    raise AssertionError(bad)

# === enum-alias-unique
from enum import Enum, unique


class Shape(Enum):
    SQUARE = 2
    DIAMOND = 1
    CIRCLE = 3
    ALIAS_FOR_SQUARE = 2


def make_unique(cls):
    try:
        unique(cls)
        return True
    except ValueError:
        return False
# --- asserts
assert Shape.ALIAS_FOR_SQUARE is Shape.SQUARE
assert Shape(2).name == "SQUARE"
assert len(list(Shape)) == 3
assert list(Shape.__members__) == ["SQUARE", "DIAMOND", "CIRCLE", "ALIAS_FOR_SQUARE"]
assert make_unique(Shape) is False

# === enum-as-dict-key-and-in-set
from enum import Enum
from collections import Counter


class Fruit(Enum):
    APPLE = "a"
    PEAR = "p"


def tally(text):
    return Counter(Fruit(c) for c in text)
# --- asserts
assert tally("aap")[Fruit.APPLE] == 2
assert tally("aap") == {Fruit.APPLE: 2, Fruit.PEAR: 1}
assert set(tally("ap")) == {Fruit.APPLE, Fruit.PEAR}

# === enum-auto-generate-next-value
from enum import Enum, auto


class Ordinal(Enum):
    def _generate_next_value_(name, start, count, last_values):
        return name.lower()

    NORTH = auto()
    EAST = auto()
# --- asserts
assert Ordinal.NORTH.value == "north"
assert [o.value for o in Ordinal] == ["north", "east"]
assert Ordinal("east").name == "EAST"

# === enum-ordering-methods
import functools
from enum import Enum


@functools.total_ordering
class Grade(Enum):
    F = 0
    C = 1
    A = 2

    def __lt__(self, other):
        if type(self) is type(other):
            return self.value < other.value
        return NotImplemented
# --- asserts
assert Grade.F < Grade.A
assert Grade.A >= Grade.C
assert sorted([Grade.A, Grade.F, Grade.C]) == [Grade.F, Grade.C, Grade.A]
assert max(Grade) is Grade.A

# === enum-callable-members
from enum import Enum
import operator


class Op(Enum):
    ADD = "+"
    SUB = "-"
    MUL = "*"

    def __call__(self, a, b):
        return {"+": operator.add, "-": operator.sub, "*": operator.mul}[self.value](a, b)


def evaluate(a, op, b):
    return Op(op)(a, b)
# --- asserts
assert Op.ADD(1, 2) == 3
assert evaluate(6, "*", 7) == 42
assert callable(Op.SUB)

# === wrong-enum-next wrong
from enum import Enum


class Color(Enum):
    RED = 1
    GREEN = 2

    def next(self):
        return Color(self.value + 1)
# --- asserts
assert Color.RED.next() is Color.GREEN
assert Color.GREEN.next() is Color.RED
