# === deep-nesting-result
def nest(depth):
    result = []
    for _ in range(depth):
        result = [result]
    return result
# --- test
x = nest(400)
count = 0
while x:
    x = x[0]
    count += 1
assert count == 400

# === deep-nesting-argument
def depth(x):
    d = 0
    while isinstance(x, list) and x:
        x = x[0]
        d += 1
    return d
# --- test
x = []
for _ in range(600):
    x = [x]
assert depth(x) == 600

# === deep-nesting-900
def wrap(value, times):
    for _ in range(times):
        value = {"v": value}
    return value


def unwrap(value):
    while isinstance(value, dict):
        value = value["v"]
    return value
# --- test
d = wrap("core", 900)
n = 0
while isinstance(d, dict):
    d = d["v"]
    n += 1
assert n == 900 and d == "core"
# --- test
v = 1
for _ in range(900):
    v = {"v": v}
assert unwrap(v) == 1

# === linked-tuple-list
def cons_list(items):
    out = None
    for item in reversed(items):
        out = (item, out)
    return out
# --- test
cell = cons_list(list(range(300)))
n = 0
while cell:
    assert cell[0] == n
    cell = cell[1]
    n += 1
assert n == 300

# === deep-recursion-with-raised-limit
import sys

sys.setrecursionlimit(20000)


def sum_to(n):
    return 0 if n == 0 else n + sum_to(n - 1)
# --- asserts
assert sum_to(5000) == 12502500

# === backtracking-generator
def n_queens(n):
    def place(row, cols):
        if row == n:
            yield tuple(cols)
            return
        for c in range(n):
            if all(c != d and abs(c - d) != row - r for r, d in enumerate(cols)):
                yield from place(row + 1, cols + [c])
    return list(place(0, []))
# --- wrong
def n_queens(n):
    from itertools import permutations
    return list(permutations(range(n)))
# --- asserts
assert n_queens(4) == [(1, 3, 0, 2), (2, 0, 3, 1)]
assert len(n_queens(6)) == 4

# === wrong-recursion-base wrong
def fact(n):
    return n * fact(n - 1)
# --- asserts
assert fact(3) == 6

# === wrong-deep wrong
def nest(depth):
    return [] if depth == 0 else [nest(depth - 1)]
# --- test
x = nest(5000)
assert x
