# === in-place-sort-returns-same
def bubble_sort(items):
    n = len(items)
    for i in range(n):
        for j in range(n - 1 - i):
            if items[j] > items[j + 1]:
                items[j], items[j + 1] = items[j + 1], items[j]
    return items
# --- wrong
def bubble_sort(items):
    return sorted(items)
# --- test
xs = [3, 1, 2]
assert bubble_sort(xs) is xs
assert xs == [1, 2, 3]

# === returns-none-mutates
def reverse_in_place(items):
    items.reverse()


def remove_all(items, value):
    items[:] = [i for i in items if i != value]
# --- wrong
def reverse_in_place(items):
    items = items[::-1]
# --- test
xs = [1, 2, 3]
assert reverse_in_place(xs) is None
assert xs == [3, 2, 1]
alias = xs
remove_all(xs, 2)
assert alias == [3, 1]

# === nested-mutation
def deep_update(target, changes):
    for k, v in changes.items():
        if isinstance(v, dict) and isinstance(target.get(k), dict):
            deep_update(target[k], v)
        else:
            target[k] = v
    return target
# --- test
inner = {"x": 1}
d = {"a": inner}
assert deep_update(d, {"a": {"y": 2}, "b": 3}) is d
assert d == {"a": {"x": 1, "y": 2}, "b": 3}
assert inner == {"x": 1, "y": 2}
assert d["a"] is inner

# === aliasing-inside-results
def shared_rows(n):
    row = [0] * n
    return [row] * n


def separate_rows(n):
    return [[0] * n for _ in range(n)]
# --- test
a = shared_rows(2)
assert a[0] is a[1]
a[0][0] = 5
assert a == [[5, 0], [5, 0]]
b = separate_rows(2)
assert b[0] is not b[1]
b[0][0] = 5
assert b == [[5, 0], [0, 0]]

# === argument-found-in-result
def wrap(x):
    return [x, {"value": x}]
# --- test
x = [1]
w = wrap(x)
assert w[0] is x
assert w[1]["value"] is x
x.append(2)
assert w[0] == [1, 2]

# === argument-kept-and-returned-later entry_point=Box
class Box:
    def __init__(self, content):
        self.content = content

    def get(self):
        return self.content

    def add(self, item):
        self.content.append(item)
        return self
# --- test
items = [1]
b = Box(items)
assert b.get() is items
items.append(2)
assert b.get() == [1, 2]
b.add(3)
assert items == [1, 2, 3]

# === internal-list-exposed entry_point=Log
class Log:
    def __init__(self):
        self.lines = []

    def write(self, line):
        self.lines.append(line)

    def view(self):
        return self.lines
# --- test
log = Log()
log.write("a")
view = log.view()
log.write("b")
assert view == ["a", "b"]
view.append("c")
assert log.lines == ["a", "b", "c"]
log.lines.clear()
assert log.view() == [] and view == []

# === attribute-assignment-of-containers
class Team:
    def __init__(self):
        self.members = []
        self.scores = {}

    def total(self):
        return sum(self.scores.get(m, 0) for m in self.members)
# --- test
t = Team()
t.members.append("a")
t.members += ["b"]
t.scores["a"] = 3
t.scores["b"] = 4
assert t.total() == 7
t.scores = {"b": 10}
assert t.total() == 10
t.members[1] = "zzz"
assert t.total() == 0

# === same-object-each-time
_pool = {}


def intern(x):
    return _pool.setdefault(x, [x])


SENTINEL = object()


def find(items, x, default=SENTINEL):
    return next((i for i in items if i == x), default)
# --- test
assert intern("a") is intern("a")
assert intern("a") is not intern("b")
assert find([1], 2) is SENTINEL
intern("a").append("more")
assert intern("a") == ["a", "more"]

# === none-true-false-identity
def tri(x):
    return None if x == 0 else x > 0
# --- asserts
assert tri(0) is None
assert tri(1) is True
assert tri(-1) is False

# === global-state
counter = 0
history = []
config = {"step": 1}


def bump():
    global counter
    counter += config["step"]
    history.append(counter)
    return counter


def reset():
    global counter
    counter = 0
    history.clear()
# --- test
reset()
assert bump() == 1 and bump() == 2
assert counter == 2
assert history == [1, 2]
config["step"] = 10
assert bump() == 12

# === global-rebound-by-check
LIMIT = 3
def transform(x):
    return x


def take(items):
    return [transform(i) for i in items[:LIMIT]]
# --- test
assert take("abcd") == ["a", "b", "c"]
# --- test
LIMIT = 1
assert take("abcd") == ["a"]
LIMIT = 3
assert take("abcd") == ["a", "b", "c"]

# === graph-with-cycles
class Node:
    def __init__(self, name):
        self.name = name
        self.edges = []

    def connect(self, other):
        self.edges.append(other)
        other.edges.append(self)
        return self


def reachable(node):
    seen, stack = set(), [node]
    while stack:
        n = stack.pop()
        if n not in seen:
            seen.add(n)
            stack.extend(n.edges)
    return seen
# --- test
a, b, c, d = (Node(x) for x in "abcd")
a.connect(b).connect(c)
assert reachable(a) == {a, b, c}
assert a.edges[0] is b and b.edges[0] is a

# === self-referential-list
def ouroboros():
    a = [1]
    a.append(a)
    return a
# --- test
a = ouroboros()
assert a[1] is a
assert repr(a) == "[1, [...]]"

# === objects-as-dict-keys-and-sets
class Key:
    def __init__(self, name):
        self.name = name


def label(keys):
    return {k: k.name for k in keys}


def unique(items):
    seen = set()
    return [i for i in items if not (i in seen or seen.add(i))]
# --- test
a, b = Key("a"), Key("b")
table = label([a, b])
assert table[a] == "a" and table[b] == "b"
assert set(table) == {a, b}
assert Key("a") not in table
assert unique([a, b, a]) == [a, b]

# === swap-and-generators-of-check
def consume(iterator, n):
    return [next(iterator) for _ in range(n)]


def fill(target, source):
    for x in source:
        target.add(x)
    return target
# --- test
g = (x * x for x in range(10))
assert consume(g, 3) == [0, 1, 4]
assert next(g) == 9
s = {1}
assert fill(s, (x for x in (2, 3))) is s
assert s == {1, 2, 3}

# === copies
import copy


class Doc:
    def __init__(self, title, tags):
        self.title, self.tags = title, tags

    def __eq__(self, other):
        return (self.title, self.tags) == (other.title, other.tags)


def clone(doc):
    return copy.deepcopy(doc)


def shallow(doc):
    return copy.copy(doc)
# --- test
d = Doc("t", ["a"])
c, s = clone(d), shallow(d)
assert c == d and c is not d
assert s.tags is d.tags and c.tags is not d.tags
c.tags.append("b")
assert d.tags == ["a"]
s.tags.append("z")
assert d.tags == ["a", "z"]

# === custom-copy-hooks
import copy


class Tracked:
    def __init__(self, v):
        self.v = v
        self.how = "new"

    def __copy__(self):
        t = Tracked(self.v)
        t.how = "copy"
        return t

    def __deepcopy__(self, memo):
        t = Tracked(copy.deepcopy(self.v, memo))
        t.how = "deep"
        return t
# --- test
import copy
t = Tracked([1])
assert copy.copy(t).how == "copy"
assert copy.deepcopy(t).how == "deep"
assert copy.deepcopy([t, t])[0].how == "deep"

# === pickle-round-trip-in-solution
import pickle


def freeze(obj):
    return pickle.dumps(obj)


def thaw(blob):
    return pickle.loads(blob)
# --- asserts
assert thaw(freeze([1, {"a": (2,)}])) == [1, {"a": (2,)}]

# === pickle-in-check
class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __reduce__(self):
        return Point, (self.x, self.y)
# --- test
import pickle
p = pickle.loads(pickle.dumps(Point(1, 2)))
assert p == Point(1, 2)
assert type(p) is Point

# === wrong-mutates-input wrong
def without(items, bad):
    items.remove(bad)
    return items
# --- test
xs = [1, 2, 3]
assert without(xs, 2) == [1, 3]
assert xs == [1, 2, 3]

# === wrong-shared-rows wrong
def rows(n):
    return [[0] * n] * n
# --- test
b = rows(2)
b[0][0] = 5
assert b == [[5, 0], [0, 0]]

# === wrong-shallow-copy wrong
import copy


def clone(x):
    return copy.copy(x)
# --- test
a = [[1]]
b = clone(a)
b[0].append(2)
assert a == [[1]]

# === wrong-internal-list-copied wrong
class Box:
    def __init__(self, content):
        self.content = list(content)
# --- test
items = [1]
b = Box(items)
items.append(2)
assert b.content == [1, 2]

# === ordered-dict-moved-by-the-completion
def touch(cache, key):
    cache.move_to_end(key)
# --- test
from collections import OrderedDict

cache = OrderedDict(a=1, b=2, c=3)
touch(cache, "a")
assert list(cache) == ["b", "c", "a"]

# === ordered-dict-moved-by-the-check
def oldest(cache):
    return next(iter(cache))
# --- test
from collections import OrderedDict

cache = OrderedDict(a=1, b=2, c=3)
assert oldest(cache) == "a"
cache.move_to_end("a")
assert oldest(cache) == "b"
cache.move_to_end("c", last=False)
assert oldest(cache) == "c"
