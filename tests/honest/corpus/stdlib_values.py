# === dict-views
def keys_of(d):
    return d.keys()


def items_of(d):
    return d.items()


def values_of(d):
    return d.values()
# --- asserts
assert keys_of({"a": 1, "b": 2}) == {"a", "b"}
assert items_of({"a": 1}) == {("a", 1)}
assert list(values_of({"a": 1, "b": 2})) == [1, 2]
assert keys_of({"a": 1, "b": 2}) & {"a"} == {"a"}
assert "a" in keys_of({"a": 1})
assert {"b", "a"} == keys_of({"a": 1, "b": 2})
assert list(reversed(keys_of({"a": 1, "b": 2}))) == ["b", "a"]

# === dict-view-live
class Registry:
    def __init__(self):
        self._d = {}

    def set(self, k, v):
        self._d[k] = v

    def names(self):
        return self._d.keys()
# --- test
r = Registry()
names = r.names()
r.set("a", 1)
r.set("b", 2)
assert list(names) == ["a", "b"]
assert r.names() == {"a", "b"}

# === mapping-proxy
from types import MappingProxyType


def readonly(d):
    return MappingProxyType(dict(d))
# --- wrong
def readonly(d):
    return dict(d)
# --- test
m = readonly({"a": 1})
assert m == {"a": 1}
assert m["a"] == 1 and "b" not in m
try:
    m["b"] = 2
except TypeError:
    pass
else:
    raise AssertionError("read-only")

# === chain-map
from collections import ChainMap


def settings(user, defaults):
    return ChainMap(user, defaults)
# --- asserts
assert settings({"a": 1}, {"a": 0, "b": 2}) == {"a": 1, "b": 2}
assert settings({"a": 1}, {}).maps == [{"a": 1}, {}]
assert settings({"a": 1}, {"b": 1}).new_child({"a": 9})["a"] == 9
# --- test
user = {}
c = settings(user, {"a": 1})
c["a"] = 5
assert c["a"] == 5
assert c.parents["a"] == 1

# === memoryview-and-array
from array import array


def window(data, start, stop):
    return memoryview(data)[start:stop]


def numbers(items, kind="i"):
    return array(kind, items)
# --- asserts
assert window(b"abcdef", 1, 4) == b"bcd"
assert window(b"abc", 0, 3)[0] == 97
from array import array; assert numbers([1, 2]) == array("i", [1, 2])
assert numbers([1.5], "d")[0] == 1.5
assert sum(numbers([1, 2, 3])) == 6

# === bytearray-mutation
def xor_in_place(data, key):
    for i in range(len(data)):
        data[i] ^= key
    return data
# --- test
b = bytearray(b"abc")
assert xor_in_place(b, 1) is b
assert b == b"`cb"
xor_in_place(b, 1)
assert b == bytearray(b"abc")

# === zoned-datetimes
from datetime import datetime, timedelta, timezone


def to_utc(text, hours):
    local = datetime.fromisoformat(text).replace(tzinfo=timezone(timedelta(hours=hours)))
    return local.astimezone(timezone.utc)


def parse(text):
    return datetime.strptime(text, "%Y-%m-%d %H:%M")
# --- wrong
from datetime import datetime, timedelta, timezone


def to_utc(text, hours):
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
# --- test
from datetime import datetime, timedelta, timezone
t = to_utc("2024-03-01T12:00:00", 2)
assert t == datetime(2024, 3, 1, 10, tzinfo=timezone.utc)
assert t.isoformat() == "2024-03-01T10:00:00+00:00"
assert t.tzinfo is timezone.utc
# --- test
from datetime import datetime
assert parse("2024-02-29 08:15") == datetime(2024, 2, 29, 8, 15)

# === dates-and-timedeltas
from datetime import date, time, timedelta


def next_weekday(d, weekday):
    return d + timedelta((weekday - d.weekday() - 1) % 7 + 1)


def duration(seconds):
    return timedelta(seconds=seconds)
# --- asserts
from datetime import date; assert next_weekday(date(2024, 1, 1), 0) == date(2024, 1, 8)
from datetime import timedelta; assert duration(90) == timedelta(minutes=1, seconds=30)
assert str(duration(3661)) == "1:01:01"
assert sum([duration(1), duration(2)], duration(0)).seconds == 3

# === zoneinfo
from datetime import datetime
from zoneinfo import ZoneInfo


def at_utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("UTC"))
# --- test
from datetime import datetime, timezone
assert at_utc("2024-07-01T12:00") == datetime(2024, 7, 1, 12, tzinfo=timezone.utc)
assert at_utc("2024-07-01T12:00").tzinfo.key == "UTC"

# === pathlib
from pathlib import Path, PurePosixPath, PureWindowsPath


def config_path(home, name):
    return Path(home) / ".config" / f"{name}.toml"


def swap(path, suffix):
    return PurePosixPath(path).with_suffix(suffix)
# --- asserts
from pathlib import Path; assert config_path("/home/a", "x") == Path("/home/a/.config/x.toml")
assert swap("a/b.txt", ".md").as_posix() == "a/b.md"
assert isinstance(config_path("/h", "x"), Path)
import os; assert os.fspath(config_path("/h", "q")) == "/h/.config/q.toml"

# === decimal-context
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, getcontext, localcontext


def money(x):
    return Decimal(str(x)).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)


def precise_div(a, b, digits):
    with localcontext() as ctx:
        ctx.prec = digits
        return Decimal(a) / Decimal(b)
# --- wrong
from decimal import Decimal


def money(x):
    return Decimal(x).quantize(Decimal("0.01"))
# --- asserts
from decimal import Decimal; assert money(2.675) == Decimal("2.68")
assert str(money(1)) == "1.00"
assert str(precise_div(1, 3, 5)) == "0.33333"
# --- test
from decimal import Decimal
assert money(3) > 2 and money(3) != "3.00"

# === fractions-and-numeric-tower
from fractions import Fraction
import numbers


def harmonic(n):
    return sum(Fraction(1, i) for i in range(1, n + 1))


def kind(x):
    for name in ("Integral", "Rational", "Real", "Complex"):
        if isinstance(x, getattr(numbers, name)):
            return name
    return None
# --- asserts
from fractions import Fraction; assert harmonic(3) == Fraction(11, 6)
assert str(harmonic(3)) == "11/6"
assert [kind(x) for x in (1, harmonic(2), 1.5, 1j, "x")] == ["Integral", "Rational", "Real", "Complex", None]

# === complex-numbers
import cmath


def roots(a, b, c):
    d = cmath.sqrt(b * b - 4 * a * c)
    return (-b + d) / (2 * a), (-b - d) / (2 * a)
# --- asserts
assert roots(1, 0, 1) == (1j, -1j)

# === big-integers
def fact(n):
    r = 1
    for i in range(2, n + 1):
        r *= i
    return r


def modpow(b, e, m):
    return pow(b, e, m)
# --- asserts
import math; assert fact(500) == math.factorial(500)
assert modpow(7, -1, 26) == 15
assert modpow(3, 10 ** 30, 10 ** 9 + 7) == pow(3, 10 ** 30, 10 ** 9 + 7)
assert fact(1000).bit_length() == 8530

# === defaultdict-missing-lookup
from collections import defaultdict


def group_by_length(words):
    out = defaultdict(list)
    for w in words:
        out[len(w)].append(w)
    return out
# --- wrong
def group_by_length(words):
    return {len(w): [v for v in words if len(v) == len(w)] for w in words}
# --- asserts
assert group_by_length(["a", "bb", "c"]) == {1: ["a", "c"], 2: ["bb"]}
assert group_by_length(["a"])[99] == []
# --- test
g = group_by_length(["a"])
g[5].append("hello")
assert g[5] == ["hello"]
assert len(g) == 2
assert g.default_factory is list

# === counter-arithmetic
from collections import Counter


def letters(text):
    return Counter(c for c in text.lower() if c.isalpha())
# --- asserts
from collections import Counter; assert letters("Hello") == Counter("hello")
assert letters("Hello")["l"] == 2 and letters("x")["q"] == 0
assert letters("aab") - letters("ab") == {"a": 1}
assert letters("abcc").most_common(1) == [("c", 2)]
assert letters("ab") + letters("b") == {"a": 1, "b": 2}
assert letters("ab") <= letters("aab")

# === ordereddict-equality
from collections import OrderedDict


def dedupe(pairs):
    out = OrderedDict()
    for k, v in pairs:
        out[k] = v
        out.move_to_end(k)
    return out
# --- wrong
from collections import OrderedDict


def dedupe(pairs):
    return OrderedDict(pairs)
# --- asserts
from collections import OrderedDict; assert dedupe([("a", 1), ("b", 2), ("a", 3)]) == OrderedDict([("b", 2), ("a", 3)])
assert dedupe([("a", 1), ("b", 2)]) == {"b": 2, "a": 1}
from collections import OrderedDict; assert dedupe([("a", 1), ("b", 2)]) != OrderedDict([("b", 2), ("a", 1)])
assert list(dedupe([("a", 1), ("b", 2), ("a", 3)])) == ["b", "a"]

# === deque-rotation
from collections import deque


def rotate(items, n):
    d = deque(items)
    d.rotate(n)
    return d


def last(n, items):
    return deque(items, maxlen=n)
# --- asserts
from collections import deque; assert rotate([1, 2, 3], 1) == deque([3, 1, 2])
assert last(2, range(5)) == deque([3, 4])
assert last(2, range(5)).maxlen == 2
# --- test
d = last(2, [1, 2])
d.append(3)
assert list(d) == [2, 3]

# === regex-matches
import re


def find_date(text):
    return re.search(r"(?P<year>\d{4})-(?P<month>\d\d)", text)


WORD = re.compile(r"\w+", re.I)


def tokens(text):
    return WORD.finditer(text)
# --- asserts
assert find_date("on 2024-05 ok").group() == "2024-05"
assert find_date("on 2024-05 ok").groups() == ("2024", "05")
assert find_date("none") is None
assert [m.group() for m in tokens("a bc")] == ["a", "bc"]
import re; assert isinstance(WORD, re.Pattern) and isinstance(find_date("2024-05"), re.Match)

# === uuid-and-ipaddress
import ipaddress
import uuid


def stable_id(name):
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)


def network(text):
    return ipaddress.ip_network(text)
# --- asserts
import uuid; assert stable_id("python.org") == uuid.UUID("886313e1-3b8a-5372-9b90-0c9aee199e5d")
assert stable_id("a").version == 5
assert network("10.0.0.0/30").num_addresses == 4
assert [str(h) for h in network("10.0.0.0/30").hosts()] == ["10.0.0.1", "10.0.0.2"]
import ipaddress; assert ipaddress.ip_address("10.0.0.1") in network("10.0.0.0/8")

# === io-objects
import csv
import io


def number_lines(source, target):
    for n, line in enumerate(source, 1):
        target.write(f"{n}: {line}")


def to_csv(rows):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    out.seek(0)
    return out


def read_header(stream):
    return int.from_bytes(stream.read(2), "big"), stream.tell()
# --- test
import io
target = io.StringIO()
number_lines(io.StringIO("a\nb\n"), target)
assert target.getvalue() == "1: a\n2: b\n"
# --- asserts
assert to_csv([[1, 2], ["a", "b c"]]).read() == "1,2\na,b c\n"
import io; assert read_header(io.BytesIO(b"\x01\x02rest")) == (258, 2)

# === random-argument
import random


def shuffled(items, rng=random):
    items = list(items)
    rng.shuffle(items)
    return items


def roll(rng, n):
    return [rng.randint(1, 6) for _ in range(n)]
# --- test
import random
assert roll(random.Random(0), 5) == roll(random.Random(0), 5)
expected = list(range(10))
random.Random(3).shuffle(expected)
assert shuffled(range(10), random.Random(3)) == expected
# --- test
class Loaded:
    def randint(self, a, b):
        return b
assert roll(Loaded(), 3) == [6, 6, 6]

# === slices-and-ellipsis
def page(n, size):
    return slice(n * size, (n + 1) * size)


def marker():
    return ...


def nothing():
    return NotImplemented
# --- asserts
assert list(range(10))[page(1, 3)] == [3, 4, 5]
assert page(0, 2) == slice(0, 2)
assert page(1, 2).start == 2 and page(1, 2).step is None
assert marker() is ...
assert nothing() is NotImplemented

# === sets-of-frozensets
from itertools import combinations


def powerset(items):
    items = list(items)
    return {frozenset(c) for n in range(len(items) + 1) for c in combinations(items, n)}
# --- asserts
assert len(powerset("abc")) == 8
assert frozenset({"a", "c"}) in powerset("abc")
assert powerset([1]) == {frozenset(), frozenset({1})}

# === hash-object-returned
import hashlib


def hasher(*parts):
    h = hashlib.md5()
    for p in parts:
        h.update(p)
    return h
# --- asserts
assert hasher(b"a", b"b").hexdigest() == hasher(b"ab").hexdigest()
import hashlib; assert hasher(b"q").digest() == hashlib.md5(b"q").digest()

# === queue-module
import queue


def drain(q):
    out = []
    while True:
        try:
            out.append(q.get_nowait())
        except queue.Empty:
            return out
# --- test
import queue
q = queue.Queue()
for i in range(3):
    q.put(i)
assert drain(q) == [0, 1, 2]
assert q.empty()

# === enum-of-operator-functions
import operator

OPS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "max": max}
# --- asserts
assert OPS["+"](2, 3) == 5
import operator; assert OPS["-"] is operator.sub
assert set(OPS) == {"+", "-", "*", "max"}

# === wrong-views wrong
def keys_of(d):
    return list(d.keys())
# --- asserts
assert keys_of({"a": 1}) == {"a"}
