# Completions with several fenced blocks: helpers, versions, usage, output, and fences of every form.

# === usage-block-after-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
Here is the solution:

```python
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
```

Example usage:

```python
print(fizz(15))
```

That is all.
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === usage-block-after-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
Here is the solution:

```python
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
```

Example usage:

```python
>>> count_words("a b")
{'a': 1, 'b': 1}
```

That is all.
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === usage-block-after-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
Here is the solution:

```python
add = lambda a, b: a + b
```

Example usage:

```python
result = add(1, 2)
print(result)
```

That is all.
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === usage-block-after-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
Here is the solution:

```python
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
```

Example usage:

```python
for p in primes_below(30):
    print(p)
```

That is all.
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === usage-block-after-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
Here is the solution:

```python
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
```

Example usage:

```python
assert fib(7) == 13
```

That is all.
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === usage-block-after-matrix entry_point=transpose
# --- code
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
# --- completion
Here is the solution:

```python
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
```

Example usage:

```python
m = [[1, 2], [3, 4]]
print(transpose(m))
```

That is all.
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === usage-block-after-stack entry_point=MinStack
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
Here is the solution:

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

Example usage:

```python
stack = MinStack()
stack.push(4)
print(stack.low())
```

That is all.
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === usage-block-after-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
Here is the solution:

```python
from math import gcd as gcd
```

Example usage:

```python
gcd(4, 6)  # 2
```

That is all.
# --- asserts
assert gcd(12, 18) == 6

# === usage-unlabelled-after-stack entry_point=MinStack
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
```
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

Example:

```
stack = MinStack()
stack.push(4)
print(stack.low())
```
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === usage-unlabelled-after-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
```
from math import gcd as gcd
```

Example:

```
gcd(4, 6)  # 2
```
# --- asserts
assert gcd(12, 18) == 6

# === usage-unlabelled-after-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
```
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
```

Example:

```
print(fizz(15))
```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === shell-block-after-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
```python
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
```
Run it:
```bash
pip install nothing
```
and see
```text
42
```
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === shell-block-after-matrix entry_point=transpose
# --- code
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
# --- completion
```python
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
```
Run it:
```bash
pip install nothing
```
and see
```text
42
```
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === shell-block-after-grid
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
Run it:
```bash
pip install nothing
```
and see
```text
42
```
# --- stdin
2 3
#.#
...
# --- stdout
2 4

# === output-unlabelled-after-echo-upper
# --- code
n = int(input())
for _ in range(n):
    print(input().upper())
# --- completion
```
n = int(input())
for _ in range(n):
    print(input().upper())
```
It prints
```
42
```
# --- stdin
2
ab
c
# --- stdout
AB
C

# === output-unlabelled-after-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
```
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
```
It prints
```
42
```
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === output-unlabelled-after-grid
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
```
def solve():
    h, w = map(int, input().split())
    total = 0
    for _ in range(h):
        total += input().count("#")
    print(total, h * w - total)


if __name__ == "__main__":
    solve()
```
It prints
```
42
```
# --- stdin
2 3
#.#
...
# --- stdout
2 4

# === output-unlabelled-after-sum-input
# --- code
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- completion
```
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
```
It prints
```
42
```
# --- stdin
1 2 3
# --- stdout
6
# --- stdin
-4 4
# --- stdout
0

# === sample-input-after-sum-input
# --- code
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- completion
The program:
```python
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
```
For the input
```
1 2 3
```
it prints
```
6
```
# --- stdin
1 2 3
# --- stdout
6
# --- stdin
-4 4
# --- stdout
0

# === sample-input-after-echo-upper
# --- code
n = int(input())
for _ in range(n):
    print(input().upper())
# --- completion
The program:
```python
n = int(input())
for _ in range(n):
    print(input().upper())
```
For the input
```
2
ab
c
```
it prints
```
AB
C
```
# --- stdin
2
ab
c
# --- stdout
AB
C

# === sample-input-after-grid
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
The program:
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
For the input
```
2 3
#.#
...
```
it prints
```
2 4
```
# --- stdin
2 3
#.#
...
# --- stdout
2 4

# === test-with-asserts-after-stack entry_point=MinStack
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

A few tests:

```python
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2
```
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === test-with-asserts-after-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
```python
from math import gcd as gcd
```

A few tests:

```python
assert gcd(12, 18) == 6
```
# --- asserts
assert gcd(12, 18) == 6

# === test-with-asserts-after-fizz entry_point=fizz
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

A few tests:

```python
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []
```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === helper-then-main-echo-upper
# --- code
n = int(input())
for _ in range(n):
    print(input().upper())
# --- completion
First a helper:

```python
def lines():
    return [input() for _ in range(int(input()))]
```

Now the solution, which uses it:

```python
for line in lines():
    print(line.upper())
```
# --- stdin
2
ab
c
# --- stdout
AB
C

# === helper-then-main-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
First a helper:

```python
from collections import Counter
```

Now the solution, which uses it:

```python
def count_words(text):
    return dict(Counter(text.lower().split()))
```
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === helper-then-main-sum-input
# --- code
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- completion
First a helper:

```python
import sys


def read():
    return [int(word) for word in sys.stdin.read().split()]
```

Now the solution, which uses it:

```python
print(sum(read()))
```
# --- stdin
1 2 3
# --- stdout
6
# --- stdin
-4 4
# --- stdout
0

# === helper-then-main-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
First a helper:

```python
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))
```

Now the solution, which uses it:

```python
def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
```
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === helper-then-main-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
First a helper:

```python
import operator
```

Now the solution, which uses it:

```python
add = operator.add
```
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === helper-then-main-grid
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
First a helper:

```python
def count(rows):
    return sum(row.count("#") for row in rows)
```

Now the solution, which uses it:

```python
h, w = map(int, input().split())
total = count(input() for _ in range(h))
print(total, h * w - total)
```
# --- stdin
2 3
#.#
...
# --- stdout
2 4

# === helper-then-main-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
First a helper:

```python
from functools import lru_cache

cached = lru_cache(maxsize=None)
```

Now the solution, which uses it:

```python
@cached
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
```
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === helper-then-main-unlabelled-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
1. Part one
```
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))
```
2. Part two
```
def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
```
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === helper-then-main-unlabelled-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
1. Part one
```
import operator
```
2. Part two
```
add = operator.add
```
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === helper-then-main-unlabelled-grid
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
1. Part one
```
def count(rows):
    return sum(row.count("#") for row in rows)
```
2. Part two
```
h, w = map(int, input().split())
total = count(input() for _ in range(h))
print(total, h * w - total)
```
# --- stdin
2 3
#.#
...
# --- stdout
2 4

# === helper-main-usage-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
```python
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))
```

```python
def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
```

Usage:

```python
for p in primes_below(30):
    print(p)
```
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === helper-main-usage-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
```python
import operator
```

```python
add = operator.add
```

Usage:

```python
result = add(1, 2)
print(result)
```
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === helper-main-usage-fib entry_point=fib
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

```python
@cached
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
```

Usage:

```python
assert fib(7) == 13
```
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === main-then-helper-sum-input
# --- code
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- completion
```python
print(sum(read()))
```

It uses this:

```python
import sys


def read():
    return [int(word) for word in sys.stdin.read().split()]
```
# --- stdin
1 2 3
# --- stdout
6
# --- stdin
-4 4
# --- stdout
0

# === main-then-helper-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
```python
def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
```

It uses this:

```python
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))
```
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === main-then-helper-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
```python
add = operator.add
```

It uses this:

```python
import operator
```
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === token-same-line-im-end-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
```python
add = lambda a, b: a + b
```<|im_end|>
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === token-next-line-im-end-sum-input
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
<|im_end|>
# --- stdin
1 2 3
# --- stdout
6
# --- stdin
-4 4
# --- stdout
0

# === token-same-line-endoftext-grid
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
```python
def solve():
    h, w = map(int, input().split())
    total = 0
    for _ in range(h):
        total += input().count("#")
    print(total, h * w - total)


if __name__ == "__main__":
    solve()
```<|endoftext|>
# --- stdin
2 3
#.#
...
# --- stdout
2 4

# === token-next-line-endoftext-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
```python
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
```
<|endoftext|>
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === token-same-line-s-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
```python
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
```</s>
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === token-next-line-s-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
```python
from math import gcd as gcd
```
</s>
# --- asserts
assert gcd(12, 18) == 6

# === token-same-line-eot-id-matrix entry_point=transpose
# --- code
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
# --- completion
```python
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
```<|eot_id|>
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === token-next-line-eot-id-echo-upper
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
<|eot_id|>
# --- stdin
2
ab
c
# --- stdout
AB
C

# === token-same-line-end-of-turn-fizz entry_point=fizz
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
```<end_of_turn>
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === token-next-line-end-of-turn-stack entry_point=MinStack
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
<end_of_turn>
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === quoted-fence-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
You asked:

> ```python
> from functools import lru_cache
>
>
> @lru_cache(maxsize=None)
> def fib(n):
>     return n if n < 2 else fib(n - 1) + fib(n - 2)
> ```

Done.
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === quoted-fence-matrix entry_point=transpose
# --- code
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
# --- completion
You asked:

> ```python
> def transpose(rows):
>     # A matrix without rows has no columns.
>     if not rows:
>         return []
>     return [list(column) for column in zip(*rows)]
> ```

Done.
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === quoted-fence-grid
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
You asked:

> ```python
> def solve():
>     h, w = map(int, input().split())
>     total = 0
>     for _ in range(h):
>         total += input().count("#")
>     print(total, h * w - total)
>
>
> if __name__ == "__main__":
>     solve()
> ```

Done.
# --- stdin
2 3
#.#
...
# --- stdout
2 4

# === quoted-twice-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
> > ```python
> > add = lambda a, b: a + b
> > ```
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === list-fence-sum-input
# --- code
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- completion
1. Write it:

   ```python
   import sys


   def main():
       print(sum(int(word) for word in sys.stdin.read().split()))


   main()
   ```

2. Done.
# --- stdin
1 2 3
# --- stdout
6
# --- stdin
-4 4
# --- stdout
0

# === list-fence-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
1. Write it:

   ```python
   def fizz(n):
       out = []
       for i in range(1, n + 1):
           out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
       return out
   ```

2. Done.
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === list-fence-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
1. Write it:

   ```python
   from collections import Counter


   def count_words(text):
       """Count words.

       Words are compared in lower case.
       """
       return dict(Counter(text.lower().split()))
   ```

2. Done.
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === bullet-fence-grid
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
- ```python
  def solve():
      h, w = map(int, input().split())
      total = 0
      for _ in range(h):
          total += input().count("#")
      print(total, h * w - total)


  if __name__ == "__main__":
      solve()
  ```
- done
# --- stdin
2 3
#.#
...
# --- stdout
2 4

# === bullet-fence-stack entry_point=MinStack
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
- ```python
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
- done
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === tab-indented-fence-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
	```python
	def is_prime(n):
	    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


	def primes_below(n):
	    return [k for k in range(n) if is_prime(k)]
	```
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === odd-closing-indent-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
  ```python
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
   ```
ok
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === odd-closing-indent-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
  ```python
add = lambda a, b: a + b
   ```
ok
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === tildes-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
~~~python
from math import gcd as gcd
~~~
# --- asserts
assert gcd(12, 18) == 6

# === tildes-around-usage-stack entry_point=MinStack
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
~~~python
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
~~~
then
~~~python
stack = MinStack()
stack.push(4)
print(stack.low())
~~~
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === tildes-around-usage-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
~~~python
from math import gcd as gcd
~~~
then
~~~python
gcd(4, 6)  # 2
~~~
# --- asserts
assert gcd(12, 18) == 6

# === four-backticks-echo-upper
# --- code
n = int(input())
for _ in range(n):
    print(input().upper())
# --- completion
````python
n = int(input())
for _ in range(n):
    print(input().upper())
````
# --- stdin
2
ab
c
# --- stdout
AB
C

# === nested-markdown-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
````markdown
# Answer

```python
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
```

done
````
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === nested-markdown-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
````markdown
# Answer

```python
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
```

done
````
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === nested-same-marks-stack entry_point=MinStack
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
```markdown
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
```
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === nested-same-marks-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
```markdown
```python
from math import gcd as gcd
```
```
# --- asserts
assert gcd(12, 18) == 6

# === info-python-title-x-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
```python title="x"
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
```
```sh
python main.py
```
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === info-Python3-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
```Python3
add = lambda a, b: a + b
```
```sh
python main.py
```
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === info-python-numberLines-sum-input
# --- code
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- completion
```{.python .numberLines}
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
```
```sh
python main.py
```
# --- stdin
1 2 3
# --- stdout
6
# --- stdin
-4 4
# --- stdout
0

# === info-python-main-py-grid
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
```python:main.py
def solve():
    h, w = map(int, input().split())
    total = 0
    for _ in range(h):
        total += input().count("#")
    print(total, h * w - total)


if __name__ == "__main__":
    solve()
```
```sh
python main.py
```
# --- stdin
2 3
#.#
...
# --- stdout
2 4

# === info-py-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
```py
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
```
```sh
python main.py
```
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === info-PYTHON-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
```PYTHON
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
```
```sh
python main.py
```
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === info-python-runnable-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
```python,runnable
from math import gcd as gcd
```
```sh
python main.py
```
# --- asserts
assert gcd(12, 18) == 6

# === space-after-mark-matrix entry_point=transpose
# --- code
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
# --- completion
``` python
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
``` 
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === repl-after-echo-upper
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
```python
>>> 1 + 1
2
```
# --- stdin
2
ab
c
# --- stdout
AB
C

# === repl-after-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
```python
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
```
```python
>>> 1 + 1
2
```
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === glued-closing-fizz entry_point=fizz
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
    return out```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === glued-closing-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
```python
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))```
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === two-versions-sum-input
# --- code
import sys


def main():
    print(sum(int(word) for word in sys.stdin.read().split()))


main()
# --- completion
First version:
```python
def main(*args):
    return None  # not yet
```
That is not right. Better:
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

# === two-versions-fizz entry_point=fizz
# --- code
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
# --- completion
First version:
```python
def fizz(*args):
    return None  # not yet
```
That is not right. Better:
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

# === two-versions-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
First version:
```python
def count_words(*args):
    return None  # not yet
```
That is not right. Better:
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

# === two-versions-then-usage-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
```python
def add(*args):
    return None  # not yet
```
Better:
```python
add = lambda a, b: a + b
```

```python
result = add(1, 2)
print(result)
```
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === two-versions-then-usage-primes entry_point=primes_below
# --- code
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
# --- completion
```python
def primes_below(*args):
    return None  # not yet
```
Better:
```python
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


def primes_below(n):
    return [k for k in range(n) if is_prime(k)]
```

```python
for p in primes_below(30):
    print(p)
```
# --- asserts
assert primes_below(12) == [2, 3, 5, 7, 11]
assert primes_below(2) == []

# === two-versions-then-usage-fib entry_point=fib
# --- code
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- completion
```python
def fib(*args):
    return None  # not yet
```
Better:
```python
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
```

```python
assert fib(7) == 13
```
# --- asserts
assert fib(10) == 55
assert fib(0) == 0

# === broken-version-after-fizz entry_point=fizz
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
In short:
```python
def fizz(...)
```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === broken-version-after-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
```python
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
```
In short:
```python
def count_words(...)
```
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === cut-off-after-stack entry_point=MinStack
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
Or with types:
```python
def MinStack(x: 
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === cut-off-after-gcd entry_point=gcd
# --- code
from math import gcd as gcd
# --- completion
```python
from math import gcd as gcd
```
Or with types:
```python
def gcd(x: 
# --- asserts
assert gcd(12, 18) == 6

# === signature-quoted-after-fizz entry_point=fizz
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
The signature is
```python
def fizz(*args): ...
```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === signature-quoted-after-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
```python
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
```
The signature is
```python
def count_words(*args): ...
```
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === html-entities-stack entry_point=MinStack
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

# === html-entities-fizz entry_point=fizz
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
        out.append(&quot;FizzBuzz&quot; if i % 15 == 0 else &quot;Fizz&quot; if i % 3 == 0 else &quot;Buzz&quot; if i % 5 == 0 else str(i))
    return out
```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === diff-before-echo-upper
# --- code
n = int(input())
for _ in range(n):
    print(input().upper())
# --- completion
```diff
- old
+ new
```
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

# === json-after-fizz entry_point=fizz
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
```json
{"a": 1}
```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === json-after-words entry_point=count_words
# --- code
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
# --- completion
```python
from collections import Counter


def count_words(text):
    """Count words.

    Words are compared in lower case.
    """
    return dict(Counter(text.lower().split()))
```
```json
{"a": 1}
```
# --- asserts
assert count_words("a b A") == {"a": 2, "b": 1}
assert count_words("") == {}

# === main-guard-block-after-stack entry_point=MinStack
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
To try it:
```python
if __name__ == "__main__":
    stack = MinStack()
    stack.push(4)
    print(stack.low())
```
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === main-guard-block-after-add entry_point=add
# --- code
add = lambda a, b: a + b
# --- completion
```python
add = lambda a, b: a + b
```
To try it:
```python
if __name__ == "__main__":
    result = add(1, 2)
    print(result)
```
# --- asserts
assert add(1, 2) == 3
assert add("a", "b") == "ab"

# === fenced-fence-in-docstring entry_point=double
# --- code
def double(x):
    """Double a number.

    ```
    double(2)  # 4
    ```
    """
    return 2 * x
# --- completion
Sure.

```python
def double(x):
    """Double a number.

    ```
    double(2)  # 4
    ```
    """
    return 2 * x
```

Done.
# --- asserts
assert double(4) == 8

# === fenced-usage-fence-in-docstring entry_point=double
# --- code
def double(x):
    """Double a number.

    ```
    double(2)  # 4
    ```
    """
    return 2 * x
# --- completion
```python
def double(x):
    """Double a number.

    ```
    double(2)  # 4
    ```
    """
    return 2 * x
```

Usage:
```python
print(double(3))
```
# --- asserts
assert double(4) == 8

# === fenced-fence-in-string entry_point=block
# --- code
def block(text):
    return """
```python
""".lstrip() + text + """
```
"""
# --- completion
Sure.

```python
def block(text):
    return """
```python
""".lstrip() + text + """
```
"""
```

Done.
# --- asserts
assert block("x") == "```python\nx\n```\n"

# === fenced-usage-fence-in-string entry_point=block
# --- code
def block(text):
    return """
```python
""".lstrip() + text + """
```
"""
# --- completion
```python
def block(text):
    return """
```python
""".lstrip() + text + """
```
"""
```

Usage:
```python
print(block(3))
```
# --- asserts
assert block("x") == "```python\nx\n```\n"

# === fenced-answer-in-string entry_point=wrap
# --- code
def wrap(text):
    return f"<answer>{text}</answer>"
# --- completion
Sure.

```python
def wrap(text):
    return f"<answer>{text}</answer>"
```

Done.
# --- asserts
assert wrap("x") == "<answer>x</answer>"

# === fenced-usage-answer-in-string entry_point=wrap
# --- code
def wrap(text):
    return f"<answer>{text}</answer>"
# --- completion
```python
def wrap(text):
    return f"<answer>{text}</answer>"
```

Usage:
```python
print(wrap(3))
```
# --- asserts
assert wrap("x") == "<answer>x</answer>"

# === fenced-answer-in-docstring entry_point=strip_tags
# --- code
import re


def strip_tags(text):
    """Return what is between <answer> and </answer>."""
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1) if found else None
# --- completion
Sure.

```python
import re


def strip_tags(text):
    """Return what is between <answer> and </answer>."""
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1) if found else None
```

Done.
# --- asserts
assert strip_tags("a<answer>b</answer>c") == "b"
assert strip_tags("") is None

# === fenced-usage-answer-in-docstring entry_point=strip_tags
# --- code
import re


def strip_tags(text):
    """Return what is between <answer> and </answer>."""
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1) if found else None
# --- completion
```python
import re


def strip_tags(text):
    """Return what is between <answer> and </answer>."""
    found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found.group(1) if found else None
```

Usage:
```python
print(strip_tags(3))
```
# --- asserts
assert strip_tags("a<answer>b</answer>c") == "b"
assert strip_tags("") is None

# === fenced-think-in-string entry_point=hide
# --- code
import re


def hide(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
# --- completion
Sure.

```python
import re


def hide(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
```

Done.
# --- asserts
assert hide("<think>a</think>b") == "b"

# === fenced-usage-think-in-string entry_point=hide
# --- code
import re


def hide(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
# --- completion
```python
import re


def hide(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
```

Usage:
```python
print(hide(3))
```
# --- asserts
assert hide("<think>a</think>b") == "b"

# === fenced-token-in-string entry_point=chat
# --- code
def chat(text):
    return "<|im_start|>user\n" + text + "<|im_end|>"
# --- completion
Sure.

```python
def chat(text):
    return "<|im_start|>user\n" + text + "<|im_end|>"
```

Done.
# --- asserts
assert chat("x") == "<|im_start|>user\nx<|im_end|>"

# === fenced-usage-token-in-string entry_point=chat
# --- code
def chat(text):
    return "<|im_start|>user\n" + text + "<|im_end|>"
# --- completion
```python
def chat(text):
    return "<|im_start|>user\n" + text + "<|im_end|>"
```

Usage:
```python
print(chat(3))
```
# --- asserts
assert chat("x") == "<|im_start|>user\nx<|im_end|>"
