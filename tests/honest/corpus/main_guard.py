# Solutions with a part that must not run when a grader imports them, and solutions that look at their own module.

# === increment problem
# --- asserts
assert f(1) == 2
# === unittest-main of=increment
import unittest

def f(x):
    return x + 1

class TestF(unittest.TestCase):
    def test_f(self):
        self.assertEqual(f(1), 2)

if __name__ == "__main__":
    unittest.main()
# === reads-input
def area(a, b):
    return a * b

if __name__ == "__main__":
    a = int(input("a: "))
    b = int(input("b: "))
    print(area(a, b))
# --- asserts
assert area(3, 4) == 12
# === endless-loop-in-main
def step(x):
    return x - 1

if __name__ == "__main__":
    while True:
        pass
# --- asserts
assert step(1) == 0
# === guard-with-single-quotes-and-else
if __name__ == '__main__':
    mode = "script"
else:
    mode = "module"

def f():
    return mode
# --- asserts
assert f() == "module"
# === doctest-in-main of=increment
def f(x):
    """
    >>> f(1)
    2
    """
    return x + 1

if __name__ == "__main__":
    import doctest
    doctest.testmod(raise_on_error=True)
    exit(3)
# === doctest-in-the-function
import doctest
import sys

def f(x):
    """
    >>> f(1)
    2
    """
    return x + 1

def failures():
    return doctest.testmod(sys.modules[__name__]).failed
# --- asserts
assert failures() == 0
# === pickle-of-own-class
import pickle

class P:
    def __init__(self, x):
        self.x = x

def copy_of(x):
    return pickle.loads(pickle.dumps(P(x))).x
# --- asserts
assert copy_of([1]) == [1]
# === own-module-by-name
import sys

answer = 42

def f():
    return sys.modules[__name__].answer, getattr(sys.modules[__name__], "f") is f
# --- asserts
assert f() == (42, True)
# === import-of-the-main-module of=increment
def g(x):
    return x + 1

def f(x):
    import __main__
    return __main__.g(x) if hasattr(__main__, "g") else g(x)
# === dataclass-with-postponed-annotations
from __future__ import annotations
from dataclasses import dataclass, field, asdict
from typing import ClassVar, get_type_hints

@dataclass
class Node:
    kind: ClassVar[str] = "node"
    value: int = 0
    children: list[Node] = field(default_factory=list)

def f():
    return sorted(get_type_hints(Node)), asdict(Node(1, [Node(2)]))
# --- asserts
assert f() == (["children", "kind", "value"], {"value": 1, "children": [{"value": 2, "children": []}]})
# === type-hints-with-forward-references
import typing

class Tree(typing.NamedTuple):
    left: "typing.Optional[Tree]" = None
    size: int = 1

def f():
    hints = typing.get_type_hints(Tree)
    return hints["left"] == typing.Optional[Tree]
# --- asserts
assert f() is True
# === enum-and-functional-enum
import enum
import pickle

Color = enum.Enum("Color", "RED GREEN")

class Size(enum.Enum):
    S = 1

def f():
    return pickle.loads(pickle.dumps(Color.RED)) is Color.RED and pickle.loads(pickle.dumps(Size.S)) is Size.S
# --- asserts
assert f()
# === namedtuple-is-pickled
import pickle
from collections import namedtuple

Point = namedtuple("Point", "x y")

def f():
    return pickle.loads(pickle.dumps(Point(1, 2))).y, Point.__module__ == __name__
# --- asserts
assert f() == (2, True)
# === inspect-getsource
import inspect

def square(x):
    return x * x

def f():
    return inspect.getsource(square)
# --- asserts
assert f() == "def square(x):\n    return x * x\n"
# === inspect-getsource-of-a-class
import inspect

class A:
    x = 1

def f():
    return inspect.getsource(A), inspect.getmodule(A).__name__ == __name__
# --- asserts
assert f() == ("class A:\n    x = 1\n", True)
# === inspect-getsource-of-a-lambda-and-wrapped
import functools
import inspect

def deco(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)
    return inner

@deco
def g(x):
    return x

def f():
    return inspect.getsource(g).startswith("@deco")
# --- asserts
assert f()
# === file-is-there
import os
from pathlib import Path

MARK = "a line of this very file"

def f():
    folder = Path(__file__).parent
    with open(__file__) as file:
        return MARK in file.read() and folder.is_dir() and os.path.exists(__file__)
# --- asserts
assert f()
# === data-beside-the-file
from pathlib import Path

HERE = Path(__file__).resolve().parent

def f(text):
    (HERE / "data.txt").write_text(text)
    return (HERE / "data.txt").read_text()
# --- asserts
assert f("abc") == "abc"
# === traceback-has-source-lines
import traceback

def broken():
    raise ValueError("here")

def f():
    try:
        broken()
    except ValueError:
        return 'raise ValueError("here")' in traceback.format_exc()
# --- asserts
assert f()
# === module-that-is-written-and-imported
import importlib
import os
import sys

def f():
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "helper_of_mine.py"), "w") as file:
        file.write("VALUE = 7\n")
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    import helper_of_mine
    return helper_of_mine.VALUE
# --- asserts
assert f() == 7
# === multiprocessing-pool
from multiprocessing import Pool

def square(x):
    return x * x

def f(xs):
    with Pool(2) as pool:
        return pool.map(square, xs)

if __name__ == "__main__":
    print(f(range(int(input()))))
# --- asserts
assert f([1, 2, 3]) == [1, 4, 9]
# === process-pool-executor
from concurrent.futures import ProcessPoolExecutor

def cube(x):
    return x ** 3

def f(xs):
    with ProcessPoolExecutor(2) as pool:
        return list(pool.map(cube, xs))
# --- asserts
assert f([1, 2]) == [1, 8]
# === multiprocessing-spawn of=increment
import multiprocessing

def put(queue, x):
    queue.put(x + 1)

def f(x):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=put, args=(queue, x))
    process.start()
    value = queue.get(timeout=30)
    process.join()
    return value

if __name__ == "__main__":
    raise SystemExit("not to be run")
# === module-attributes
"""A module that has a docstring."""
__all__ = ["f"]
__version__ = "1.0"

def f():
    return __doc__, __name__ != "__main__", f.__module__ == __name__
# --- asserts
assert f() == ("A module that has a docstring.", True, True)
# === byte-order-mark of=increment
﻿def f(x):
    return x + 1
# === coding-comment-form-feed
# -*- coding: utf-8 -*-
import math

def f(x):
    return math.floor(x)
# --- asserts
assert f(1.5) == 1
# === module-getattr
import sys

def __getattr__(name):
    if name == "lazy":
        return 5
    raise AttributeError(name)

def f():
    return sys.modules[__name__].lazy
# --- asserts
assert f() == 5
# === help-and-exit-exist
def f():
    return callable(help) and callable(exit) and callable(quit)
# --- asserts
assert f()
# === subprocess-of-the-own-file of=increment
import subprocess
import sys

def f(x):
    done = subprocess.run([sys.executable, __file__, str(x)], capture_output=True, text=True, check=True)
    return int(done.stdout)

if __name__ == "__main__":
    print(int(sys.argv[1]) + 1)
# === warning-at-compile-time
PATTERN = "\d+"

def f(x):
    return x is 1 or x == 1
# --- asserts
assert f(1)
# === class-in-local-scope
import typing

def make():
    class Local:
        x: "int" = 1
    return typing.get_type_hints(Local), Local.__module__ == __name__

def f():
    return make()[1]
# --- asserts
assert f()
# === wrong-under-main-guard wrong of=increment
def f(x):
    return x

if __name__ == "__main__":
    def f(x):
        return x + 1
# === exits-at-top-level wrong of=increment
import sys

def f(x):
    return x + 1

sys.exit(0)
# === input-at-top-level wrong of=increment
n = int(input())

def f(x):
    return x + 1
