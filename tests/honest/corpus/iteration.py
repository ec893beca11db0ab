# === generator-function
def chunks(items, n):
    for i in range(0, len(items), n):
        yield items[i:i + n]
# --- wrong
def chunks(items, n):
    for i in range(0, len(items) - n + 1, n):
        yield items[i:i + n]
# --- asserts
assert list(chunks([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
assert next(chunks("abc", 2)) == "ab"
# --- test
g = chunks([1, 2, 3], 1)
assert iter(g) is g
assert next(g) == [1]
assert list(g) == [[2], [3]]
# --- test
import types, inspect
assert isinstance(chunks([], 1), types.GeneratorType)
assert inspect.isgeneratorfunction(chunks)

# === infinite-generator-islice
def primes():
    found = []
    n = 2
    while True:
        if all(n % p for p in found):
            found.append(n)
            yield n
        n += 1
# --- test
from itertools import islice, takewhile
assert list(islice(primes(), 5)) == [2, 3, 5, 7, 11]
assert list(takewhile(lambda p: p < 20, primes()))[-1] == 19

# === send-averager
def averager():
    total, count = 0.0, 0
    average = None
    while True:
        value = yield average
        if value is None:
            break
        total += value
        count += 1
        average = total / count
    return count, average
# --- wrong
def averager():
    total = count = 0
    average = None
    while True:
        total += yield average
        count += 1
        average = total // count
# --- test
a = averager()
assert next(a) is None
assert a.send(10) == 10.0
assert a.send(15) == 12.5
try:
    a.send(None)
except StopIteration as stop:
    assert stop.value == (2, 12.5)
else:
    raise AssertionError

# === throw-and-close
def resilient(log):
    n = 0
    try:
        while True:
            try:
                n += 1
                yield n
            except ValueError as e:
                log.append(str(e))
    finally:
        log.append("closed")
# --- test
log = []
g = resilient(log)
assert next(g) == 1
assert g.throw(ValueError("oops")) == 2
assert next(g) == 3
g.close()
assert log == ["oops", "closed"]
# --- test
log = []
g = resilient(log)
next(g)
try:
    g.throw(KeyError("k"))
except KeyError:
    pass
assert log == ["closed"]

# === yield-from-flatten
def flatten(items):
    for item in items:
        if isinstance(item, (list, tuple)):
            yield from flatten(item)
        else:
            yield item
# --- asserts
assert list(flatten([1, [2, (3, [4])], 5])) == [1, 2, 3, 4, 5]

# === lazy-evaluation-observed
def lazy_map(f, items):
    for item in items:
        yield f(item)
# --- wrong
def lazy_map(f, items):
    return iter([f(i) for i in items])
# --- test
seen = []
def f(x):
    seen.append(x)
    return x * 10
g = lazy_map(f, [1, 2, 3])
assert seen == []
assert next(g) == 10
assert seen == [1]
assert list(g) == [20, 30]
assert seen == [1, 2, 3]

# === generator-argument-infinite
def take(n, iterable):
    result = []
    for item in iterable:
        if len(result) == n:
            break
        result.append(item)
    return result
# --- test
import itertools
assert take(3, itertools.count(5)) == [5, 6, 7]
# --- test
def naturals():
    n = 0
    while True:
        yield n
        n += 1
assert take(4, naturals()) == [0, 1, 2, 3]
g = naturals()
take(2, g)
assert next(g) == 3

# === custom-iterable-argument
def mean(numbers):
    total = count = 0
    for n in numbers:
        total += n
        count += 1
    return total / count if count else None
# --- test
class Data:
    def __init__(self, *values):
        self.values = values
    def __iter__(self):
        return iter(self.values)
assert mean(Data(1, 2, 3)) == 2
# --- test
class OldStyle:
    def __getitem__(self, i):
        if i > 3:
            raise IndexError
        return i
assert mean(OldStyle()) == 1.5
assert mean(x for x in (2, 4)) == 3
assert mean({1: "a", 3: "b"}) == 2

# === returns-map-filter-zip
def evens_squared(numbers):
    return map(lambda n: n * n, filter(lambda n: n % 2 == 0, numbers))


def pairs(a, b):
    return zip(a, b)


def numbered(items):
    return enumerate(items, start=1)
# --- asserts
assert list(evens_squared([1, 2, 3, 4])) == [4, 16]
assert list(pairs("ab", [1, 2])) == [("a", 1), ("b", 2)]
assert list(numbered("xy")) == [(1, "x"), (2, "y")]

# === returns-itertools-objects
import itertools


def windows(seq, n):
    return zip(*(itertools.islice(seq, i, None) for i in range(n)))


def runs(seq):
    return ((key, len(list(group))) for key, group in itertools.groupby(seq))


def all_pairs(seq):
    return itertools.combinations(seq, 2)


def running(seq):
    return itertools.accumulate(seq)
# --- asserts
assert list(windows([1, 2, 3, 4], 2)) == [(1, 2), (2, 3), (3, 4)]
assert list(runs("aabccc")) == [("a", 2), ("b", 1), ("c", 3)]
assert list(all_pairs("abc")) == [("a", "b"), ("a", "c"), ("b", "c")]
assert list(running([1, 2, 3])) == [1, 3, 6]

# === returns-range-and-reversed
def evens(n):
    return range(0, n, 2)


def backwards(seq):
    return reversed(seq)
# --- asserts
assert evens(7) == range(0, 7, 2)
assert evens(10)[2] == 4
assert evens(10)[1:3] == range(2, 6, 2)
assert list(backwards("abc")) == ["c", "b", "a"]

# === iter-with-sentinel
def read_until(reader, stop):
    return list(iter(reader, stop))
# --- test
data = iter([1, 2, 3, 0, 9])
assert read_until(lambda: next(data), 0) == [1, 2, 3]
assert next(data) == 9
# --- test
import io
f = io.StringIO("abcdef")
assert read_until(lambda: f.read(2), "") == ["ab", "cd", "ef"]

# === leetcode-class-solution entry_point=Solution
# --- setup
from typing import List, Optional

class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val = val
        self.left = left
        self.right = right
# --- code
class Solution:
    def maxDepth(self, root: Optional[TreeNode]) -> int:
        if not root:
            return 0
        return 1 + max(self.maxDepth(root.left), self.maxDepth(root.right))

    def invert(self, root):
        if root:
            root.left, root.right = self.invert(root.right), self.invert(root.left)
        return root
# --- asserts
assert Solution().maxDepth(TreeNode(1, TreeNode(2), TreeNode(3, TreeNode(4)))) == 3
# --- test
root = TreeNode(1, TreeNode(2), TreeNode(3))
left = root.left
assert Solution().invert(root) is root
assert root.right is left

# === generator-expression-result
def words(text):
    return (w.strip(".,").lower() for w in text.split())
# --- asserts
assert list(words("Hi, There.")) == ["hi", "there"]
assert "there" in words("Hi There")
w, = words("One"); assert w == "one"

# === iterator-exhaustion-shared
def split_at(iterator, n):
    iterator = iter(iterator)
    head = [x for _, x in zip(range(n), iterator)]
    return head, iterator
# --- test
it = iter([1, 2, 3, 4])
head, rest = split_at(it, 2)
assert head == [1, 2]
assert rest is it
assert list(rest) == [3, 4]

# === wrong-exhausted wrong
def evens(ns):
    return filter(lambda n: n % 2 == 0, ns)
# --- test
e = evens([2, 4])
assert list(e) == [2, 4]
assert list(e) == [2, 4]
