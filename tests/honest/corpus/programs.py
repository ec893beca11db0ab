# === sum-of-numbers
# --- code
import sys

def main():
    n = int(input())
    print(sum(map(int, sys.stdin.readline().split())) if n else 0)

if __name__ == "__main__":
    main()
# --- stdin
3
1 2 3
# --- stdout
6
# --- stdin
0
# --- stdout
0

# === guarded-main-with-exit
# --- code
import sys


def main() -> int:
    total = 0
    for line in sys.stdin:
        total += int(line)
    print(total)
    return 0


if __name__ == "__main__":
    sys.exit(main())
# --- stdin
1
2
3
# --- stdout
6

# === os-exit-after-flush
# --- code
import os
import sys

n = int(input())
print(n * n)
sys.stdout.flush()
os._exit(0)
# --- stdin
7
# --- stdout
49

# === buffered-stdout-of-own
# --- code
import io
import os
import sys

input = sys.stdin.readline
out = io.StringIO()
for _ in range(int(input())):
    out.write(str(int(input()) * 2) + "\n")
sys.stdout.write(out.getvalue())
# --- stdin
2
5
6
# --- stdout
10
12

# === stdout-replaced-by-buffered-writer
# --- code
import io
import os
import sys

sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", buffering=1 << 16, closefd=False))
for i in range(int(input())):
    print(i, end=" ")
print()
# --- stdin
5
# --- stdout
0 1 2 3 4

# === fd-file-object-never-closed
# --- code
import os

out = os.fdopen(os.dup(1), "w")
a, b = map(int, input().split())
out.write(f"{a + b}\n")
# --- stdin
2 3
# --- stdout
5

# === object-with-del-prints
# --- code
class Log:
    def __init__(self):
        self.lines = []

    def __del__(self):
        print("\n".join(self.lines))


log = Log()
for word in input().split():
    log.lines.append(word.upper())
# --- stdin
a b
# --- stdout
A
B

# === atexit-prints-last
# --- code
import atexit

atexit.register(print, "done")
print(input()[::-1])
# --- stdin
abc
# --- stdout
cba
done

# === execv-itself
# --- code
import os
import sys

if len(sys.argv) == 1:
    os.execv(sys.executable, [sys.executable, "-c", "print(int(input()) + 1)", "again"])
# --- stdin
41
# --- stdout
42

# === subprocess-reads-stdin
# --- code
import subprocess
import sys

subprocess.run([sys.executable, "-c", "print(input().upper())"])
# --- stdin
shout
# --- stdout
SHOUT

# === fork-prints-in-order
# --- code
import os

n = int(input())
pid = os.fork()
if pid == 0:
    print("child", n, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print("parent", n)
# --- stdin
3
# --- stdout
child 3
parent 3

# === big-stack-thread
# --- code
import sys
import threading


def main():
    n = int(input())

    def depth(k):
        return 0 if k == 0 else 1 + depth(k - 1)

    print(depth(n))


sys.setrecursionlimit(1 << 25)
threading.stack_size(200 * 1024 * 1024)
t = threading.Thread(target=main)
t.start()
t.join()
# --- stdin
100000
# --- stdout
100000

# === thread-not-joined
# --- code
import threading
import time


def work():
    time.sleep(0.05)
    print("late")


threading.Thread(target=work).start()
print("early")
# --- stdout
early
late

# === raw-os-read-write
# --- code
import os

data = b""
while chunk := os.read(0, 65536):
    data += chunk
numbers = sorted(map(int, data.split()))
os.write(1, b" ".join(b"%d" % n for n in numbers) + b"\n")
# --- stdin
3 1
2
# --- stdout
1 2 3

# === open-zero
# --- code
n, *rest = open(0).read().split()
print(*rest[: int(n)], sep="\n")
# --- stdin
2
x y z
# --- stdout
x
y

# === fileinput-and-eof
# --- code
words = []
try:
    while True:
        words.extend(input().split())
except EOFError:
    pass
print(len(words))
# --- stdin
a b
c
# --- stdout
3

# === tolerance-in-list tolerance=0.001
# --- code
values = [float(x) / 3 for x in input().split()]
print(values)
# --- stdin
1 2
# --- stdout
[0.3333, 0.6667]

# === tolerance-in-parentheses-and-commas tolerance=0.001
# --- code
import math

x, y = map(float, input().split())
print((math.hypot(x, y), math.atan2(y, x)))
print(f"r={math.hypot(x, y):.6f}, x={x:.4f}")
# --- stdin
3 4
# --- stdout
(5.0, 0.9273)
r=5.000000, x=3.0000

# === tolerance-plain tolerance=1e-6
# --- code
n = int(input())
s = 0.0
for k in range(1, n + 1):
    s += 1 / k
print(s)
# --- stdin
3
# --- stdout
1.833333333

# === unicode-io
# --- code
name = input().strip()
print(f"Grüße, {name}! 🎉")
print(len(name))
# --- stdin
Zoë
# --- stdout
Grüße, Zoë! 🎉
3

# === latin1-output-reconfigured
# --- code
import sys

sys.stdout.reconfigure(encoding="utf-8", newline="\n")
sys.stdin.reconfigure(encoding="utf-8")
print(sys.stdin.readline().strip().title())
# --- stdin
élan vital
# --- stdout
Élan Vital

# === large-output
# --- code
n = int(input())
print("\n".join(str(i * i % 7) for i in range(n)))
# --- stdin
20
# --- stdout
0
1
4
2
2
4
1
0
1
4
2
2
4
1
0
1
4
2
2
4

# === trailing-spaces-and-blank-lines
# --- code
n = int(input())
for i in range(n):
    print(*range(i + 1), end=" \n")
print()
print()
# --- stdin
3
# --- stdout
0
0 1
0 1 2

# === interactive-prompts-to-stderr
# --- code
import sys

sys.stderr.write("What is your name? ")
print("Hi " + input())
# --- stdin
Al
# --- stdout
Hi Al

# === exit-in-function-zero
# --- code
def solve():
    n = int(input())
    if n < 0:
        print("negative")
        exit()
    print("ok")
    quit(0)


solve()
# --- stdin
-1
# --- stdout
negative
# --- stdin
4
# --- stdout
ok

# === systemexit-none-in-except
# --- code
import sys

try:
    n = int(input())
    print(100 // n)
except ZeroDivisionError:
    print("division by zero")
    sys.exit(None)
finally:
    print("bye")
# --- stdin
0
# --- stdout
division by zero
bye

# === class-based-solver-and-deque
# --- code
from collections import deque


class Grid:
    def __init__(self, rows):
        self.rows = rows
        self.h, self.w = len(rows), len(rows[0])

    def shortest(self):
        queue, seen = deque([(0, 0, 0)]), {(0, 0)}
        while queue:
            r, c, d = queue.popleft()
            if (r, c) == (self.h - 1, self.w - 1):
                return d
            for dr, dc in ((1, 0), (0, 1), (-1, 0), (0, -1)):
                p = (r + dr, c + dc)
                if 0 <= p[0] < self.h and 0 <= p[1] < self.w and self.rows[p[0]][p[1]] == "." and p not in seen:
                    seen.add(p)
                    queue.append((*p, d + 1))
        return -1


h, w = map(int, input().split())
print(Grid([input() for _ in range(h)]).shortest())
# --- stdin
3 3
..#
#..
#..
# --- stdout
4
# --- stdin
1 2
.#
# --- stdout
-1

# === asyncio-program
# --- code
import asyncio


async def square(n):
    await asyncio.sleep(0)
    return n * n


async def main():
    numbers = map(int, input().split())
    print(*await asyncio.gather(*map(square, numbers)))


if __name__ == "__main__":
    asyncio.run(main())
# --- stdin
1 2 3
# --- stdout
1 4 9

# === multiprocessing-program
# --- code
from multiprocessing import Pool


def cube(x):
    return x ** 3


if __name__ == "__main__":
    xs = list(map(int, input().split()))
    with Pool(2) as p:
        print(p.map(cube, xs))
# --- stdin
1 2 3
# --- stdout
[1, 8, 27]

# === pickled-own-class
# --- code
import pickle


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y


p = pickle.loads(pickle.dumps(Point(*map(int, input().split()))))
print(type(p).__module__, p.x + p.y)
# --- stdin
2 5
# --- stdout
__main__ 7

# === dataclass-and-typing-hints-of-main
# --- code
from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import get_type_hints


@dataclass
class Row:
    name: str
    value: int


row = Row(*input().split())
print(sorted(get_type_hints(Row)), sys.modules["__main__"].Row is Row)
# --- stdin
a 1
# --- stdout
['name', 'value'] True

# === temp-file-round-trip
# --- code
import os
import tempfile

with tempfile.NamedTemporaryFile("w+", delete=False) as f:
    f.write(input())
with open(f.name) as g:
    print(g.read().count("a"))
os.unlink(f.name)
# --- stdin
banana
# --- stdout
3

# === stdout-closed-at-end
# --- code
import sys

print(input() * 2)
sys.stdout.close()
# --- stdin
ab
# --- stdout
abab

# === excepthook-not-used
# --- code
import sys


def hook(kind, value, tb):
    print("hook", kind.__name__)


sys.excepthook = hook
print("ok", input())
# --- stdin
x
# --- stdout
ok x

# === interpreter-details
# --- code
import __main__
import os.path
import sys

print(__name__, __main__.__name__, os.path.basename(__file__).endswith(".py"), len(sys.argv))
# --- stdout
__main__ __main__ True 1

# === wrong-sum wrong
# --- code
print(sum(map(int, input().split())))
# --- stdin
1 2
3
# --- stdout
6

# === wrong-exit-status wrong
# --- code
import sys

print(int(input()) * 2)
sys.exit(1)
# --- stdin
3
# --- stdout
6

# === wrong-unflushed-os-exit wrong
# --- code
import os

print(int(input()) * 2)
os._exit(0)
# --- stdin
3
# --- stdout
6

# === wrong-raises-after-output wrong
# --- code
print(int(input()) * 2)
raise RuntimeError
# --- stdin
3
# --- stdout
6

# === wrong-tolerance wrong tolerance=0.001
# --- code
print([float(x) / 3 for x in input().split()])
# --- stdin
1 2
# --- stdout
[0.34, 0.6667]

# === wrong-extra-prompt wrong
# --- code
n = int(input("n: "))
print(n)
# --- stdin
3
# --- stdout
3
