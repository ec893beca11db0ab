# === coroutine-function
import asyncio


async def fetch(n):
    await asyncio.sleep(0)
    return n * 2
# --- wrong
def fetch(n):
    return n * 2
# --- test
import asyncio
assert asyncio.run(fetch(21)) == 42
# --- test
import inspect
assert inspect.iscoroutinefunction(fetch)
c = fetch(1)
assert inspect.iscoroutine(c)
c.close()

# === gather-in-check
async def double(x):
    return 2 * x
# --- test
import asyncio
async def go():
    return await asyncio.gather(double(1), double(2), double(3))
assert asyncio.run(go()) == [2, 4, 6]
# --- test
import asyncio
loop = asyncio.new_event_loop()
try:
    assert loop.run_until_complete(double(5)) == 10
finally:
    loop.close()

# === timeout-wait-for
import asyncio


async def with_timeout(coro, seconds, default=None):
    try:
        return await asyncio.wait_for(coro, seconds)
    except asyncio.TimeoutError:
        return default


async def slow():
    await asyncio.sleep(30)
    return "slow"


async def fast():
    return "fast"
# --- test
import asyncio
assert asyncio.run(with_timeout(fast(), 5)) == "fast"
assert asyncio.run(with_timeout(slow(), 0.01, "late")) == "late"

# === async-generator
import asyncio


async def ticker(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i
# --- wrong
async def ticker(n):
    for i in range(n, 0, -1):
        yield i
# --- test
import asyncio
async def collect():
    return [x async for x in ticker(4)]
assert asyncio.run(collect()) == [0, 1, 2, 3]
# --- test
import asyncio
async def first():
    gen = ticker(5)
    value = await gen.__anext__()
    await gen.aclose()
    return value
assert asyncio.run(first()) == 0

# === async-iterator-class
class Pages:
    def __init__(self, pages):
        self.pages = list(pages)

    def __aiter__(self):
        self.i = 0
        return self

    async def __anext__(self):
        if self.i >= len(self.pages):
            raise StopAsyncIteration
        self.i += 1
        return self.pages[self.i - 1]
# --- test
import asyncio
async def total():
    n = 0
    async for p in Pages([1, 2, 3]):
        n += p
    return n
assert asyncio.run(total()) == 6

# === async-context-manager-class
class Session:
    def __init__(self):
        self.log = []

    async def __aenter__(self):
        self.log.append("open")
        return self

    async def __aexit__(self, kind, exc, tb):
        self.log.append("close" if kind is None else kind.__name__)
        return kind is KeyError

    async def get(self, path):
        return f"GET {path}"
# --- test
import asyncio
async def main():
    async with Session() as s:
        body = await s.get("/x")
    return body, s.log
assert asyncio.run(main()) == ("GET /x", ["open", "close"])
# --- test
import asyncio
async def main():
    s = Session()
    async with s:
        raise KeyError
    return s.log
assert asyncio.run(main()) == ["open", "KeyError"]

# === asynccontextmanager
from contextlib import asynccontextmanager


@asynccontextmanager
async def connect(name, log):
    log.append(f"+{name}")
    try:
        yield name.upper()
    finally:
        log.append(f"-{name}")
# --- test
import asyncio
async def main():
    log = []
    async with connect("db", log) as c:
        log.append(c)
    return log
assert asyncio.run(main()) == ["+db", "DB", "-db"]

# === awaitable-object
import asyncio


class Later:
    def __init__(self, value):
        self.value = value

    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return self.value
# --- test
import asyncio
async def main():
    return await Later(5)
assert asyncio.run(main()) == 5

# === retry-with-callback
import asyncio


async def retry(func, attempts=3, delay=0):
    last = None
    for _ in range(attempts):
        try:
            return await func()
        except ValueError as exc:
            last = exc
            await asyncio.sleep(delay)
    raise last
# --- test
import asyncio
calls = []
async def flaky():
    calls.append(1)
    if len(calls) < 3:
        raise ValueError("not yet")
    return "ok"
assert asyncio.run(retry(flaky)) == "ok"
assert len(calls) == 3

# === exception-in-coroutine
class NotFound(Exception):
    def __init__(self, key):
        super().__init__(f"no {key}")
        self.key = key


async def lookup(table, key):
    if key not in table:
        raise NotFound(key)
    return table[key]
# --- test
import asyncio
assert asyncio.run(lookup({"a": 1}, "a")) == 1
try:
    asyncio.run(lookup({}, "zz"))
except NotFound as e:
    assert e.key == "zz" and str(e) == "no zz"
else:
    assert False
# --- test
import asyncio
async def main():
    return await asyncio.gather(lookup({"a": 1}, "a"), lookup({}, "q"), return_exceptions=True)
a, b = asyncio.run(main())
assert a == 1 and isinstance(b, NotFound)

# === task-cancellation
import asyncio


async def cancellable(log):
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        log.append("cancelled")
        raise
# --- test
import asyncio
async def main():
    log = []
    task = asyncio.ensure_future(cancellable(log))
    await asyncio.sleep(0.01)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    return log
assert asyncio.run(main()) == ["cancelled"]

# === event-and-condition
import asyncio


class Latch:
    def __init__(self, n):
        self.n = n
        self.event = asyncio.Event()

    def count_down(self):
        self.n -= 1
        if self.n == 0:
            self.event.set()

    async def wait(self):
        await self.event.wait()
        return self.n
# --- test
import asyncio
async def main():
    latch = Latch(2)
    waiter = asyncio.create_task(latch.wait())
    await asyncio.sleep(0)
    assert not waiter.done()
    latch.count_down()
    latch.count_down()
    return await waiter
assert asyncio.run(main()) == 0

# === send-to-coroutine-by-hand
async def add(a, b):
    return a + b


def run(coro):
    try:
        while True:
            coro.send(None)
    except StopIteration as stop:
        return stop.value
# --- asserts
assert run(add(1, 2)) == 3

# === async-method-on-object entry_point=Cache
import asyncio


class Cache:
    def __init__(self, loader):
        self.loader = loader
        self.data = {}
        self._locks = {}

    async def get(self, key):
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            if key not in self.data:
                self.data[key] = await self.loader(key)
        return self.data[key]
# --- test
import asyncio
loads = []
async def loader(key):
    loads.append(key)
    await asyncio.sleep(0)
    return key * 2
async def main():
    cache = Cache(loader)
    return await asyncio.gather(*(cache.get(k) for k in ["a", "b", "a", "a"]))
assert asyncio.run(main()) == ["aa", "bb", "aa", "aa"]
assert sorted(loads) == ["a", "b"]

# === run-in-executor
import asyncio


def blocking(n):
    return sum(range(n))


async def offload(values):
    loop = asyncio.get_running_loop()
    return await asyncio.gather(*(loop.run_in_executor(None, blocking, v) for v in values))
# --- test
import asyncio
assert asyncio.run(offload([3, 4])) == [3, 6]
# --- test
import asyncio
async def main():
    return await asyncio.to_thread(blocking, 5)
assert asyncio.run(main()) == 10

# === stream-of-lines-from-check
async def count_lines(source, predicate):
    total = 0
    async for line in source:
        if predicate(line):
            total += 1
    return total
# --- test
import asyncio
async def lines():
    for text in ["a", "", "b"]:
        yield text
assert asyncio.run(count_lines(lines(), bool)) == 2

# === main-function-async-with-guard
import asyncio


async def solve(n):
    await asyncio.sleep(0)
    return n ** 2


async def main():
    print(await solve(3))


if __name__ == "__main__":
    asyncio.run(main())
# --- asserts
import asyncio; assert asyncio.run(solve(3)) == 9
import asyncio; assert asyncio.run(main()) is None

# === wrong-missing-await wrong
async def one():
    return 1


async def total():
    a = one()
    b = await one()
    a.close()
    return b
# --- test
import asyncio
assert asyncio.run(total()) == 2

# === wrong-aexit-swallows wrong
class Session:
    async def __aenter__(self):
        return self

    async def __aexit__(self, *a):
        return True
# --- test
import asyncio
async def main():
    async with Session():
        raise KeyError("x")
try:
    asyncio.run(main())
except KeyError:
    pass
else:
    raise AssertionError
