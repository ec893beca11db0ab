# === closure-counter
def make_counter(start=0):
    count = start

    def increment(step=1):
        nonlocal count
        count += step
        return count

    return increment
# --- wrong
count = 0
def make_counter(start=0):
    def increment(step=1):
        global count
        count += step
        return count
    return increment
# --- test
c = make_counter()
assert c() == 1 and c() == 2
assert c(10) == 12
d = make_counter(5)
assert d() == 6
assert c() == 13

# === currying
def curry(f, arity=None):
    arity = arity or f.__code__.co_argcount

    def curried(*args):
        if len(args) >= arity:
            return f(*args)
        return lambda *more: curried(*args, *more)

    return curried


@curry
def add(a, b, c):
    return a + b + c
# --- asserts
assert add(1)(2)(3) == 6
assert add(1, 2)(3) == 6
# --- test
times = curry(lambda a, b: a * b)
double = times(2)
assert [double(x) for x in (1, 2)] == [2, 4]

# === decorator-call-count
import functools


def count_calls(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return func(*args, **kwargs)

    wrapper.calls = 0
    return wrapper


@count_calls
def square(x):
    """Square a number."""
    return x * x
# --- test
assert square(3) == 9
assert square(4) == 16
assert square.calls == 2
assert square.__name__ == "square"
assert square.__doc__ == "Square a number."
assert square.__wrapped__(5) == 25
assert square.calls == 2

# === decorator-with-arguments
from functools import wraps


def repeat(times):
    def decorator(f):
        @wraps(f)
        def inner(*a, **k):
            return [f(*a, **k) for _ in range(times)]
        return inner
    return decorator
# --- test
@repeat(3)
def hi(name):
    return "hi " + name
assert hi("bo") == ["hi bo"] * 3
assert hi.__name__ == "hi"
# --- asserts
assert repeat(2)(len)("abc") == [3, 3]

# === lru-cache-info
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- test
fib.cache_clear()
assert fib(30) == 832040
info = fib.cache_info()
assert info.misses == 31
assert info.hits == 28
assert info.maxsize is None and info.currsize == 31

# === class-decorator
def add_repr(cls):
    def __repr__(self):
        fields = ", ".join(f"{k}={v!r}" for k, v in vars(self).items())
        return f"{cls.__name__}({fields})"
    cls.__repr__ = __repr__
    return cls
# --- test
@add_repr
class P:
    def __init__(self, x, y):
        self.x, self.y = x, y
assert repr(P(1, "a")) == "P(x=1, y='a')"

# === registry-decorator
class Router:
    def __init__(self):
        self.routes = {}

    def route(self, path):
        def register(f):
            self.routes[path] = f
            return f
        return register

    def handle(self, path, **params):
        if path not in self.routes:
            return 404, "not found"
        return 200, self.routes[path](**params)
# --- test
app = Router()

@app.route("/hello")
def hello(name="world"):
    return f"Hello, {name}"

assert app.handle("/hello") == (200, "Hello, world")
assert app.handle("/x") == (404, "not found")
assert app.routes["/hello"] is hello

# === function-arguments-of-all-kinds
def apply_all(functions, value):
    return [f(value) for f in functions]
# --- test
import operator, functools, math
class Inc:
    def __call__(self, x):
        return x + 1
    def method(self, x):
        return x - 1
    @staticmethod
    def static(x):
        return -x
    @classmethod
    def klass(cls, x):
        return cls.__name__ + str(x)
assert apply_all([Inc(), Inc().method, Inc.static, Inc.klass, str, float, abs, (2).__add__], 4) == [5, 3, -4, "Inc4", "4", 4.0, 4, 6]
assert apply_all([functools.partial(pow, 2), operator.neg, math.sqrt, [0, 1, 4, 9, 16].index, lambda x: [x]], 4) == [16, -4, 2.0, 2, [4]]

# === callback-records-into-list
def traverse(tree, visit):
    if isinstance(tree, dict):
        for key, child in tree.items():
            visit(key)
            traverse(child, visit)
    else:
        visit(tree)
# --- wrong
def traverse(tree, visit):
    for key, child in tree.items():
        if isinstance(child, dict):
            traverse(child, visit)
        visit(key)
# --- test
seen = []
traverse({"a": {"b": 1}, "c": 2}, seen.append)
assert seen == ["a", "b", 1, "c", 2]
# --- test
count = 0
def visit(node):
    global count
    count += 1
traverse({"a": 1, "b": {"c": 2}}, visit)
assert count == 5

# === event-emitter entry_point=EventEmitter
class EventEmitter:
    def __init__(self):
        self._handlers = {}

    def on(self, event, handler):
        self._handlers.setdefault(event, []).append(handler)
        return lambda: self._handlers[event].remove(handler)

    def once(self, event, handler):
        def wrapper(*args):
            remove()
            return handler(*args)
        remove = self.on(event, wrapper)
        return remove

    def emit(self, event, *args):
        return [h(*args) for h in list(self._handlers.get(event, []))]
# --- test
e = EventEmitter()
got = []
off = e.on("x", got.append)
e.once("x", lambda v: got.append(("once", v)))
e.emit("x", 1)
e.emit("x", 2)
assert got == [1, ("once", 1), 2]
off()
assert e.emit("x", 3) == []
assert got == [1, ("once", 1), 2]

# === key-and-comparator
from functools import cmp_to_key


def sort_by(items, *keys):
    for key in reversed(keys):
        items = sorted(items, key=key)
    return items


def sort_cmp(items, cmp):
    return sorted(items, key=cmp_to_key(cmp))
# --- asserts
assert sort_by([(1, "b"), (0, "b"), (5, "a")], lambda t: t[1], lambda t: t[0]) == [(5, "a"), (0, "b"), (1, "b")]
assert sort_cmp([3, 1, 2], lambda a, b: b - a) == [3, 2, 1]
import operator; assert sort_by([{"n": 2}, {"n": 1}], operator.itemgetter("n")) == [{"n": 1}, {"n": 2}]

# === objects-of-check-returned-identically
def longest(items, key=len):
    return max(items, key=key)


def first_match(items, predicate, default=None):
    return next((i for i in items if predicate(i)), default)
# --- test
class Item:
    def __init__(self, n):
        self.n = n
items = [Item(1), Item(5), Item(3)]
assert longest(items, key=lambda i: i.n) is items[1]
assert first_match(items, lambda i: i.n > 2) is items[1]
sentinel = object()
assert first_match([], bool, sentinel) is sentinel

# === partial-and-methods
from functools import partial, partialmethod


def power(base, exponent):
    return base ** exponent


square = partial(power, exponent=2)


class Light:
    def __init__(self):
        self.state = None

    def set(self, state):
        self.state = state
        return self

    on = partialmethod(set, True)
    off = partialmethod(set, False)
# --- asserts
assert square(5) == 25
assert square.keywords == {"exponent": 2}
assert Light().on().state is True
assert Light().off().state is False

# === singledispatch
from functools import singledispatch


@singledispatch
def describe(value):
    return f"object {value!r}"


@describe.register
def _(value: int):
    return f"int {value}"


@describe.register(list)
def _(value):
    return f"list of {len(value)}"
# --- asserts
assert describe(3) == "int 3"
assert describe([1, 2]) == "list of 2"
assert describe(True) == "int True"
# --- test
@describe.register(dict)
def for_dict(value):
    return "dict with " + ", ".join(value)
assert describe({"a": 1, "b": 2}) == "dict with a, b"

# === default-argument-state
def remember(item, seen=[]):
    seen.append(item)
    return seen
# --- test
assert remember(1) == [1]
assert remember(2) == [1, 2]
assert remember(3) is remember.__defaults__[0]

# === star-args-kwargs-echo
def echo(*args, **kwargs):
    return args, kwargs


def options(a, /, b, *, c=3):
    return a, b, c
# --- asserts
assert echo(1, 2, x=3) == ((1, 2), {"x": 3})
assert echo(*[1, 2], **{"k": "v"}) == ((1, 2), {"k": "v"})
assert options(1, 2) == (1, 2, 3)
assert options(1, b=5, c=0) == (1, 5, 0)
# --- test
for bad in (lambda: options(a=1, b=2), lambda: options(1, 2, 3)):
    try:
        bad()
    except TypeError:
        continue
    raise AssertionError

# === function-attributes-and-metadata
def area(width: float, height: float = 1.0, *, unit: str = "m") -> str:
    """Area of a rectangle.

    >>> area(2, 3)
    '6m2'
    """
    return f"{width * height:g}{unit}2"


area.version = (1, 2)
# --- test
import inspect, typing
assert area(2, 3) == "6m2"
assert area.__name__ == "area" and area.__qualname__ == "area"
assert area.__doc__.startswith("Area of a rectangle.")
assert area.__annotations__ == {"width": float, "height": float, "unit": str, "return": str}
assert area.__defaults__ == (1.0,)
assert area.__kwdefaults__ == {"unit": "m"}
assert area.version == (1, 2)
assert list(inspect.signature(area).parameters) == ["width", "height", "unit"]
assert str(inspect.signature(area)) == "(width: float, height: float = 1.0, *, unit: str = 'm') -> str"
assert typing.get_type_hints(area)["return"] is str

# === lambda-entry-point entry_point=double
double = lambda x: x * 2
# --- asserts
assert double(2) == 4
assert double("a") == "aa"
assert double.__name__ == "<lambda>"

# === alias-of-import entry_point=root
from math import sqrt as root
# --- asserts
assert root(16) == 4
assert abs(root(2) - 1.41421356) < 1e-6

# === builtin-named-functions
def sum(items):
    total = 0
    for i in items:
        total = total + i
    return total


def max(a, b):
    return a if a > b else b
# --- asserts
assert sum([1, 2, 3]) == 6
assert max(3, 9) == 9

# === y-combinator
Y = lambda f: (lambda x: x(x))(lambda x: f(lambda *a: x(x)(*a)))
# --- asserts
assert Y(lambda rec: lambda n: 1 if n == 0 else n * rec(n - 1))(5) == 120

# === church-numerals
zero = lambda f: lambda x: x
succ = lambda n: lambda f: lambda x: f(n(f)(x))
plus = lambda a: lambda b: lambda f: lambda x: a(f)(b(f)(x))


def to_int(n):
    return n(lambda k: k + 1)(0)
# --- asserts
assert to_int(zero) == 0
assert to_int(succ(succ(zero))) == 2
assert to_int(plus(succ(zero))(succ(succ(zero)))) == 3
assert succ(zero)(lambda s: s + "!")("hi") == "hi!"

# === wrong-closure-late-binding wrong
def make_adders(n):
    return [lambda x: x + i for i in range(n)]
# --- asserts
assert [f(10) for f in make_adders(3)] == [10, 11, 12]

# === wrong-no-wraps wrong
def count_calls(func):
    def wrapper(*args):
        wrapper.calls += 1
        return func(*args)
    wrapper.calls = 0
    return wrapper
# --- test
@count_calls
def f():
    return 1
f()
assert f.calls == 1
assert f.__name__ == "f"
