# Problems that completions of several styles answer, with texts that surround the code in them.

# === fizz problem entry_point=fizz
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- usage
print(fizz(15))
# --- token
<end_of_turn>
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === words problem entry_point=count_words
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- usage
>>> count_words("a b")
{'a': 1, 'b': 1}
# --- helper
from collections import Counter
# --- main
def count_words(text):
    return dict(Counter(text.lower().split()))
# --- token
</s>
# --- info
PYTHON
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === add problem entry_point=add
add = lambda a, b: a + b
# --- usage
result = add(1, 2)
print(result)
# --- helper
import operator
# --- main
add = operator.add
# --- token
<|im_end|>
# --- info
Python3
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === primes problem entry_point=primes_below
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- usage
for p in primes_below(30):
    print(p)
# --- helper
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))
# --- main
def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- token
<|endoftext|>
# --- info
py
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === fib problem entry_point=fib
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- usage
assert fib(7) == 13
# --- helper
from functools import lru_cache

cached = lru_cache(maxsize=None)
# --- main
@cached
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- info
python title="x"
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === matrix problem entry_point=transpose
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
# --- usage
m = [[1, 2], [3, 4]]
print(transpose(m))
# --- token
<|eot_id|>
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === stack problem entry_point=MinStack
class MinStack:
    def __init__(self):
        self._items = []

    def push(self, x):
        low = min(x, self._items[-1][1]) if self._items else x
        self._items.append((x, low))

    def pop(self):
        return self._items.pop()[0]

    def low(self):
        return self._items[-1][1]
# --- usage
stack = MinStack()
stack.push(4)
print(stack.low())
# --- token
<end_of_turn>
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === gcd problem entry_point=gcd
from math import gcd as gcd
# --- usage
gcd(4, 6)  # 2
# --- token
</s>
# --- info
python,runnable
# --- asserts
assert gcd(12, 18) == 6

# === grid problem
def solve():
    h, w = map(int, input().split())
    total = 0
    for _ in range(h):
        total += input().count("#")
    print(total, h * w - total)


if __name__ == "__main__":
    solve()
# --- helper
def count(rows):
    return sum(row.count("#") for row in rows)
# --- main
h, w = map(int, input().split())
total = count(input() for _ in range(h))
print(total, h * w - total)
# --- token
<|endoftext|>
# --- info
python:main.py
# --- stdin
2 3
#.#
...
# --- stdout
2 4

# === echo-upper problem
n = int(input())
for _ in range(n):
    print(input().upper())
# --- helper
def lines():
    return [input() for _ in range(int(input()))]
# --- main
for line in lines():
    print(line.upper())
# --- token
<|eot_id|>
# --- stdin
2
ab
c
# --- stdout
AB
C

# === sum-input problem
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- helper
import sys


def read():
    return [int(word) for word in sys.stdin.read().split()]
# --- main
print(sum(read()))
# --- token
<|im_end|>
# --- info
{.python .numberLines}
# --- stdin
1 2 3
# --- stdout
6
# --- stdin
-4 4
# --- stdout
0

# === fence-in-docstring problem entry_point=double
def double(x):
    """Double a number.

    ```
    double(2)  # 4
    ```
    """
    return 2 * x
# --- asserts
assert double(4) == 8

# === fence-in-string problem entry_point=block
def block(text):
    return """
```python
""".lstrip() + text + """
```
"""
# --- asserts
assert block("x") == "```python\nx\n```\n"

# === answer-in-string problem entry_point=wrap
def wrap(text):
    return f"<answer>{text}</answer>"
# --- asserts
assert wrap("x") == "<answer>x</answer>"

# === answer-in-docstring problem entry_point=strip_tags
import re


def strip_tags(text):
    """Return what is between <answer> and </answer>."""
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1) if found else None
# --- asserts
assert strip_tags("a<answer>b</answer>c") == "b"
assert strip_tags("") is None

# === think-in-string problem entry_point=hide
import re


def hide(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
# --- asserts
assert hide("<think>a</think>b") == "b"

# === token-in-string problem entry_point=chat
def chat(text):
    return "<|im_start|>user\n" + text + "<|im_end|>"
# --- asserts
assert chat("x") == "<|im_start|>user\nx<|im_end|>"

# === double-input problem
n = int(input())
print(n * 2)
# --- draft
n = int(input())
print(n * 3)
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === double problem entry_point=double
def double(n):
    twice = n * 2
    return twice
# --- draft
def double(n):
    twice = n * 3
    return twice
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-double-input problem wrong
n = int(input())
print(n * 3)
# --- draft
n = int(input())
print(n * 2)
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === wrong-double problem wrong entry_point=double
def double(n):
    twice = n * 3
    return twice
# --- draft
def double(n):
    twice = n * 2
    return twice
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === double-body problem entry_point=double
# --- prompt
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
# --- code
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
    twice = n * 2
    return twice
# --- body
    twice = n * 2
    return twice
# --- draft
    twice = n * 3
    return twice
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === below-zero problem entry_point=below_zero
# --- prompt
from typing import List


def below_zero(operations: List[int]) -> bool:
    """ Tell whether the balance falls below zero.
    >>> below_zero([1, 2, -4])
    True
    """
# --- code
from typing import List


def below_zero(operations: List[int]) -> bool:
    """ Tell whether the balance falls below zero.
    >>> below_zero([1, 2, -4])
    True
    """
    balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False
# --- body
    balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False
# --- lost
balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False
# --- dedented
balance = 0
for op in operations:
    balance += op
    if balance < 0:
        return True
return False
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === largest problem entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- body
    return max(xs, default=0)
# --- lost
return max(xs, default=0)
# --- dedented
return max(xs, default=0)
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === wrong-fizz problem wrong entry_point=fizz
def fizz(*args):
    return None  # not yet
# --- draft
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === wrong-matrix problem wrong entry_point=transpose
def transpose(*args):
    return None  # not yet
# --- draft
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []
