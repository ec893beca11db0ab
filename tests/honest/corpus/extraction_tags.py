# Completions with tags, with end-of-text tokens, and without any markup.

# === answer-then-prose-names-tag-echo-upper
# --- code
n = int(input())
for _ in range(n):
    print(input().upper())
# --- completion
<answer>
n = int(input())
for _ in range(n):
    print(input().upper())
</answer>
I put the code into an <answer> tag, as asked.
# --- stdin
2
ab
c
# --- stdout
AB
C

# === answer-then-prose-names-tag-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
<answer>
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
</answer>
I put the code into an <answer> tag, as asked.
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === answer-then-prose-names-tag-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
<answer>
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
</answer>
I put the code into an <answer> tag, as asked.
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === answer-then-prose-names-both-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
<answer>
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
</answer>
The code is between <answer> and </answer>.
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === answer-then-prose-names-both-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
<answer>
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
</answer>
The code is between <answer> and </answer>.
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === answer-then-prose-names-both-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
<answer>
add = lambda a, b: a + b
</answer>
The code is between <answer> and </answer>.
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === answer-then-quoted-tag-stack entry_point=MinStack
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
<answer>
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
</answer>
Everything is inside `<answer>`...`</answer>`.
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === answer-then-quoted-tag-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
<answer>
from math import gcd as gcd
</answer>
Everything is inside `<answer>`...`</answer>`.
# --- asserts
assert gcd(12, 18) == 6

# === answer-then-quoted-tag-sum-input
# --- code
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- completion
<answer>
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
</answer>
Everything is inside `<answer>`...`</answer>`.
# --- stdin
1 2 3
# --- stdout
6
# --- stdin
-4 4
# --- stdout
0

# === prose-names-tag-before-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
My solution is in <answer></answer> tags:
<answer>
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
</answer>
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === prose-names-tag-before-matrix entry_point=transpose
# --- code
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
# --- completion
My solution is in <answer></answer> tags:
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

# === fence-then-prose-names-answer-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
```python
add = lambda a, b: a + b
```
No <answer> is needed.
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === fence-then-prose-names-answer-echo-upper
# --- code
n = int(input())
for _ in range(n):
    print(input().upper())
# --- completion
```python
n = int(input())
for _ in range(n):
    print(input().upper())
```
No <answer> is needed.
# --- stdin
2
ab
c
# --- stdout
AB
C

# === fence-then-answer-in-words-sum-input
# --- code
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- completion
```python
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
```
<answer>The function above.</answer>
# --- stdin
1 2 3
# --- stdout
6
# --- stdin
-4 4
# --- stdout
0

# === fence-then-answer-in-words-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
```python
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
```
<answer>The function above.</answer>
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === token-after-answer-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
<answer>
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
</answer><|im_end|>
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === token-after-answer-matrix entry_point=transpose
# --- code
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
# --- completion
<answer>
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
</answer><|im_end|>
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === token-after-open-answer-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
<answer>
add = lambda a, b: a + b
<|im_end|>
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === token-after-open-answer-echo-upper
# --- code
n = int(input())
for _ in range(n):
    print(input().upper())
# --- completion
<answer>
n = int(input())
for _ in range(n):
    print(input().upper())
<|im_end|>
# --- stdin
2
ab
c
# --- stdout
AB
C

# === token-after-open-fence-sum-input
# --- code
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- completion
```python
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()<|eot_id|>
# --- stdin
1 2 3
# --- stdout
6
# --- stdin
-4 4
# --- stdout
0

# === token-after-open-fence-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
```python
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out<|eot_id|>
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === token-after-plain-code-grid
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
def solve():
    h, w = map(int, input().split())
    total = 0
    for _ in range(h):
        total += input().count("#")
    print(total, h * w - total)


if __name__ == "__main__":
    solve()<|endoftext|>
# --- stdin
2 3
#.#
...
# --- stdout
2 4

# === token-after-plain-code-stack entry_point=MinStack
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
class MinStack:
    def __init__(self):
        self._items = []

    def push(self, x):
        low = min(x, self._items[-1][1]) if self._items else x
        self._items.append((x, low))

    def pop(self):
        return self._items.pop()[0]

    def low(self):
        return self._items[-1][1]<|endoftext|>
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === upper-case-answer-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
<ANSWER>
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
</ANSWER>
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === upper-case-answer-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
<ANSWER>
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
</ANSWER>
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === answer-with-attribute-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
<answer lang="python">
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

# === answer-with-attribute-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
<answer lang="python">
add = lambda a, b: a + b
</answer>
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === answer-mixed-case-attribute-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
<Answer type='code'>```python
from math import gcd as gcd
```</Answer>
# --- asserts
assert gcd(12, 18) == 6

# === answer-with-fence-and-usage-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
<answer>
```python
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
```
Usage:
```python
assert fib(7) == 13
```
</answer>
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === answer-with-fence-and-usage-matrix entry_point=transpose
# --- code
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
# --- completion
<answer>
```python
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
```
Usage:
```python
m = [[1, 2], [3, 4]]
print(transpose(m))
```
</answer>
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === helper-fence-then-answer-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
```python
from functools import lru_cache

cached = lru_cache(maxsize=None)
```
<answer>
@cached
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
</answer>
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === helper-fence-then-answer-echo-upper
# --- code
n = int(input())
for _ in range(n):
    print(input().upper())
# --- completion
```python
def lines():
    return [input() for _ in range(int(input()))]
```
<answer>
for line in lines():
    print(line.upper())
</answer>
# --- stdin
2
ab
c
# --- stdout
AB
C

# === code-tag-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
<code>
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
</code>
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === code-tag-attribute-stack entry_point=MinStack
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
<CODE class="py">
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
</CODE>
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === code-tag-attribute-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
<CODE class="py">
from math import gcd as gcd
</CODE>
# --- asserts
assert gcd(12, 18) == 6

# === plain-code-stack entry_point=MinStack
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
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === plain-code-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
from math import gcd as gcd
# --- asserts
assert gcd(12, 18) == 6

# === plain-code-sum-input
# --- code
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- completion
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- stdin
1 2 3
# --- stdout
6
# --- stdin
-4 4
# --- stdout
0

# === plain-code-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === plain-code-sentence-before-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
Here is the code:

def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === plain-code-sentence-before-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
Here is the code:

from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === plain-code-sentence-before-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
Here is the code:

add = lambda a, b: a + b
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === plain-code-sentence-after-stack entry_point=MinStack
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

This runs in linear time.
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === plain-code-sentence-after-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
from math import gcd as gcd

This runs in linear time.
# --- asserts
assert gcd(12, 18) == 6

# === plain-code-sentence-after-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out

This runs in linear time.
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === in-answer-fence-in-docstring entry_point=double
# --- code
def double(x):
    """Double a number.

    ```
    double(2)  # 4
    ```
    """
    return 2 * x
# --- completion
<answer>
def double(x):
    """Double a number.

    ```
    double(2)  # 4
    ```
    """
    return 2 * x
</answer>
# --- asserts
assert double(4) == 8

# === in-answer-fence-fence-in-docstring entry_point=double
# --- code
def double(x):
    """Double a number.

    ```
    double(2)  # 4
    ```
    """
    return 2 * x
# --- completion
<answer>
```python
def double(x):
    """Double a number.

    ```
    double(2)  # 4
    ```
    """
    return 2 * x
```
</answer>
# --- asserts
assert double(4) == 8

# === plain-fence-in-docstring entry_point=double
# --- code
def double(x):
    """Double a number.

    ```
    double(2)  # 4
    ```
    """
    return 2 * x
# --- completion
def double(x):
    """Double a number.

    ```
    double(2)  # 4
    ```
    """
    return 2 * x
# --- asserts
assert double(4) == 8

# === in-answer-fence-in-string entry_point=block
# --- code
def block(text):
    return """
```python
""".lstrip() + text + """
```
"""
# --- completion
<answer>
def block(text):
    return """
```python
""".lstrip() + text + """
```
"""
</answer>
# --- asserts
assert block("x") == "```python\nx\n```\n"

# === in-answer-fence-fence-in-string entry_point=block
# --- code
def block(text):
    return """
```python
""".lstrip() + text + """
```
"""
# --- completion
<answer>
```python
def block(text):
    return """
```python
""".lstrip() + text + """
```
"""
```
</answer>
# --- asserts
assert block("x") == "```python\nx\n```\n"

# === plain-fence-in-string entry_point=block
# --- code
def block(text):
    return """
```python
""".lstrip() + text + """
```
"""
# --- completion
def block(text):
    return """
```python
""".lstrip() + text + """
```
"""
# --- asserts
assert block("x") == "```python\nx\n```\n"

# === in-answer-answer-in-string entry_point=wrap
# --- code
def wrap(text):
    return f"<answer>{text}</answer>"
# --- completion
<answer>
def wrap(text):
    return f"<answer>{text}</answer>"
</answer>
# --- asserts
assert wrap("x") == "<answer>x</answer>"

# === in-answer-fence-answer-in-string entry_point=wrap
# --- code
def wrap(text):
    return f"<answer>{text}</answer>"
# --- completion
<answer>
```python
def wrap(text):
    return f"<answer>{text}</answer>"
```
</answer>
# --- asserts
assert wrap("x") == "<answer>x</answer>"

# === plain-answer-in-string entry_point=wrap
# --- code
def wrap(text):
    return f"<answer>{text}</answer>"
# --- completion
def wrap(text):
    return f"<answer>{text}</answer>"
# --- asserts
assert wrap("x") == "<answer>x</answer>"

# === in-answer-answer-in-docstring entry_point=strip_tags
# --- code
import re


def strip_tags(text):
    """Return what is between <answer> and </answer>."""
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1) if found else None
# --- completion
<answer>
import re


def strip_tags(text):
    """Return what is between <answer> and </answer>."""
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1) if found else None
</answer>
# --- asserts
assert strip_tags("a<answer>b</answer>c") == "b"
assert strip_tags("") is None

# === in-answer-fence-answer-in-docstring entry_point=strip_tags
# --- code
import re


def strip_tags(text):
    """Return what is between <answer> and </answer>."""
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1) if found else None
# --- completion
<answer>
```python
import re


def strip_tags(text):
    """Return what is between <answer> and </answer>."""
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1) if found else None
```
</answer>
# --- asserts
assert strip_tags("a<answer>b</answer>c") == "b"
assert strip_tags("") is None

# === plain-answer-in-docstring entry_point=strip_tags
# --- code
import re


def strip_tags(text):
    """Return what is between <answer> and </answer>."""
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1) if found else None
# --- completion
import re


def strip_tags(text):
    """Return what is between <answer> and </answer>."""
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1) if found else None
# --- asserts
assert strip_tags("a<answer>b</answer>c") == "b"
assert strip_tags("") is None

# === in-answer-think-in-string entry_point=hide
# --- code
import re


def hide(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
# --- completion
<answer>
import re


def hide(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
</answer>
# --- asserts
assert hide("<think>a</think>b") == "b"

# === in-answer-fence-think-in-string entry_point=hide
# --- code
import re


def hide(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
# --- completion
<answer>
```python
import re


def hide(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
```
</answer>
# --- asserts
assert hide("<think>a</think>b") == "b"

# === plain-think-in-string entry_point=hide
# --- code
import re


def hide(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
# --- completion
import re


def hide(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
# --- asserts
assert hide("<think>a</think>b") == "b"

# === in-answer-token-in-string entry_point=chat
# --- code
def chat(text):
    return "<|im_start|>user\n" + text + "<|im_end|>"
# --- completion
<answer>
def chat(text):
    return "<|im_start|>user\n" + text + "<|im_end|>"
</answer>
# --- asserts
assert chat("x") == "<|im_start|>user\nx<|im_end|>"

# === in-answer-fence-token-in-string entry_point=chat
# --- code
def chat(text):
    return "<|im_start|>user\n" + text + "<|im_end|>"
# --- completion
<answer>
```python
def chat(text):
    return "<|im_start|>user\n" + text + "<|im_end|>"
```
</answer>
# --- asserts
assert chat("x") == "<|im_start|>user\nx<|im_end|>"

# === plain-token-in-string entry_point=chat
# --- code
def chat(text):
    return "<|im_start|>user\n" + text + "<|im_end|>"
# --- completion
def chat(text):
    return "<|im_start|>user\n" + text + "<|im_end|>"
# --- asserts
assert chat("x") == "<|im_start|>user\nx<|im_end|>"
