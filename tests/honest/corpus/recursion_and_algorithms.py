# === deep-nesting-result
# --- code
def nest(depth):
    result = []
    for _ in range(depth):
        result = [result]
    return result


def depth(x):
    d = 0
    while x:
        x = x[0]
        d += 1
    return d
# --- asserts
assert depth(nest(200)) == 200
assert nest(3) == [[[[]]]]
# --- test
x = nest(400)
count = 0
while x:
    x = x[0]
    count += 1
assert count == 400

# === deep-nesting-argument
# --- code
def depth(x):
    d = 0
    while isinstance(x, list) and x:
        x = x[0]
        d += 1
    return d


def flatten(x):
    stack, out = [x], []
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
        else:
            out.append(item)
    return out
# --- test
x = []
for _ in range(600):
    x = [x]
assert depth(x) == 600
y = 1
for _ in range(300):
    y = (y, 0)
assert flatten(y) == [1] + [0] * 300

# === deep-nesting-900
# --- code
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
assert unwrap(wrap(5, 900)) == 5
# --- test
v = 1
for _ in range(900):
    v = {"v": v}
assert unwrap(v) == 1

# === linked-tuple-list
# --- code
def cons_list(items):
    out = None
    for item in reversed(items):
        out = (item, out)
    return out


def to_list(cell):
    out = []
    while cell is not None:
        item, cell = cell
        out.append(item)
    return out
# --- asserts
assert cons_list([1, 2]) == (1, (2, None))
assert to_list(cons_list(list(range(500)))) == list(range(500))
# --- test
cell = cons_list(list(range(300)))
n = 0
while cell:
    assert cell[0] == n
    cell = cell[1]
    n += 1
assert n == 300

# === deep-recursion-with-raised-limit
# --- code
import sys

sys.setrecursionlimit(20000)


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def sum_to(n):
    return 0 if n == 0 else n + sum_to(n - 1)
# --- asserts
assert ackermann(2, 3) == 9
assert ackermann(3, 4) == 125
assert sum_to(5000) == 12502500

# === recursion-limit-read
# --- code
import sys


def limit():
    return sys.getrecursionlimit()


def with_limit(n, f):
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(n)
    try:
        return f()
    finally:
        sys.setrecursionlimit(old)
# --- asserts
assert limit() >= 1000
assert with_limit(3000, limit) == 3000

# === permutations-backtracking
# --- code
def permutations(items):
    if len(items) <= 1:
        return [list(items)]
    return [[x] + p for i, x in enumerate(items) for p in permutations(items[:i] + items[i + 1:])]


def n_queens(n):
    def place(row, cols):
        if row == n:
            yield tuple(cols)
            return
        for c in range(n):
            if all(c != d and abs(c - d) != row - r for r, d in enumerate(cols)):
                yield from place(row + 1, cols + [c])
    return list(place(0, []))
# --- asserts
assert permutations([1, 2, 3])[1] == [1, 3, 2]
assert len(permutations(list(range(5)))) == 120
assert n_queens(4) == [(1, 3, 0, 2), (2, 0, 3, 1)]
assert len(n_queens(6)) == 4
assert sorted(map(tuple, permutations("ab"))) == [("a", "b"), ("b", "a")]

# === hanoi-generator-and-callback
# --- code
def hanoi(n, a="A", b="B", c="C"):
    if n:
        yield from hanoi(n - 1, a, c, b)
        yield (n, a, c)
        yield from hanoi(n - 1, b, a, c)


def hanoi_callback(n, move, a="A", b="B", c="C"):
    if n:
        hanoi_callback(n - 1, move, a, c, b)
        move(a, c)
        hanoi_callback(n - 1, move, b, a, c)
# --- asserts
assert list(hanoi(2)) == [(1, "A", "B"), (2, "A", "C"), (1, "B", "C")]
assert len(list(hanoi(10))) == 1023
# --- test
pegs = {"A": [3, 2, 1], "B": [], "C": []}
def move(a, b):
    disk = pegs[a].pop()
    assert not pegs[b] or pegs[b][-1] > disk
    pegs[b].append(disk)
hanoi_callback(3, move)
assert pegs == {"A": [], "B": [], "C": [3, 2, 1]}

# === lru-cache-class entry_point=LRUCache
# --- code
from collections import OrderedDict


class LRUCache:
    def __init__(self, capacity: int):
        self.cap = capacity
        self.d = OrderedDict()

    def get(self, key: int) -> int:
        if key not in self.d:
            return -1
        self.d.move_to_end(key)
        return self.d[key]

    def put(self, key: int, value: int) -> None:
        self.d[key] = value
        self.d.move_to_end(key)
        if len(self.d) > self.cap:
            self.d.popitem(last=False)
# --- reference
class LRUCache:
    def __init__(self, capacity):
        self.capacity = capacity
        self.data = {}

    def get(self, key):
        if key not in self.data:
            return -1
        value = self.data.pop(key)
        self.data[key] = value
        return value

    def put(self, key, value):
        self.data.pop(key, None)
        self.data[key] = value
        if len(self.data) > self.capacity:
            del self.data[next(iter(self.data))]
# --- test
c = LRUCache(2)
c.put(1, 1)
c.put(2, 2)
assert c.get(1) == 1
c.put(3, 3)
assert c.get(2) == -1
c.put(4, 4)
assert [c.get(k) for k in (1, 3, 4)] == [-1, 3, 4]

# === game-of-life-sets
# --- code
from collections import Counter


def step(cells):
    neighbours = Counter((x + dx, y + dy) for x, y in cells for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy)
    return {c for c, n in neighbours.items() if n == 3 or (n == 2 and c in cells)}
# --- asserts
assert step({(1, 0), (1, 1), (1, 2)}) == {(0, 1), (1, 1), (2, 1)}
assert step(set()) == set()
assert step(step({(1, 0), (1, 1), (1, 2)})) == {(1, 0), (1, 1), (1, 2)}
assert step(frozenset({(0, 0), (0, 1), (1, 0), (1, 1)})) == {(0, 0), (0, 1), (1, 0), (1, 1)}

# === inventory-dict-of-objects
# --- code
class Item:
    def __init__(self, name, price, qty):
        self.name, self.price, self.qty = name, price, qty


def catalogue(rows):
    return {name: Item(name, price, qty) for name, price, qty in rows}


def most_valuable(items):
    return max(items.values(), key=lambda i: i.price * i.qty)
# --- test
items = catalogue([("pen", 2, 10), ("book", 15, 3)])
assert items["pen"].price == 2
assert most_valuable(items) is items["book"]
items["pen"].qty = 100
assert most_valuable(items).name == "pen"
assert sorted(items) == ["book", "pen"]
assert [i.name for i in items.values()] == ["pen", "book"]
del items["pen"]
assert most_valuable(items).name == "book"

# === wrong-recursion-base wrong
# --- code
def fact(n):
    return n * fact(n - 1)
# --- asserts
assert fact(3) == 6

# === wrong-deep wrong
# --- code
def nest(depth):
    return [] if depth == 0 else [nest(depth - 1)]
# --- test
x = nest(5000)
assert x

# === wrong-queens wrong
# --- code
def n_queens(n):
    from itertools import permutations
    return list(permutations(range(n)))
# --- asserts
assert len(n_queens(4)) == 2

# === wrong-transfer wrong
# --- code
class Account:
    def __init__(self, balance):
        self.balance = balance


def transfer(a, b, n):
    a.balance -= n
    b.balance += n
    return a.balance >= 0
# --- test
a, b = Account(1), Account(0)
assert not transfer(a, b, 5)
assert (a.balance, b.balance) == (1, 0)
