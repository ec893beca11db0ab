# Completions with reasoning before the answer: drafts and empty answers in it are no answers.

# === draft-in-think-grid
# --- code
def solve():
    h, w = map(int, input().split())
    total = 0
    for _ in range(h):
        total += input().count("#")
    print(total, h * w - total)


if __name__ == "__main__":
    solve()
# --- completion
<think>
Let me try
```python
def main(*args):
    return None  # not yet
```
No.
</think>
```python
def solve():
    h, w = map(int, input().split())
    total = 0
    for _ in range(h):
        total += input().count("#")
    print(total, h * w - total)


if __name__ == "__main__":
    solve()
```
# --- stdin
2 3
#.#
...
# --- stdout
2 4

# === draft-in-think-stack entry_point=MinStack
# --- code
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
# --- completion
<think>
Let me try
```python
def MinStack(*args):
    return None  # not yet
```
No.
</think>
```python
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
```
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === draft-in-think-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
<think>
Let me try
```python
def gcd(*args):
    return None  # not yet
```
No.
</think>
```python
from math import gcd as gcd
```
# --- asserts
assert gcd(12, 18) == 6

# === draft-answer-in-think-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
<think>Maybe <answer>def primes_below(*args):
    return None  # not yet</answer>? No.</think>
<answer>
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
</answer>
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === draft-answer-in-think-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
<think>Maybe <answer>def fib(*args):
    return None  # not yet</answer>? No.</think>
<answer>
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
</answer>
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === draft-answer-in-think-matrix entry_point=transpose
# --- code
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
# --- completion
<think>Maybe <answer>def transpose(*args):
    return None  # not yet</answer>? No.</think>
<answer>
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
</answer>
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === empty-answer-in-think-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
<think>I must write <answer></answer>.</think>

```python
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
```
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === empty-answer-in-think-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
<think>I must write <answer></answer>.</think>

```python
add = lambda a, b: a + b
```
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === empty-answer-in-think-echo-upper
# --- code
n = int(input())
for _ in range(n):
    print(input().upper())
# --- completion
<think>I must write <answer></answer>.</think>

```python
n = int(input())
for _ in range(n):
    print(input().upper())
```
# --- stdin
2
ab
c
# --- stdout
AB
C

# === think-without-opening-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
Let me think. <answer></answer> is wanted.
```python
def gcd(*args):
    return None  # not yet
```
hm
</think>

```python
from math import gcd as gcd
```
# --- asserts
assert gcd(12, 18) == 6

# === think-without-opening-sum-input
# --- code
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- completion
Let me think. <answer></answer> is wanted.
```python
def main(*args):
    return None  # not yet
```
hm
</think>

```python
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
```
# --- stdin
1 2 3
# --- stdout
6
# --- stdin
-4 4
# --- stdout
0

# === think-without-opening-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
Let me think. <answer></answer> is wanted.
```python
def fizz(*args):
    return None  # not yet
```
hm
</think>

```python
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === open-draft-in-think-matrix entry_point=transpose
# --- code
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
# --- completion
<think>
Start:
```python
def broken(
</think>
The answer:
```python
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
```
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === open-draft-in-think-grid
# --- code
def solve():
    h, w = map(int, input().split())
    total = 0
    for _ in range(h):
        total += input().count("#")
    print(total, h * w - total)


if __name__ == "__main__":
    solve()
# --- completion
<think>
Start:
```python
def broken(
</think>
The answer:
```python
def solve():
    h, w = map(int, input().split())
    total = 0
    for _ in range(h):
        total += input().count("#")
    print(total, h * w - total)


if __name__ == "__main__":
    solve()
```
# --- stdin
2 3
#.#
...
# --- stdout
2 4

# === open-draft-in-think-stack entry_point=MinStack
# --- code
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
# --- completion
<think>
Start:
```python
def broken(
</think>
The answer:
```python
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
```
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === think-unclosed-echo-upper
# --- code
n = int(input())
for _ in range(n):
    print(input().upper())
# --- completion
<think>
The code is easy.
```python
n = int(input())
for _ in range(n):
    print(input().upper())
```
# --- stdin
2
ab
c
# --- stdout
AB
C

# === think-unclosed-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
<think>
The code is easy.
```python
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
```
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === think-unclosed-empty-answer-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
<think>
I need <answer></answer> here.
<answer>
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
</answer>
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === think-unclosed-empty-answer-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
<think>
I need <answer></answer> here.
<answer>
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
</answer>
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === thinking-upper-case-stack entry_point=MinStack
# --- code
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
# --- completion
<THINKING>def MinStack(*args):
    return None  # not yet</THINKING>
```python
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
```
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === thinking-upper-case-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
<THINKING>def gcd(*args):
    return None  # not yet</THINKING>
```python
from math import gcd as gcd
```
# --- asserts
assert gcd(12, 18) == 6

# === reasoning-then-answer-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
<reasoning>
use <answer>x</answer>
</reasoning>
<answer>
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
</answer>
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === reasoning-then-answer-matrix entry_point=transpose
# --- code
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
# --- completion
<reasoning>
use <answer>x</answer>
</reasoning>
<answer>
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
</answer>
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === after-think-fence-in-docstring entry_point=double
# --- code
def double(x):
    """Double a number.

    ```
    double(2)  # 4
    ```
    """
    return 2 * x
# --- completion
<think>
Simple.
</think>
```python
def double(x):
    """Double a number.

    ```
    double(2)  # 4
    ```
    """
    return 2 * x
```
# --- asserts
assert double(4) == 8

# === after-think-fence-in-string entry_point=block
# --- code
def block(text):
    return """
```python
""".lstrip() + text + """
```
"""
# --- completion
<think>
Simple.
</think>
```python
def block(text):
    return """
```python
""".lstrip() + text + """
```
"""
```
# --- asserts
assert block("x") == "```python\nx\n```\n"

# === after-think-answer-in-string entry_point=wrap
# --- code
def wrap(text):
    return f"<answer>{text}</answer>"
# --- completion
<think>
Simple.
</think>
```python
def wrap(text):
    return f"<answer>{text}</answer>"
```
# --- asserts
assert wrap("x") == "<answer>x</answer>"

# === after-think-answer-in-docstring entry_point=strip_tags
# --- code
import re


def strip_tags(text):
    """Return what is between <answer> and </answer>."""
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1) if found else None
# --- completion
<think>
Simple.
</think>
```python
import re


def strip_tags(text):
    """Return what is between <answer> and </answer>."""
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1) if found else None
```
# --- asserts
assert strip_tags("a<answer>b</answer>c") == "b"
assert strip_tags("") is None

# === after-think-think-in-string entry_point=hide
# --- code
import re


def hide(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
# --- completion
<think>
Simple.
</think>
```python
import re


def hide(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
```
# --- asserts
assert hide("<think>a</think>b") == "b"

# === after-think-token-in-string entry_point=chat
# --- code
def chat(text):
    return "<|im_start|>user\n" + text + "<|im_end|>"
# --- completion
<think>
Simple.
</think>
```python
def chat(text):
    return "<|im_start|>user\n" + text + "<|im_end|>"
```
# --- asserts
assert chat("x") == "<|im_start|>user\nx<|im_end|>"
