# === square-body problem entry_point=square
# --- prompt
def square(x):
    """Square."""
# --- test
def check(candidate):
    assert candidate(3) == 9
check(square)

# === one-line-body of=square-body
# --- completion
    return x * x
# --- code
def square(x):
    return x * x

# === whole-function-without-its-import of=below-zero
# --- completion
```python
def below_zero(operations: List[int]) -> bool:
{{body}}
```

# === body-with-nested-function-and-trailing-definitions entry_point=compose_twice
# --- prompt
def compose_twice(f):
    """Return f after f."""
# --- completion
    def inner(x):
        return f(f(x))
    return inner


def unrelated():
    pass
# --- code
def compose_twice(f):
    def inner(x):
        return f(f(x))
    return inner
# --- test
def check(candidate):
    assert candidate(lambda x: x + 1)(0) == 2
    assert candidate(str.upper)("a") == "A"
check(compose_twice)

# === prompt-with-helper entry_point=unrotate
# --- prompt
def rotate(s: str):
    return s[1:] + s[:1]


def unrotate(s: str):
    """ The word of three letters that becomes s if it is rotated. """
# --- completion
    return rotate(rotate(s))
# --- code
def rotate(s: str):
    return s[1:] + s[:1]


def unrotate(s: str):
    return rotate(rotate(s))
# --- test
def check(candidate):
    for word in ("abc", "xyz"):
        assert candidate(rotate(word)) == word
check(unrotate)

# === check-with-tolerance-and-messages entry_point=find_zero
def poly(xs, x):
    return sum(c * x ** i for i, c in enumerate(xs))


def find_zero(xs):
    lo, hi = -1.0, 1.0
    while poly(xs, lo) * poly(xs, hi) > 0:
        lo *= 2
        hi *= 2
    while hi - lo > 1e-10:
        mid = (lo + hi) / 2
        if poly(xs, mid) * poly(xs, lo) > 0:
            lo = mid
        else:
            hi = mid
    return lo
# --- test
import math
def check(candidate):
    for coefficients in ([1, 2], [-6, 11, -6, 1], [1.5, -3]):
        solution = candidate(list(coefficients))
        value = sum(c * math.pow(solution, i) for i, c in enumerate(coefficients))
        assert math.fabs(value) < 1e-4, f"poly({solution}) = {value} for {coefficients}"
    assert abs(candidate([1, 2]) + 0.5) < 1e-6, "This prints if this assert fails 1 (good for debugging!)"
check(find_zero)

# === mbpp-style-tests-with-imports
import heapq as hq


def heap_queue_largest(nums, n):
    return hq.nlargest(n, nums)
# --- asserts
assert heap_queue_largest([25, 35, 22, 85, 14, 65, 75, 22, 58], 3) == [85, 75, 65]
assert heap_queue_largest([25], 2) == [25]
# --- test
import math
assert math.isclose(sum(heap_queue_largest([0.1, 0.2], 2)), 0.3, rel_tol=0.001)

# === mbpp-set-of-results
def similar_elements(t1, t2):
    return tuple(set(t1) & set(t2))
# --- asserts
assert set(similar_elements((3, 4, 5, 6), (5, 7, 4, 10))) == set((4, 5))
assert sorted(similar_elements((1, 2), (2, 1))) == [1, 2]

# === candidate-alias-and-helper-functions entry_point=solve
def solve(n):
    return [i for i in range(1, n + 1) if n % i == 0]
# --- test
def brute(n):
    return [i for i in range(1, n + 1) if n % i == 0]

def check(candidate):
    for n in range(1, 60):
        expected = brute(n)
        actual = candidate(n)
        assert isinstance(actual, list), type(actual)
        assert actual == expected, f"n={n}: {actual} != {expected}"

check(solve)
check(candidate=solve)

# === check-compares-candidates entry_point=fast_sort
def fast_sort(xs):
    if len(xs) < 2:
        return list(xs)
    pivot, *rest = xs
    return fast_sort([x for x in rest if x < pivot]) + [pivot] + fast_sort([x for x in rest if x >= pivot])
# --- test
import random
candidate = fast_sort
rng = random.Random(7)
for _ in range(30):
    xs = [rng.randrange(100) for _ in range(rng.randrange(30))]
    before = list(xs)
    assert candidate(xs) == sorted(xs)
    assert xs == before
assert all(candidate([b, a]) == [a, b] for a in range(3) for b in range(3) if a <= b)

# === expected-on-the-left-and-not-equal
def swap_case(s):
    return "".join(c.lower() if c.isupper() else c.upper() for c in s)
# --- asserts
assert "hELLO" == swap_case("Hello")
assert swap_case("a") != "a", "case must change"
assert not swap_case("")
assert "X" in swap_case("x y") and " " in swap_case("x y")
assert (lambda s: swap_case(swap_case(s)))("AbC") == "AbC"
assert {swap_case(c) for c in "ab"} == {"A", "B"}
assert len(swap_case("abc")) == 3 and isinstance(swap_case("abc"), str)

# === wrong-body wrong of=square-body
# --- completion
    return x + x
# --- code
def square(x):
    return x + x

# === wrong-edge-case wrong entry_point=largest
def largest(xs):
    best = 0
    for x in xs:
        if x > best:
            best = x
    return best
# --- test
def check(candidate):
    assert candidate([1, 2]) == 2
    assert candidate([-3, -1]) == -1
check(largest)
