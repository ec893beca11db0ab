# === printed-output-redirected
def triangle(n):
    for i in range(1, n + 1):
        print("*" * i)
# --- wrong
def triangle(n):
    for i in range(n):
        print("*" * i)
# --- test
import io
from contextlib import redirect_stdout
buf = io.StringIO()
with redirect_stdout(buf):
    assert triangle(3) is None
assert buf.getvalue() == "*\n**\n***\n"

# === stderr-and-file-argument
import sys


def report(message, stream=None):
    print(message, file=stream or sys.stderr)


def write_table(rows, out):
    for row in rows:
        print(*row, sep="|", file=out)
# --- test
import io
from contextlib import redirect_stderr
buf = io.StringIO()
with redirect_stderr(buf):
    report("oops")
assert buf.getvalue() == "oops\n"
out = io.StringIO()
write_table([[1, 2], ["a", "b"]], out)
report("end", out)
assert out.getvalue() == "1|2\na|b\nend\n"

# === prints-at-import
print("loading ...")


def add(a, b):
    print("adding", a, b)
    return a + b


print(add(1, 2))
# --- asserts
assert add(2, 3) == 5

# === input-replaced-by-hand
def dialogue():
    name = input()
    times = int(input())
    return " ".join([name] * times)
# --- test
import builtins
answers = iter(["ho", "3"])
original = builtins.input
builtins.input = lambda prompt="": next(answers)
try:
    assert dialogue() == "ho ho ho"
finally:
    builtins.input = original

# === mock-as-dependency
def notify_all(users, mailer):
    sent = 0
    for u in users:
        if mailer.send(u, subject="hi"):
            sent += 1
    mailer.close()
    return sent
# --- test
from unittest.mock import MagicMock, Mock, call
m = Mock()
m.send.side_effect = [True, False, True]
assert notify_all(["a", "b", "c"], m) == 2
assert m.send.call_args_list == [call("a", subject="hi"), call("b", subject="hi"), call("c", subject="hi")]
m.close.assert_called_once()

# === logging-captured-by-handler
import logging

logger = logging.getLogger("shop")


def sell(item, stock):
    if stock.get(item, 0) <= 0:
        logger.warning("no %s left", item)
        return False
    stock[item] -= 1
    logger.info("sold %s", item)
    return True
# --- test
import logging
class ListHandler(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []
    def emit(self, record):
        self.records.append((record.levelname, record.getMessage()))
h = ListHandler()
log = logging.getLogger("shop")
log.addHandler(h)
log.setLevel(logging.DEBUG)
stock = {"pen": 1}
assert sell("pen", stock) is True
assert sell("pen", stock) is False
log.removeHandler(h)
assert h.records == [("INFO", "sold pen"), ("WARNING", "no pen left")]

# === logging-assert-logs
import logging


def parse(text):
    try:
        return int(text)
    except ValueError:
        logging.getLogger(__name__).error("bad number: %s", text)
        return None
# --- wrong
import logging


def parse(text):
    logging.getLogger(__name__).info("bad number: %s", text)
# --- test
import unittest
case = unittest.TestCase()
with case.assertLogs(level="ERROR") as captured:
    assert parse("x") is None
assert captured.output[0].endswith("bad number: x")
assert parse("3") == 3

# === logging-to-stream-argument
import logging


def make_logger(name, stream):
    logger = logging.getLogger(name)
    logger.handlers.clear()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s:%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return logger
# --- test
import io
out = io.StringIO()
log = make_logger("x1", out)
log.info("hello %d", 5)
log.debug("hidden")
assert out.getvalue() == "INFO:hello 5\n"
assert log.name == "x1"

# === files-in-tmp
import os


def save_lines(path, lines):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(line + "\n" for line in lines)
    return os.path.getsize(path)


def count_words(path):
    with open(path, encoding="utf-8") as f:
        return sum(len(line.split()) for line in f)
# --- test
import os
path = "/tmp/honest-lines.txt"
try:
    assert save_lines(path, ["one two", "drei"]) == 13
    assert count_words(path) == 3
finally:
    os.remove(path)

# === files-open-objects
def tail(f, n):
    return [line.rstrip("\n") for line in f.readlines()[-n:]]


def copy(src, dst, chunk=4):
    total = 0
    while data := src.read(chunk):
        total += dst.write(data)
    return total
# --- test
import io, tempfile
with tempfile.TemporaryFile("w+") as f:
    f.write("a\nb\nc\n")
    f.seek(0)
    assert tail(f, 2) == ["b", "c"]
out = io.BytesIO()
assert copy(io.BytesIO(b"hello world"), out) == 11
assert out.getvalue() == b"hello world"

# === argparse-and-argv
import argparse


def parse(argv):
    p = argparse.ArgumentParser(prog="tool")
    p.add_argument("name")
    p.add_argument("-n", "--times", type=int, default=1)
    p.add_argument("--loud", action="store_true")
    return p.parse_args(argv)
# --- test
assert vars(parse(["x", "--loud"])) == {"name": "x", "times": 1, "loud": True}
# --- test
import contextlib, io
err = io.StringIO()
try:
    with contextlib.redirect_stderr(err):
        parse(["--times"])
except SystemExit as e:
    assert e.code == 2
else:
    raise AssertionError
assert "tool" in err.getvalue()

# === unittest-in-check
class Calculator:
    def divide(self, a, b):
        if b == 0:
            raise ValueError("Cannot divide by zero")
        return a / b
# --- test
import unittest

class TestCalculator(unittest.TestCase):
    def setUp(self):
        self.calc = Calculator()

    def test_divide(self):
        self.assertAlmostEqual(self.calc.divide(1, 3), 0.3333333)
        with self.assertRaises(ValueError) as cm:
            self.calc.divide(1, 0)
        self.assertEqual(str(cm.exception), "Cannot divide by zero")

suite = unittest.defaultTestLoader.loadTestsFromTestCase(TestCalculator)
result = unittest.TextTestRunner(verbosity=0).run(suite)
assert result.wasSuccessful() and result.testsRun == 1

# === unittest-loads-and-runs-its-suite
def middle(values):
    return sorted(values)[len(values) // 2]
# --- test
import sys
import unittest

class TestMiddle(unittest.TestCase):
    def test_odd(self):
        self.assertEqual(middle([3, 1, 2]), 2)

    def test_one(self):
        self.assertEqual(middle(["a"]), "a")

def suite():
    tests = unittest.TestSuite()
    tests.addTest(TestMiddle("test_odd"))
    tests.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(TestMiddle))
    return tests

if __name__ == "__main__":
    result = unittest.TextTestRunner(verbosity=0).run(suite())
    sys.exit(not result.wasSuccessful())

# === test-functions-in-a-loop
def words(text):
    return text.split()
# --- test
def test_two():
    assert words("a b") == ["a", "b"]

def test_empty():
    assert words(" ") == []

def main():
    passed = 0
    for test in (test_two, test_empty):
        test()
        passed += 1
    assert passed == 2 and words("c") == ["c"]

if __name__ == "__main__":
    main()

# === unittest-assertions-directly
def stats(xs):
    return {"n": len(xs), "mean": sum(xs) / len(xs)}
# --- test
import unittest
t = unittest.TestCase()
t.assertEqual(stats([1, 2]), {"n": 2, "mean": 1.5})
t.assertDictEqual(stats([4]), {"n": 1, "mean": 4.0})
t.assertIn("n", stats([1]))
t.assertRaises(ZeroDivisionError, stats, [])
t.assertCountEqual(stats([1]), ["mean", "n"])

# === doctest-run
def double(x):
    """
    >>> double(2)
    4
    """
    return 2 * x
# --- test
import doctest
runner = doctest.DocTestRunner(verbose=False)
for test in doctest.DocTestFinder().find(double, "double", globs={"double": double}):
    runner.run(test)
assert runner.failures == 0 and runner.tries == 1

# === wrong-prints-instead-of-returns wrong
def add(a, b):
    print(a + b)
# --- asserts
assert add(1, 2) == 3

# === wrong-input-count wrong
def ask_age():
    return int(input("Age: "))
# --- test
from unittest.mock import patch
with patch("builtins.input", side_effect=["x", "42"]):
    assert ask_age() == 42
