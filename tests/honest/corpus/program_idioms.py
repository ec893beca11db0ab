# Programs that read and print in the many ways that programs of contests do.

# === stdin-buffer-read
import sys

data = sys.stdin.buffer.read().split()
print(sum(map(int, data[1:])))
# --- stdin
3
1 2 3
# --- stdout
6
# === open-zero
n, *rest = map(int, open(0).read().split())
print(n, sum(rest))
# --- stdin
2 3 4
# --- stdout
2 7
# === open-dev-stdin
print(sum(map(int, open("/dev/stdin").read().split())))
# --- stdin
2 3 4
# --- stdout
9
# === os-read-all
import io
import os

input = io.BytesIO(os.read(0, os.fstat(0).st_size)).readline
n = int(input())
print(n, *map(int, input().split()))
# --- stdin
2
5 6
# --- stdout
2 5 6
# === fast-io-template
import os
import sys
from io import BytesIO, IOBase

BUFSIZE = 8192

class FastIO(IOBase):
    newlines = 0

    def __init__(self, file):
        self._fd = file.fileno()
        self.buffer = BytesIO()
        self.writable = "x" in file.mode or "r" not in file.mode
        self.write = self.buffer.write if self.writable else None

    def readline(self):
        while self.newlines == 0:
            b = os.read(self._fd, max(os.fstat(self._fd).st_size, BUFSIZE))
            self.newlines = b.count(b"\n") + (not b)
            ptr = self.buffer.tell()
            self.buffer.seek(0, 2), self.buffer.write(b), self.buffer.seek(ptr)
        self.newlines -= 1
        return self.buffer.readline()

    def flush(self):
        if self.writable:
            os.write(self._fd, self.buffer.getvalue())
            self.buffer.truncate(0), self.buffer.seek(0)

class IOWrapper(IOBase):
    def __init__(self, file):
        self.buffer = FastIO(file)
        self.flush = self.buffer.flush
        self.writable = self.buffer.writable
        self.write = lambda s: self.buffer.write(s.encode("ascii"))
        self.readline = lambda: self.buffer.readline().decode("ascii")

sys.stdin, sys.stdout = IOWrapper(sys.stdin), IOWrapper(sys.stdout)
input = lambda: sys.stdin.readline().rstrip("\r\n")

for _ in range(int(input())):
    print(sum(map(int, input().split())))
# --- stdin
2
1 2
3 4
# --- stdout
3
7
# === mmap-of-stdin
import mmap

with mmap.mmap(0, 0, access=mmap.ACCESS_READ) as text:
    print(text.readline().decode().strip()[::-1])
# --- stdin
hello
# --- stdout
olleh
# === fileinput
import fileinput

print(sum(int(line) for line in fileinput.input()))
# --- stdin
1
2
# --- stdout
3
# === readline-as-input
import sys

input = sys.stdin.readline
n = int(input())
print([int(input()) for _ in range(n)])
# --- stdin
2
8
9
# --- stdout
[8, 9]
# === for-line-in-stdin
import sys

for number, line in enumerate(sys.stdin, 1):
    print(number, line.rstrip("\n"))
# --- stdin
a
b
# --- stdout
1 a
2 b
# === input-until-eof
total = 0
try:
    while True:
        total += int(input())
except EOFError:
    print(total)
# --- stdin
1
2
3
# --- stdout
6
# === seek-stdin-twice
import os

first = os.read(0, 100)
os.lseek(0, 0, 0)
print(first == os.read(0, 100))
# --- stdin
abc
# --- stdout
True
# === two-threads-of-64-mib
import threading

threading.stack_size(64 * 1024 * 1024)
found = []
threads = [threading.Thread(target=found.append, args=(i,)) for i in range(6)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(sorted(found))
# --- stdout
[0, 1, 2, 3, 4, 5]
# === recursion-in-the-main-thread
import sys

sys.setrecursionlimit(10 ** 6)

def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)

print(depth(20000))
# --- stdout
20000
# === recursion-near-the-limit
def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)

print(depth(960))
# --- stdout
960
# === recursion-error-is-caught
def forever():
    return forever()

try:
    forever()
except RecursionError:
    print("too deep")
# --- stdout
too deep
# === setrlimit-stack
import resource
import sys

soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
sys.setrecursionlimit(10 ** 5)
print("ok")
# --- stdout
ok
# === signal-alarm
import signal

def on_alarm(number, frame):
    raise TimeoutError

signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    while True:
        pass
except TimeoutError:
    print("alarm")
# --- stdout
alarm
# === faulthandler
import faulthandler

faulthandler.enable()
print("enabled", faulthandler.is_enabled())
# --- stdout
enabled True
# === asyncio-to-thread
import asyncio

async def main():
    line = await asyncio.to_thread(input)
    print(line.upper())

asyncio.run(main())
# --- stdin
abc
# --- stdout
ABC
# === asyncio-subprocess
import asyncio
import sys

async def main():
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(6 * 7)", stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    print(out.decode().strip())

asyncio.run(main())
# --- stdout
42
# === reconfigure-utf-8
import sys

sys.stdout.reconfigure(encoding="utf-8", line_buffering=True)
sys.stdin.reconfigure(encoding="utf-8")
print(input()[::-1], "\N{GRINNING FACE}")
# --- stdin
äöü
# --- stdout
üöä 😀
# === reconfigure-ascii-backslash
import sys

sys.stdout.reconfigure(encoding="ascii", errors="backslashreplace")
print("é")
# --- stdout
\xe9
# === stdout-buffer-and-text
import sys

print("a")
sys.stdout.flush()
sys.stdout.buffer.write("ß\n".encode())
sys.stdout.buffer.flush()
print("c")
# --- stdout
a
ß
c
# === print-surrogate wrong
print("\ud83d")
# --- stdout
x
# === coding-comment
# -*- coding: utf-8 -*-
# vim: set fileencoding=utf-8 :
print("ä")
# --- stdout
ä
# === future-imports
"""Docstring."""
from __future__ import annotations, division, print_function

def f(x: Undefined) -> AlsoUndefined:
    return x

print(f.__annotations__, 1 / 2)
# --- stdout
{'x': 'Undefined', 'return': 'AlsoUndefined'} 0.5
# === name-and-file
import os
import sys

print(__name__, os.path.basename(__file__), os.path.basename(sys.argv[0]), len(sys.argv))
# --- stdout
__main__ solution.py solution.py 1
# === own-source
import sys
with open(__file__) as a, open(sys.argv[0]) as b:
    print(a.read() == b.read())
# --- stdout
True
# === inspect-own-source
import inspect

def f():
    return 1

print(inspect.getsource(f).strip())
# --- stdout
def f():
    return 1
# === traceback-of-own-line
import sys
import traceback

try:
    1 / 0
except ZeroDivisionError:
    last = traceback.extract_tb(sys.exc_info()[2])[-1]
    print(last.lineno, last.line, last.name)
# --- stdout
5 1 / 0 <module>
# === stack-has-one-module-frame
import sys

def here():
    frame = sys._getframe(1)
    return frame.f_code.co_name, frame.f_globals is globals()

print(*here())
# --- stdout
<module> True
# === module-of-main
import sys
import __main__

print(sys.modules["__main__"] is __main__, __main__.__dict__ is globals(), __name__)
# --- stdout
True True __main__
# === pickle-in-main
import pickle
from dataclasses import dataclass

@dataclass
class P:
    x: int

print(pickle.loads(pickle.dumps(P(3))))
# --- stdout
P(x=3)
# === unittest-in-a-program
import io
import unittest

class T(unittest.TestCase):
    def test(self):
        self.assertEqual(1, 1)

if __name__ == "__main__":
    result = unittest.main(exit=False, testRunner=unittest.TextTestRunner(stream=io.StringIO())).result
    print(result.testsRun, result.wasSuccessful())
# --- stdout
1 True
# === unittest-main-exits
import unittest

class T(unittest.TestCase):
    def test(self):
        self.assertTrue(True)

unittest.main()
# --- stdout

# === argparse-defaults
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--n", type=int, default=3)
print(parser.parse_args().n)
# --- stdout
3
# === tolerance-in-text tolerance=1e-6
print("x=%.9f, y=%.9f;" % (1 / 3, 2 / 3))
# --- stdout
x=0.3333333, y=0.6666667;
# === tolerance-complex tolerance=1e-6
print((1 + 2j) / 3)
# --- stdout
(0.3333333+0.6666667j)
# === tolerance-percent tolerance=1e-3
print(f"{2/3:.4%}")
# --- stdout
66.6666%
# === tolerance-scientific tolerance=1e-3
print((1e-10, 1.5e3))
# --- stdout
(0, 1500)
# === warning-is-printed
x = 1
print(x is 1)
# --- stdout
True
