# === sum-of-numbers
import sys

def main():
    n = int(input())
    print(sum(map(int, sys.stdin.readline().split())) if n else 0)

if __name__ == "__main__":
    main()
# --- wrong
print(sum(map(int, input().split())))
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

# === fd-file-object-never-closed
import os

out = os.fdopen(os.dup(1), "w")
a, b = map(int, input().split())
out.write(f"{a + b}\n")
# --- stdin
2 3
# --- stdout
5

# === big-stack-thread
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

# === tolerance-in-list tolerance=0.001
values = [float(x) / 3 for x in input().split()]
print(values)
# --- wrong
print([float(x) / 3 + 0.007 for x in input().split()])
# --- stdin
1 2
# --- stdout
[0.3333, 0.6667]

# === tolerance-in-parentheses-and-commas tolerance=0.001
import math

x, y = map(float, input().split())
print((math.hypot(x, y), math.atan2(y, x)))
print(f"r={math.hypot(x, y):.6f}, x={x:.4f}")
# --- stdin
3 4
# --- stdout
(5.0, 0.9273)
r=5.000000, x=3.0000

# === trailing-spaces-and-blank-lines
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
import sys

sys.stderr.write("What is your name? ")
print("Hi " + input())
# --- stdin
Al
# --- stdout
Hi Al

# === dataclass-and-typing-hints-of-main
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

# === wrong-extra-prompt wrong
n = int(input("n: "))
print(n)
# --- stdin
3
# --- stdout
3
