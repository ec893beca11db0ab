# === context-manager-class entry_point=Timer
# --- code
class Timer:
    def __init__(self, clock):
        self.clock = clock
        self.elapsed = None

    def __enter__(self):
        self.start = self.clock()
        return self

    def __exit__(self, exc_type, exc, tb):
        self.elapsed = self.clock() - self.start
        return False
# --- test
ticks = iter([10, 17])
with Timer(lambda: next(ticks)) as t:
    assert t.elapsed is None
assert t.elapsed == 7
# --- test
ticks = iter([1, 2])
t = Timer(lambda: next(ticks))
try:
    with t:
        raise KeyError("x")
except KeyError:
    pass
else:
    raise AssertionError("must propagate")
assert t.elapsed == 1

# === index-protocol
# --- code
class Slot:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n
# --- asserts
assert [10, 20, 30][Slot(1)] == 20
assert hex(Slot(255)) == "0xff"
assert list(range(Slot(3))) == [0, 1, 2]
assert "abcdef"[Slot(1):Slot(4)] == "bcd"
assert bin(Slot(5)) == "0b101"

# === wrong-index wrong
# --- code
class Slot:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n + 1
# --- asserts
assert [10, 20, 30][Slot(1)] == 20
