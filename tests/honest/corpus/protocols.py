# === wrong-index wrong
class Slot:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n + 1
# --- asserts
assert [10, 20, 30][Slot(1)] == 20

# === namedtuple-of-the-setup-with-replace
# --- setup
from collections import namedtuple
P = namedtuple("P", "x y")
class Box:
    def __init__(self, n):
        self._n = n
    def _double(self):
        return 2 * self._n
# --- code
def move(p):
    return p._replace(x=p.x + 1)


def names(p):
    return list(p._fields), p._asdict()


def opened(box):
    return box._n + box._double()
# --- asserts
assert move(P(1, 2)) == P(2, 2)
assert names(P(1, 2)) == (["x", "y"], {"x": 1, "y": 2})
assert opened(Box(3)) == 9

# === imports-of-another-platform-in-setup
# --- setup
import sys
from contextlib import suppress
if sys.platform == "win32":
    import winreg
with suppress(ImportError):
    import module_that_nobody_has
# --- code
def f(n):
    return n + 1
# --- asserts
assert f(1) == 2
# --- test
if sys.platform == "win32":
    import winreg
assert f(2) == 3

# === what-kind-of-file-a-check-gives
import io
import os
from collections import abc


def kind(file):
    if isinstance(file, (str, bytes, os.PathLike)):
        return "path"
    if isinstance(file, io.TextIOBase) or issubclass(type(file), io.TextIOBase):
        return "text"
    return "binary" if isinstance(file, io.BufferedIOBase) else "other"


def is_many(value):
    return isinstance(value, abc.Iterable) and not isinstance(value, abc.Sized)
# --- test
import io
assert kind("a") == "path"
assert kind(io.StringIO("a")) == "text"
assert kind(io.BytesIO(b"a")) == "binary"
assert is_many(io.StringIO("a"))
