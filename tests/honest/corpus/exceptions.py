# === own-exception-by-name
class InsufficientFunds(Exception):
    """Not enough money."""


class Account:
    def __init__(self, balance=0):
        self.balance = balance

    def withdraw(self, amount):
        if amount > self.balance:
            raise InsufficientFunds(f"need {amount - self.balance} more")
        self.balance -= amount
        return self.balance
# --- wrong
class InsufficientFunds(Exception):
    pass


class Account:
    def __init__(self, balance=0):
        self.balance = balance

    def withdraw(self, amount):
        self.balance = max(0, self.balance - amount)
        return self.balance
# --- test
a = Account(10)
assert a.withdraw(4) == 6
try:
    a.withdraw(10)
    assert False, "expected InsufficientFunds"
except InsufficientFunds as e:
    assert str(e) == "need 4 more"

# === two-bases
class MissingKey(KeyError, AttributeError):
    def __str__(self):
        return f"missing: {self.args[0]}"


class Store:
    def __init__(self):
        self._d = {}

    def get(self, key):
        if key not in self._d:
            raise MissingKey(key)
        return self._d[key]
# --- test
for kind in (KeyError, AttributeError, LookupError, MissingKey):
    try:
        Store().get("x")
    except kind as e:
        assert str(e) == "missing: x"
        assert e.args == ("x",)
    else:
        raise AssertionError(kind)

# === attributes-and-init-args
class HTTPError(Exception):
    def __init__(self, status, reason, *, url=None):
        super().__init__(status, reason)
        self.status = status
        self.reason = reason
        self.url = url

    def __str__(self):
        return f"{self.status} {self.reason}"


def get(url):
    if url.endswith("missing"):
        raise HTTPError(404, "Not Found", url=url)
    return "ok"
# --- test
try:
    get("/missing")
except HTTPError as e:
    assert e.status == 404
    assert e.url == "/missing"
    assert str(e) == "404 Not Found"
    assert e.args == (404, "Not Found")
    assert repr(e) == "HTTPError(404, 'Not Found')"
else:
    raise AssertionError()

# === required-init-argument-only-keyword
class ParseError(ValueError):
    def __init__(self, *, line, column):
        self.line, self.column = line, column
        super().__init__(f"line {line}, column {column}")


def parse(text):
    for n, line in enumerate(text.split("\n"), 1):
        if "!" in line:
            raise ParseError(line=n, column=line.index("!") + 1)
    return text.split()
# --- test
try:
    parse("ok\nno!")
except ValueError as e:
    assert e.line == 2 and e.column == 3
    assert str(e) == "line 2, column 3"
else:
    raise AssertionError

# === raise-from-cause
class ConfigError(Exception):
    pass


def load(text):
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(f"bad number {text!r}") from error
# --- wrong
class ConfigError(Exception):
    pass


def load(text):
    try:
        return int(text)
    except ValueError:
        raise ConfigError(text) from None
# --- test
assert load("7") == 7
try:
    load("x")
except ConfigError as e:
    assert isinstance(e.__cause__, ValueError)
    assert "invalid literal" in str(e.__cause__)
    assert e.__suppress_context__
else:
    raise AssertionError

# === context-and-from-none
def implicit(d, k):
    try:
        return d[k]
    except KeyError:
        raise ValueError("no " + k)


def hidden(d, k):
    try:
        return d[k]
    except KeyError:
        raise ValueError("no " + k) from None
# --- test
try:
    implicit({}, "a")
except ValueError as e:
    assert type(e.__context__) is KeyError
    assert e.__cause__ is None
    assert e.__context__.args == ("a",)
# --- test
try:
    hidden({}, "a")
except ValueError as e:
    assert e.__suppress_context__ is True
    assert e.__cause__ is None
else:
    assert False

# === notes
def annotated(n):
    try:
        return 10 / n
    except ZeroDivisionError as e:
        e.add_note(f"n was {n}")
        raise
# --- test
try:
    annotated(0)
except ZeroDivisionError as e:
    assert e.__notes__ == ["n was 0"]
else:
    raise AssertionError
assert annotated(5) == 2

# === exception-group
def run_all(*jobs):
    errors = []
    results = []
    for job in jobs:
        try:
            results.append(job())
        except Exception as e:
            errors.append(e)
    if errors:
        raise ExceptionGroup("some jobs failed", errors)
    return results
# --- test
assert run_all(lambda: 1, lambda: 2) == [1, 2]
def bad():
    raise ValueError("bad")
def worse():
    raise KeyError("worse")
try:
    run_all(bad, lambda: 1, worse)
except ExceptionGroup as group:
    assert group.message == "some jobs failed"
    assert [type(e) for e in group.exceptions] == [ValueError, KeyError]
else:
    raise AssertionError
# --- test
caught = []
def bad():
    raise ValueError("bad")
try:
    run_all(bad)
except* ValueError as group:
    caught.extend(str(e) for e in group.exceptions)
assert caught == ["bad"]

# === unicode-errors
def decode(data, encoding="utf-8"):
    return data.decode(encoding)


def to_ascii(text):
    return text.encode("ascii")
# --- test
assert decode(b"h\xc3\xa9") == "hé"
try:
    decode(b"ab\xff")
except UnicodeDecodeError as e:
    assert e.start == 2 and e.end == 3
    assert e.object == b"ab\xff"
    assert "invalid start byte" in str(e)
else:
    raise AssertionError
# --- test
try:
    to_ascii("naïve")
except UnicodeEncodeError as e:
    assert e.start == 2 and e.reason.startswith("ordinal not")
else:
    raise AssertionError

# === system-exit
import sys


def main(argv):
    if not argv:
        print("usage: tool FILE", file=sys.stderr)
        sys.exit(2)
    if argv[0] == "fail":
        raise SystemExit("failed")
    return 0
# --- wrong
import sys


def main(argv):
    sys.exit(0)
# --- test
try:
    main([])
except SystemExit as e:
    assert e.code == 2
else:
    raise AssertionError("no exit")
# --- test
try:
    main(["fail"])
except SystemExit as e:
    assert e.code == "failed"
else:
    raise AssertionError("no exit")
assert main(["x"]) == 0

# === keyboard-interrupt
def ask(reader):
    try:
        return reader()
    except EOFError:
        return None
# --- test
def eof():
    raise EOFError
assert ask(eof) is None
def interrupt():
    raise KeyboardInterrupt
try:
    ask(interrupt)
except KeyboardInterrupt:
    pass
else:
    raise AssertionError

# === stop-iteration
class Feed:
    def __init__(self, items):
        self.items = list(items)

    def __iter__(self):
        return self

    def __next__(self):
        if not self.items:
            raise StopIteration("empty")
        return self.items.pop(0)
# --- test
f = Feed([1])
assert next(f) == 1
try:
    next(f)
except StopIteration as e:
    assert e.value == "empty"
else:
    raise AssertionError
assert next(f, None) is None

# === exception-from-check-passes-through
def retry(func, attempts, exceptions=(Exception,)):
    for attempt in range(1, attempts + 1):
        try:
            return func(attempt)
        except exceptions as e:
            if attempt == attempts:
                raise
# --- test
class Flaky(Exception):
    pass
def f(n):
    if n < 3:
        raise Flaky(n)
    return n
assert retry(f, 3) == 3
try:
    retry(f, 2, (Flaky,))
except Flaky as e:
    assert e.args == (2,)
else:
    raise AssertionError
# --- test
class Other(Exception):
    pass
original = Other("same object")
def g(n):
    raise original
try:
    retry(g, 1)
except Other as e:
    assert e is original
else:
    raise AssertionError

# === exception-returned-as-value
def attempt(f, *args):
    try:
        return f(*args), None
    except Exception as e:
        return None, e
# --- test
value, error = attempt(int, "12")
assert value == 12 and error is None
value, error = attempt(int, "x")
assert value is None
assert isinstance(error, ValueError)
assert type(error) is ValueError
assert "invalid literal" in str(error)

# === own-exception-returned
class Oops(Exception):
    def __init__(self, level):
        super().__init__(f"level {level}")
        self.level = level

    def __eq__(self, other):
        return isinstance(other, Oops) and self.level == other.level

    __hash__ = Exception.__hash__


def collect(levels):
    found = []
    for level in levels:
        try:
            if level > 1:
                raise Oops(level)
        except Oops as e:
            found.append(e)
    return found
# --- asserts
assert [e.level for e in collect([1, 2, 3])] == [2, 3]
assert str(collect([5])[0]) == "level 5"
assert collect([2]) == [Oops(2)]

# === assertion-error-from-solution
def checked_sqrt(x):
    assert x >= 0, "x must not be negative"
    return x ** 0.5
# --- wrong
def checked_sqrt(x):
    if x < 0:
        raise ValueError("x must not be negative")
    return x ** 0.5
# --- test
assert checked_sqrt(9) == 3.0
try:
    checked_sqrt(-1)
except AssertionError as e:
    assert str(e) == "x must not be negative"
else:
    raise RuntimeError("no AssertionError")

# === wrong-number-of-arguments
def greet(name, greeting="Hello"):
    return f"{greeting}, {name}"
# --- test
for args, kwargs in [((), {}), ((1, 2, 3), {}), (("a",), {"oops": 1}), (("a",), {"name": "b"})]:
    try:
        greet(*args, **kwargs)
    except TypeError as e:
        assert "greet()" in str(e)
    else:
        raise AssertionError((args, kwargs))
assert greet(greeting="Hi", name="Al") == "Hi, Al"

# === recursion-error
def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)
# --- test
try:
    depth(10 ** 7)
except RecursionError as e:
    assert "recursion" in str(e)
else:
    raise AssertionError

# === own-warning-class
import warnings


class SlowWarning(UserWarning):
    pass


def process(items):
    if len(items) > 3:
        warnings.warn(f"{len(items)} items are slow", SlowWarning)
    return sorted(items)
# --- test
import warnings
with warnings.catch_warnings(record=True) as w:
    warnings.simplefilter("always")
    assert process([4, 3, 2, 1]) == [1, 2, 3, 4]
    assert w[-1].category is SlowWarning
    assert str(w[-1].message) == "4 items are slow"

# === os-errors
import errno


def read(path):
    with open(path) as f:
        return f.read()
# --- test
import errno
try:
    read("/tmp/does-not-exist-anywhere")
except FileNotFoundError as e:
    assert e.errno == errno.ENOENT
    assert e.filename == "/tmp/does-not-exist-anywhere"
    assert e.strerror == "No such file or directory"
else:
    raise AssertionError
try:
    read("/tmp")
except IsADirectoryError:
    pass
else:
    raise AssertionError

# === exception-with-callable-payload
class Abort(Exception):
    def __init__(self, undo):
        self.undo = undo


def risky(log):
    log.append("did")
    raise Abort(lambda: log.pop())
# --- test
log = []
try:
    risky(log)
except Abort as e:
    assert e.undo() == "did"
assert log == []

# === base-exception-subclass
class Stop(BaseException):
    pass


def walk(n):
    for i in range(10):
        if i == n:
            raise Stop(i)
    return "end"
# --- test
try:
    try:
        walk(3)
    except Exception:
        raise AssertionError("not an Exception")
except Stop as e:
    assert e.args == (3,)
assert walk(99) == "end"

# === exception-dataclass
from dataclasses import dataclass


@dataclass
class Invalid(Exception):
    field: str
    value: object = None

    def __str__(self):
        return f"{self.field}={self.value!r}"


def check(form):
    for k, v in form.items():
        if v is None:
            raise Invalid(k, v)
    return len(form)
# --- test
try:
    check({"a": None})
except Invalid as e:
    assert (e.field, e.value) == ("a", None)
    assert str(e) == "a=None"
else:
    raise AssertionError
assert check({"b": 1}) == 1
