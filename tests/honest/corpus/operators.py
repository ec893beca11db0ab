# === vector-arithmetic entry_point=Vector
class Vector:
    def __init__(self, x=0, y=0):
        self.x = x
        self.y = y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __sub__(self, other):
        return Vector(self.x - other.x, self.y - other.y)

    def __mul__(self, k):
        if isinstance(k, Vector):
            return self.x * k.x + self.y * k.y
        return Vector(self.x * k, self.y * k)

    def __rmul__(self, k):
        return self * k

    def __truediv__(self, k):
        return Vector(self.x / k, self.y / k)

    def __abs__(self):
        return (self.x ** 2 + self.y ** 2) ** 0.5

    def __eq__(self, other):
        return isinstance(other, Vector) and (self.x, self.y) == (other.x, other.y)

    def __repr__(self):
        return f"Vector({self.x}, {self.y})"

    def __bool__(self):
        return bool(self.x or self.y)
# --- asserts
assert Vector(1, 2) + Vector(3, 4) == Vector(4, 6)
assert Vector(1, 2) - Vector(3, 4) == Vector(-2, -2)
assert Vector(1, 2) * 3 == Vector(3, 6)
assert 3 * Vector(1, 2) == Vector(3, 6)
assert Vector(1, 2) * Vector(3, 4) == 11
assert Vector(2, 4) / 2 == Vector(1, 2)
assert abs(Vector(3, 4)) == 5
assert not Vector()
assert sum([Vector(1, 1), Vector(2, 2)], Vector()) == Vector(3, 3)

# === sum-with-default-start
class Money:
    def __init__(self, amount, currency="EUR"):
        self.amount, self.currency = amount, currency

    def __add__(self, other):
        if other == 0:
            return self
        return Money(self.amount + other.amount, self.currency)

    def __radd__(self, other):
        return self if other == 0 else self + other

    def __eq__(self, other):
        if isinstance(other, Money):
            return (self.amount, self.currency) == (other.amount, other.currency)
        return self.amount == other
# --- asserts
assert sum([Money(1), Money(2)]) == Money(3)
assert sum([Money(1), Money(2)]).amount == 3
assert Money(5) == 5
assert Money(5) != Money(5, "USD")

# === in-place-operators
class Acc:
    def __init__(self, items=()):
        self.items = list(items)
        self.ops = 0

    def __iadd__(self, other):
        self.items.append(other)
        self.ops += 1
        return self

    def __isub__(self, other):
        self.items.remove(other)
        self.ops += 1
        return self

    def __ior__(self, other):
        self.items.extend(o for o in other if o not in self.items)
        return self

    def __imul__(self, n):
        self.items *= n
        return self
# --- wrong
class Acc:
    def __init__(self):
        self.items = []

    def __iadd__(self, x):
        self.items.append(x)
# --- test
a = Acc()
b = a
a += 1
a += 2
assert a is b
assert b.items == [1, 2]
a -= 1
assert a.items == [2] and a.ops == 3
a |= [2, 3]
assert a.items == [2, 3]
a *= 2
assert b.items == [2, 3, 2, 3]

# === iadd-falls-back-to-add
class P:
    def __init__(self, v):
        self.v = v

    def __add__(self, o):
        return P(self.v + (o.v if isinstance(o, P) else o))
# --- test
p = q = P(1)
p += 2
assert p.v == 3 and q.v == 1
assert p is not q

# === shift-operators-stream
class Stream:
    def __init__(self):
        self.parts = []

    def __lshift__(self, item):
        self.parts.append(str(item))
        return self

    def __rshift__(self, f):
        return f("".join(self.parts))
# --- test
s = Stream()
s << "a" << 1 << [2]
assert s.parts == ["a", "1", "[2]"]
assert s >> len == 5
assert s >> str.upper == "A1[2]"

# === pipe-operator
class Pipe:
    def __init__(self, f):
        self.f = f

    def __ror__(self, value):
        return self.f(value)

    def __or__(self, other):
        return Pipe(lambda v: other.f(self.f(v)))


double = Pipe(lambda xs: [2 * x for x in xs])
total = Pipe(sum)
# --- asserts
assert [1, 2] | double == [2, 4]
assert [1, 2] | double | total == 6

# === pow-and-divmod
class Z:
    def __init__(self, v):
        self.v = v

    def __pow__(self, e, mod=None):
        return Z(pow(self.v, e, mod))

    def __rpow__(self, b):
        return Z(b ** self.v)

    def __divmod__(self, o):
        q, r = divmod(self.v, o)
        return Z(q), Z(r)

    def __rdivmod__(self, o):
        return divmod(Z(o), self.v)

    def __floordiv__(self, o):
        return Z(self.v // o)

    def __mod__(self, o):
        return Z(self.v % o)

    def __eq__(self, o):
        return self.v == getattr(o, "v", o)
# --- asserts
assert Z(3) ** 2 == 9
assert pow(Z(3), 200, 13) == pow(3, 200, 13)
assert 2 ** Z(5) == Z(32)
assert divmod(Z(7), 2) == (3, 1)
assert divmod(7, Z(2)) == (3, 1)
assert Z(7) // 2 == 3
assert Z(7) % 4 == 3

# === reflected-with-builtins
class Meters:
    def __init__(self, v): self.v = v
    def __radd__(self, o): return Meters(o + self.v)
    def __rsub__(self, o): return Meters(o - self.v)
    def __rmul__(self, o): return Meters(o * self.v)
    def __rtruediv__(self, o): return o / self.v
    def __rmod__(self, o): return f"{o}:{self.v}"
# --- asserts
assert (10 + Meters(5)).v == 15
assert (10 - Meters(3)).v == 7
assert (4 * Meters(3)).v == 12
assert 12 / Meters(4) == 3.0
assert 17 % Meters(5) == "17:5"

# === not-implemented-typeerror
class Strict:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        if not isinstance(other, Strict):
            return NotImplemented
        return Strict(self.v + other.v)

    def __lt__(self, other):
        if not isinstance(other, Strict):
            return NotImplemented
        return self.v < other.v
# --- test
for attempt in (lambda: Strict(1) + 1, lambda: 1 + Strict(1), lambda: Strict(1) < 1, lambda: Strict(1) > "a"):
    try:
        attempt()
    except TypeError:
        continue
    raise AssertionError("TypeError expected")
# --- test
assert Strict(1).__add__(1) is NotImplemented

# === interval-comparisons-contains
class Interval:
    def __init__(self, lo, hi):
        self.lo, self.hi = lo, hi

    def __contains__(self, x):
        if isinstance(x, Interval):
            return self.lo <= x.lo and x.hi <= self.hi
        return self.lo <= x <= self.hi

    def __lt__(self, o): return self.hi < o.lo
    def __gt__(self, o): return self.lo > o.hi
    def __and__(self, o):
        lo, hi = max(self.lo, o.lo), min(self.hi, o.hi)
        return Interval(lo, hi) if lo <= hi else None
    def __eq__(self, o): return (self.lo, self.hi) == (o.lo, o.hi)
    def __len__(self): return self.hi - self.lo
# --- asserts
assert 3 in Interval(1, 5)
assert Interval(2, 3) in Interval(1, 5)
assert Interval(1, 2) < Interval(3, 4)
assert Interval(1, 5) & Interval(3, 9) == Interval(3, 5)
assert Interval(1, 2) & Interval(3, 4) is None
assert len(Interval(2, 9)) == 7

# === wrong-rmul wrong
class Vector:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __mul__(self, k):
        return Vector(self.x * k, self.y * k)

    def __eq__(self, o):
        return (self.x, self.y) == (o.x, o.y)
# --- asserts
assert Vector(1, 2) * 3 == Vector(3, 6)
assert 3 * Vector(1, 2) == Vector(3, 6)

# === wrong-eq-always-true wrong
class Money:
    def __init__(self, amount):
        self.amount = amount

    def __add__(self, o):
        return Money(self.amount - o.amount)

    def __eq__(self, o):
        return isinstance(o, Money) and self.amount == o.amount
# --- asserts
assert Money(1) + Money(2) == Money(3)

# === wrong-pow-mod wrong
class Z:
    def __init__(self, v):
        self.v = v

    def __pow__(self, e):
        return Z(self.v ** e)
# --- asserts
assert (Z(3) ** 2).v == 9
assert pow(Z(3), 5, 7).v == 5
