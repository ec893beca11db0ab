# === metaclass-registry
class RegistryMeta(type):
    registry = {}

    def __new__(mcls, name, bases, namespace, **kwargs):
        cls = super().__new__(mcls, name, bases, namespace)
        if bases:
            mcls.registry[name.lower()] = cls
        return cls


class Handler(metaclass=RegistryMeta):
    def handle(self, x):
        raise NotImplementedError


class Upper(Handler):
    def handle(self, x):
        return x.upper()


def dispatch(name, x):
    return RegistryMeta.registry[name]().handle(x)
# --- asserts
assert dispatch("upper", "ab") == "AB"
assert type(Upper) is RegistryMeta
assert RegistryMeta.registry["upper"] is Upper
# --- test
class Twice(Handler):
    def handle(self, x):
        return x * 2
assert dispatch("twice", "ab") == "abab"

# === metaclass-singleton
class Singleton(type):
    _instances = {}

    def __call__(cls, *args, **kwargs):
        if cls not in cls._instances:
            cls._instances[cls] = super().__call__(*args, **kwargs)
        return cls._instances[cls]


class Config(metaclass=Singleton):
    def __init__(self, value=0):
        self.value = value
# --- wrong
class Config:
    _instance = None

    def __new__(cls, value=0):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __init__(self, value=0):
        self.value = value
# --- test
a = Config(5)
b = Config(9)
assert a is b
assert b.value == 5

# === metaclass-iter-and-contains
class Meta(type):
    def __iter__(cls):
        return iter(cls._names)

    def __len__(cls):
        return len(cls._names)

    def __contains__(cls, name):
        return name in cls._names

    def __getitem__(cls, name):
        return getattr(cls, name.upper())

    def __new__(m, name, bases, ns):
        ns["_names"] = [k for k in ns if k.isupper()]
        return super().__new__(m, name, bases, ns)

    def __repr__(cls):
        return f"<{cls.__name__} of {len(cls._names)}>"


class Settings(metaclass=Meta):
    HOST = "localhost"
    PORT = 80
# --- asserts
assert list(Settings) == ["HOST", "PORT"]
assert "HOST" in Settings and "x" not in Settings
assert Settings["port"] == 80
assert repr(Settings) == "<Settings of 2>"

# === metaclass-prepare
class Ordered(type):
    @classmethod
    def __prepare__(mcls, name, bases):
        return {"_order": []}

    def __new__(mcls, name, bases, ns):
        ns["_order"] = [k for k, v in ns.items() if callable(v)]
        return type.__new__(mcls, name, bases, dict(ns))


class Steps(metaclass=Ordered):
    def first(self): return 1
    def second(self): return 2
    def third(self): return 3

    def run(self):
        return [getattr(self, n)() for n in self._order if n != "run"]
# --- asserts
assert Steps._order == ["first", "second", "third", "run"]
assert Steps().run() == [1, 2, 3]

# === type-call-creates-class
def make_class(name, **attributes):
    return type(name, (), attributes)


Animal = make_class("Animal", sound="...", speak=lambda self: self.sound)
Dog = type("Dog", (Animal,), {"sound": "woof"})
# --- asserts
assert make_class("A", x=1)().x == 1
assert Dog().speak() == "woof"
assert issubclass(Dog, Animal)
assert isinstance(make_class("B"), type)

# === descriptor-validation
class Positive:
    def __set_name__(self, owner, name):
        self.name = name
        self.slot = "_" + name

    def __get__(self, obj, owner=None):
        if obj is None:
            return self
        return getattr(obj, self.slot, None)

    def __set__(self, obj, value):
        if value <= 0:
            raise ValueError(f"{self.name} must be positive")
        setattr(obj, self.slot, value)

    def __delete__(self, obj):
        delattr(obj, self.slot)


class Product:
    price = Positive()
    weight = Positive()

    def __init__(self, price, weight):
        self.price = price
        self.weight = weight
# --- test
p = Product(2, 3)
assert p.price == 2 and p.weight == 3
try:
    p.weight = 0
except ValueError as e:
    assert str(e) == "weight must be positive"
else:
    assert False
del p.price
assert p.price is None
assert Product.price.name == "price"
assert vars(p) == {"_weight": 3}

# === descriptor-lazy-non-data
class lazy:
    def __init__(self, func):
        self.func = func
        self.__doc__ = func.__doc__

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, obj, owner):
        if obj is None:
            return self
        value = self.func(obj)
        obj.__dict__[self.name] = value
        return value


class Page:
    loads = 0

    def __init__(self, url):
        self.url = url

    @lazy
    def body(self):
        """The body."""
        Page.loads += 1
        return f"<{self.url}>"
# --- test
p = Page("x")
assert "body" not in vars(p)
assert p.body == "<x>" and p.body == "<x>"
assert Page.loads == 1
assert Page.body.__doc__ == "The body."

# === descriptor-used-in-check-class
class Typed:
    def __init__(self, kind):
        self.kind = kind

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, obj, owner):
        return self if obj is None else obj.__dict__[self.name]

    def __set__(self, obj, value):
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name} must be {self.kind.__name__}")
        obj.__dict__[self.name] = value
# --- test
class Person:
    name = Typed(str)
    age = Typed(int)
    def __init__(self, name, age):
        self.name, self.age = name, age
p = Person("Al", 3)
assert p.name == "Al" and p.age == 3
try:
    p.age = "old"
except TypeError as e:
    assert str(e) == "age must be int"
else:
    raise AssertionError

# === monkeypatched-method-from-check
class Robot:
    def greet(self):
        return f"I am {self.name()}"

    def name(self):
        return "robot"
# --- test
r = Robot()
r.name = lambda: "patched"
assert r.greet() == "I am patched"
# --- test
original = Robot.name
Robot.name = lambda self: "class patched"
try:
    assert Robot().greet() == "I am class patched"
finally:
    Robot.name = original
assert Robot().greet() == "I am robot"

# === getattr-proxy
class Recorder:
    def __init__(self, target):
        self._target = target
        self.calls = []

    def __getattr__(self, name):
        attribute = getattr(self._target, name)
        if not callable(attribute):
            return attribute

        def wrapper(*args, **kwargs):
            self.calls.append((name, args, kwargs))
            return attribute(*args, **kwargs)

        return wrapper
# --- test
class Service:
    version = 3
    def add(self, a, b=0):
        return a + b
s = Recorder(Service())
assert s.add(1, b=2) == 3
assert s.version == 3
assert s.calls == [("add", (1,), {"b": 2})]
# --- test
r = Recorder([3, 1, 2])
r.sort()
r.append(9)
assert r._target == [1, 2, 3, 9]
assert [c[0] for c in r.calls] == ["sort", "append"]

# === weakrefs
import weakref


class Node:
    def __init__(self, parent=None):
        self._parent = weakref.ref(parent) if parent is not None else None

    @property
    def parent(self):
        return self._parent() if self._parent else None


_nodes = weakref.WeakValueDictionary()


def node(key):
    return _nodes.setdefault(key, Node())


def count():
    return len(_nodes)
# --- test
root = Node()
child = Node(root)
assert child.parent is root
assert root.parent is None
# --- test
a = node("a")
assert node("a") is a
assert count() == 1

# === contextvars
import contextvars

current = contextvars.ContextVar("current", default="nobody")


def whoami():
    return current.get()


def run_as(name, f, *args):
    context = contextvars.copy_context()

    def inner():
        current.set(name)
        return f(*args)

    return context.run(inner)
# --- test
assert whoami() == "nobody"
assert run_as("ann", whoami) == "ann"
token = current.set("bob")
assert whoami() == "bob"
current.reset(token)

# === inspect-functions-of-the-check
import inspect


def required(func):
    return [p.name for p in inspect.signature(func).parameters.values() if p.default is p.empty]


def inject(func, **available):
    return func(**{name: available[name] for name in inspect.signature(func).parameters if name in available})
# --- test
def f(a, b, c=1, *, d):
    return a, b, c, d
assert required(f) == ["a", "b", "d"]
assert inject(f, a=1, b=2, d=4, zzz=9) == (1, 2, 1, 4)

# === dynamic-code-in-solution
def compile_expression(text, *names):
    source = f"def generated({', '.join(names)}):\n    return {text}\n"
    namespace = {}
    exec(source, namespace)
    return namespace["generated"]


def calculate(text):
    return eval(text, {"__builtins__": {}}, {"pi": 3})
# --- asserts
assert compile_expression("a + b * 2", "a", "b")(1, 2) == 5
assert compile_expression("42")() == 42
assert compile_expression("x", "x").__name__ == "generated"
assert calculate("pi * 2 ** 2") == 12

# === module-attributes-and-all
"""Shapes of all kinds."""

__all__ = ["area", "Shape"]
__version__ = "1.2.0"

_cache = {}


class Shape:
    pass


def area(w, h):
    return _cache.setdefault((w, h), w * h)
# --- asserts
assert __version__ == "1.2.0"
assert __all__ == ["area", "Shape"]
assert area(2, 3) == 6
assert __doc__ == "Shapes of all kinds."

# === ast-and-tokenize
import ast


def names_used(source):
    return sorted({n.id for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Name)})


def parse(source):
    return ast.parse(source, mode="eval")
# --- asserts
assert names_used("a + b * a") == ["a", "b"]
import ast; assert isinstance(parse("1 + 2").body, ast.BinOp)
import ast; assert ast.unparse(parse("1+2")) == "1 + 2"

# === import-tricks-in-solution
import importlib
import sys
from types import ModuleType


def make_module(name, **attributes):
    module = ModuleType(name, "made up")
    module.__dict__.update(attributes)
    sys.modules[name] = module
    return module


def load(name):
    return importlib.import_module(name)
# --- asserts
assert make_module("made_up_mod", x=5).x == 5
assert load("made_up_mod").__doc__ == "made up"

# === wrong-descriptor-shared wrong
class Positive:
    def __get__(self, obj, owner=None):
        return self.value

    def __set__(self, obj, value):
        self.value = value


class Product:
    price = Positive()
# --- test
a, b = Product(), Product()
a.price = 1
b.price = 2
assert a.price == 1

# === wrong-lazy-recomputes wrong
class Page:
    loads = 0

    @property
    def body(self):
        Page.loads += 1
        return "x"
# --- test
p = Page()
p.body, p.body
assert Page.loads == 1
