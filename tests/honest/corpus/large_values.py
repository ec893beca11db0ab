# === list-of-3-million-ints
def squares_mod(n):
    return [i * i % 1000 for i in range(n)]
# --- test
r = squares_mod(3_000_000)
assert len(r) == 3_000_000
assert r[999] == 1 and r[-1] == 2999999 ** 2 % 1000
assert sum(r[:1000]) == sum(i * i % 1000 for i in range(1000))

# === list-of-3-million-argument
def total(xs):
    return sum(xs)
# --- test
xs = list(range(3_000_000))
assert total(xs) == 4499998500000

# === matrix-3000-as-result
def identity(n):
    return [[1 if i == j else 0 for j in range(n)] for i in range(n)]
# --- test
m = identity(3000)
assert len(m) == 3000 and len(m[0]) == 3000
assert m[5][5] == 1 and m[5][6] == 0
assert sum(map(sum, m)) == 3000

# === matrix-3000-as-argument
def trace(m):
    return sum(m[i][i] for i in range(len(m)))
# --- test
m = [[i + j for j in range(3000)] for i in range(3000)]
assert trace(m) == sum(2 * i for i in range(3000))

# === string-of-20-megabytes
def repeat(s, n):
    return s * n


def count(s, c):
    return s.count(c)
# --- test
s = repeat("abcd", 5_000_000)
assert len(s) == 20_000_000
assert s[-2:] == "cd"
assert count(s, "a") == 5_000_000

# === bytes-of-20-megabytes
def pattern(n):
    return bytes(range(256)) * (n // 256)


def checksum(data):
    return sum(data[::65537]) & 0xFFFF
# --- test
b = pattern(20_000_000)
assert len(b) == 20_000_000 // 256 * 256
assert checksum(b) == sum(b[::65537]) & 0xFFFF

# === million-entry-dict
def index(n):
    return {str(i): i for i in range(n)}
# --- test
d = index(1_000_000)
assert len(d) == 1_000_000
assert d["999999"] == 999999 and "x" not in d

# === set-of-million-tuples
def grid(n):
    return {(x, y) for x in range(n) for y in range(n)}
# --- test
g = grid(700)
assert len(g) == 490000
assert (699, 699) in g and (700, 0) not in g

# === sort-a-million-in-place
def sort(xs):
    xs.sort()
    return xs
# --- test
import random
xs = random.Random(1).sample(range(10 ** 9), 1_000_000)
expected = sorted(xs)
assert sort(xs) is xs
assert xs == expected

# === many-calls
def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps
# --- test
best = max(range(1, 3000), key=collatz)
assert best == 2919
assert [collatz(i) for i in range(1, 6)] == [0, 1, 7, 2, 5]

# === many-objects
class Particle:
    def __init__(self, x, v):
        self.x, self.v = x, v

    def step(self, dt=1):
        self.x += self.v * dt


def swarm(n):
    return [Particle(i, i % 3 - 1) for i in range(n)]
# --- test
ps = swarm(2000)
for p in ps:
    p.step()
assert len(ps) == 2000
assert [p.x for p in ps[:4]] == [-1, 1, 3, 2]
assert sum(p.v for p in ps) == sum(i % 3 - 1 for i in range(2000))

# === many-callbacks
def fold(f, xs, start):
    acc = start
    for x in xs:
        acc = f(acc, x)
    return acc
# --- test
assert fold(lambda a, b: a + b, range(5000), 0) == 12497500
assert fold(max, [3, 9, 2] * 1000, 0) == 9

# === long-generator
def triangular():
    total = n = 0
    while True:
        n += 1
        total += n
        yield total
# --- test
last = None
for i, t in enumerate(triangular()):
    if i == 5000:
        last = t
        break
assert last == 5001 * 5002 // 2

# === huge-integer
def power(b, e):
    return b ** e


def digits(n):
    return n.bit_length()
# --- test
n = power(3, 200_000)
assert digits(n) == 316993
assert n % 1_000_003 == pow(3, 200_000, 1_000_003)

# === wrong-large-last-element wrong
def upto(n):
    r = list(range(n))
    r[-1] = 0
    return r
# --- test
assert upto(1_000_000) == list(range(1_000_000))

# === wrong-large-length wrong
def repeat(s, n):
    return s * (n - 1)
# --- test
assert len(repeat("abcd", 2_000_000)) == 8_000_000
