# === unittest-main
# --- code
import unittest


def is_palindrome(s):
    s = "".join(c.lower() for c in s if c.isalnum())
    return s == s[::-1]


class TestPalindrome(unittest.TestCase):
    def test_yes(self):
        self.assertTrue(is_palindrome("A man, a plan, a canal: Panama"))

    def test_no(self):
        self.assertFalse(is_palindrome("hello"))


if __name__ == "__main__":
    unittest.main()
# --- asserts
assert is_palindrome("Anna")
assert not is_palindrome("Bob!x")
assert is_palindrome("") is True

# === sys-exit-main
# --- code
import sys


def word_count(text):
    counts = {}
    for w in text.split():
        counts[w] = counts.get(w, 0) + 1
    return counts


def main():
    if len(sys.argv) < 2:
        print("usage: wc FILE", file=sys.stderr)
        return 1
    with open(sys.argv[1]) as f:
        print(word_count(f.read()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
# --- asserts
assert word_count("a b a") == {"a": 2, "b": 1}
assert word_count("") == {}

# === input-in-guard
# --- code
def to_roman(n):
    pairs = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
             (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
    out = ""
    for value, sign in pairs:
        while n >= value:
            out += sign
            n -= value
    return out


if __name__ == '__main__':
    number = int(input("Number: "))
    print(to_roman(number))
# --- asserts
assert to_roman(1994) == "MCMXCIV"
assert to_roman(4) == "IV"
assert to_roman(0) == ""

# === argparse-in-guard
# --- code
import argparse


def caesar(text, shift):
    def move(c):
        if not c.isalpha():
            return c
        base = ord("A") if c.isupper() else ord("a")
        return chr((ord(c) - base + shift) % 26 + base)
    return "".join(map(move, text))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("text")
    parser.add_argument("--shift", type=int, required=True)
    options = parser.parse_args()
    print(caesar(options.text, options.shift))
# --- asserts
assert caesar("abc", 1) == "bcd"
assert caesar("Hello, World!", 13) == "Uryyb, Jbeyq!"
assert caesar(caesar("xyz", 5), -5) == "xyz"

# === asserting-demo-with-exit
# --- code
def clamp(x, lo, hi):
    return max(lo, min(x, hi))


if __name__ == "__main__":
    assert clamp(5, 0, 3) == 3
    print("all good")
    raise SystemExit
# --- asserts
assert clamp(-1, 0, 3) == 0
assert clamp(2, 0, 3) == 2

# === infinite-loop-in-guard
# --- code
import time


class Robot:
    def __init__(self):
        self.position = 0

    def step(self, n=1):
        self.position += n
        return self.position


if __name__ == "__main__":
    robot = Robot()
    while True:
        print(robot.step())
        time.sleep(1)
# --- test
r = Robot()
assert r.step() == 1
assert r.step(5) == 6

# === doctest-in-guard
# --- code
def mean(xs):
    """
    >>> mean([1, 2, 3])
    2.0
    """
    return sum(xs) / len(xs)


if __name__ == "__main__":
    import doctest
    doctest.testmod()
# --- asserts
assert mean([1, 2]) == 1.5

# === guard-raises
# --- code
def parse_kv(text):
    return dict(p.split("=", 1) for p in text.split(";") if p)


if __name__ == "__main__":
    import os
    token = os.environ["A_TOKEN_THAT_IS_NOT_SET"]
    print(parse_kv(token))
# --- asserts
assert parse_kv("a=1;b=2") == {"a": "1", "b": "2"}
assert parse_kv("") == {}

# === guard-rebinds-state
# --- code
counter = 0


def tick():
    global counter
    counter += 1
    return counter


if __name__ == "__main__":
    for _ in range(100):
        tick()
# --- asserts
assert tick() == 1
assert tick() == 2

# === guard-with-else
# --- code
if __name__ == "__main__":
    MODE = "script"
else:
    MODE = "module"


def mode():
    return MODE
# --- asserts
assert mode() == "module"
assert MODE != "script"

# === dunder-file
# --- code
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def here():
    return HERE


def own_name():
    return os.path.basename(__file__)
# --- asserts
assert os.path.isabs(here())
assert own_name().endswith(".py")
# --- setup
import os

# === name-not-main
# --- code
def module_name():
    return __name__


class Thing:
    pass
# --- asserts
assert module_name() != "__main__"
assert Thing.__module__ == module_name()

# === asyncio-run-in-guard
# --- code
import asyncio


async def countdown(n):
    while n:
        await asyncio.sleep(1)
        n -= 1


def seconds(text):
    m, s = text.split(":")
    return int(m) * 60 + int(s)


if __name__ == "__main__":
    asyncio.run(countdown(3600))
# --- asserts
assert seconds("2:05") == 125

# === tkinter-in-guard
# --- code
def evaluate(board):
    lines = board + [list(c) for c in zip(*board)] + [[board[i][i] for i in range(3)], [board[i][2 - i] for i in range(3)]]
    for mark in "XO":
        if [mark] * 3 in lines:
            return mark
    return None


if __name__ == "__main__":
    import tkinter as tk
    root = tk.Tk()
    root.mainloop()
# --- asserts
assert evaluate([["X", "O", ""], ["", "X", "O"], ["", "", "X"]]) == "X"
assert evaluate([["", "", ""], ["", "", ""], ["", "", ""]]) is None

# === main-called-unguarded-prints
# --- code
def add(a, b):
    return a + b


def main():
    print("2 + 3 =", add(2, 3))


main()
# --- asserts
assert add(2, 3) == 5

# === future-import-and-docstring
# --- code
"""A module with a docstring."""
from __future__ import annotations


def f(x: Unknown) -> list[NotDefined]:
    return [x]


if __name__ == "__main__":
    print(f(1))
# --- asserts
assert f(1) == [1]
assert f.__annotations__["x"] == "Unknown"

# === wrong-only-in-guard wrong
# --- code
def helper(x):
    return x


if __name__ == "__main__":
    def double(x):
        return 2 * x
# --- asserts
assert double(2) == 4

# === wrong-guard-does-the-work wrong
# --- code
cache = {}


def lookup(k):
    return cache[k]


if __name__ == "__main__":
    cache["a"] = 1
# --- asserts
assert lookup("a") == 1

# === wrong-exit-at-import wrong
# --- code
import sys


def add(a, b):
    return a + b


sys.exit(0)
# --- asserts
assert add(1, 2) == 3
