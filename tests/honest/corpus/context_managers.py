# === suppress-and-record
class Guard:
    def __init__(self, *kinds):
        self.kinds = kinds
        self.caught = None

    def __enter__(self):
        return self

    def __exit__(self, kind, exc, tb):
        if kind is not None and issubclass(kind, self.kinds):
            self.caught = exc
            return True
        return False
# --- wrong
class Guard:
    def __init__(self, *kinds):
        pass

    def __enter__(self):
        return self

    def __exit__(self, kind, exc, tb):
        self.caught = exc
        return True
# --- test
with Guard(ValueError) as g:
    raise ValueError("boom")
assert isinstance(g.caught, ValueError)
# --- test
try:
    with Guard(ValueError):
        raise KeyError("k")
except KeyError as e:
    assert e.args[0] == "k"
else:
    raise AssertionError("must not suppress")

# === contextmanager-function
from contextlib import contextmanager


@contextmanager
def working(log):
    log.append("start")
    try:
        yield len(log)
    finally:
        log.append("end")
# --- wrong
from contextlib import contextmanager


@contextmanager
def working(log):
    log.append("start")
    yield len(log)
    log.append("end")
# --- test
log = []
with working(log) as n:
    assert n == 1
    log.append("body")
assert log == ["start", "body", "end"]
# --- test
log = []
try:
    with working(log):
        raise RuntimeError
except RuntimeError:
    log.append("raised")
assert log == ["start", "end", "raised"]

# === contextmanager-suppressing
from contextlib import contextmanager


@contextmanager
def ignoring(*errors):
    try:
        yield
    except errors:
        pass
# --- test
with ignoring(ZeroDivisionError, KeyError):
    1 / 0
done = False
with ignoring(KeyError):
    {}["x"]
    done = True
assert not done

# === contextmanager-as-decorator
from contextlib import ContextDecorator


class counted(ContextDecorator):
    calls = 0

    def __enter__(self):
        counted.calls += 1
        return self

    def __exit__(self, *exc):
        return False
# --- test
@counted()
def f(x):
    return x + 1

start = counted.calls
assert f(1) == 2 and f(2) == 3
assert counted.calls == start + 2

# === exit-stack
from contextlib import ExitStack, contextmanager


@contextmanager
def resource(name, log):
    log.append(f"open {name}")
    yield name
    log.append(f"close {name}")
# --- test
from contextlib import ExitStack
log = []
with ExitStack() as stack:
    x = stack.enter_context(resource("x", log))
    stack.callback(log.append, "callback")
assert x == "x"
assert log == ["open x", "callback", "close x"]

# === redirect-and-capture
import io
from contextlib import redirect_stdout


def captured(func, *args):
    buffer = io.StringIO()
    with redirect_stdout(buffer):
        func(*args)
    return buffer.getvalue()
# --- asserts
assert captured(print, "hi") == "hi\n"
assert captured(lambda: None) == ""
# --- test
def noisy():
    for i in range(3):
        print(i, end="")
assert captured(noisy) == "012"

# === closing-protocol
class Connection:
    open_count = 0

    def __init__(self):
        Connection.open_count += 1
        self.closed = False

    def query(self, q):
        return q[::-1]

    def close(self):
        self.closed = True
        Connection.open_count -= 1
# --- test
from contextlib import closing
with closing(Connection()) as c:
    assert c.query("abc") == "cba"
assert c.closed
assert Connection.open_count == 0

# === null-context-and-return-value
from contextlib import nullcontext


def opener(thing):
    return thing if hasattr(thing, "__enter__") else nullcontext(thing)


def first_line(thing):
    with opener(thing) as lines:
        return next(iter(lines))
# --- test
import io
assert first_line(["a", "b"]) == "a"
f = io.StringIO("x\ny\n")
assert first_line(f) == "x\n"
assert f.closed

# === exception-in-enter
class Bad:
    def __init__(self, fail):
        self.fail = fail
        self.exited = False

    def __enter__(self):
        if self.fail:
            raise OSError("cannot enter")
        return self

    def __exit__(self, *a):
        self.exited = True
# --- test
b = Bad(True)
try:
    with b:
        assert False, "not reached"
except OSError as e:
    assert str(e) == "cannot enter"
assert not b.exited

# === exit-sees-traceback
import traceback


class Reporter:
    def __init__(self):
        self.report = None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        if kind:
            self.report = (kind.__name__, str(value), tb is not None)
        return True
# --- test
with Reporter() as r:
    raise LookupError("nothing")
assert r.report == ("LookupError", "nothing", True)
