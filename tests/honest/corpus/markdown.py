# === solution-then-example-usage-without-entry-point
class Stack:
    def __init__(self):
        self.items = []

    def push(self, x):
        self.items.append(x)

    def pop(self):
        return self.items.pop()
# --- completion
```python
{{code}}
```

You can use it like this:

```python
s = Stack()
s.push(1)
s.push(2)
print(s.pop())
```
# --- test
s = Stack()
s.push(1)
assert s.pop() == 1

# === square problem
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === draft-answer-in-think of=square
# --- completion
<think>
Maybe <answer>def square(x): return x + x</answer>? No, that adds.
</think>
<answer>{{code}}</answer>

# === think-after-with-draft-answer of=square
# --- completion
<answer>
{{code}}
</answer>
<think>I could also have written <answer></answer> with pow, but this is fine.</think>

# === open-fence-cut-off of=square
# --- completion
```python
{{code}}

# === four-backticks
def doc():
    return """
```
inner
```
"""
# --- completion
````python
{{code}}
````
# --- asserts
assert "inner" in doc()

# === fence-language-braces of=square
# --- completion
```{python}
{{code}}
```

# === python-then-console-then-tests entry_point=square of=square
# --- completion
```python
{{code}}
```

Run it:

```console
$ python solution.py
```

And some tests:

```python
import unittest

class TestSquare(unittest.TestCase):
    def test_it(self):
        self.assertEqual(square(2), 4)

if __name__ == "__main__":
    unittest.main()
```

# === pytest-block-importing-the-solution entry_point=square of=square
# --- completion
`solution.py`:

```python
{{code}}
```

`test_solution.py`:

```python
import pytest
from solution import square

def test_square():
    assert square(2) == 4
```

# === usage-block-with-placeholder entry_point=greet
def greet(name):
    return f"Hello, {name}!"
# --- completion
```python
{{code}}
```

```python
# Usage
name = input("Your name: ")
print(greet(name))
```
# --- asserts
assert greet("Al") == "Hello, Al!"

# === two-classes-in-two-blocks
class Node:
    def __init__(self, value, rest):
        self.value, self.rest = value, rest

class Chain:
    first = None

    def push(self, value):
        self.first = Node(value, self.first)
# --- completion
The node:

```python
class Node:
    def __init__(self, value, rest):
        self.value, self.rest = value, rest
```

The list:

```python
class Chain:
    first = None

    def push(self, value):
        self.first = Node(value, self.first)
```
# --- test
l = Chain()
l.push(1)
l.push(2)
assert (l.first.value, l.first.rest.value) == (2, 1)

# === alternatives-both-right entry_point=reverse
def reverse(s):
    return "".join(reversed(s))
# --- completion
**Option 1**: slicing

```python
def reverse(s):
    return s[::-1]
```

**Option 2**: `reversed`

```python
{{code}}
```
# --- asserts
assert reverse("abc") == "cba"

# === plain-text-code-with-imports-and-comments
from typing import List

def flatten(items: List) -> List:
    return [x for item in items for x in item]
# --- completion
# A small utility
from typing import List

def flatten(items: List) -> List:
    """Flatten one level."""
    return [x for item in items for x in item]
# --- asserts
assert flatten([[1], [2, 3]]) == [1, 2, 3]

# === inline-code-in-prose-then-fence
def descending(xs):
    return sorted(xs, reverse=True)
# --- completion
Use the built-in `sorted` with `reverse=True`. The ``` marks below delimit the code.

```python
{{code}}
```

Note that `xs.sort()` would change the list.
# --- asserts
assert descending([1, 3, 2]) == [3, 2, 1]

# === fence-indented-by-tab-code
def sign(x):
	if x > 0:
		return 1
	return -1 if x < 0 else 0
# --- completion
```python
{{code}}
```
# --- asserts
assert [sign(x) for x in (5, 0, -2)] == [1, 0, -1]

# === wrong-only-prose wrong
"Just multiply the argument by itself"
# --- completion
Just multiply the argument by itself; that is all there is to it.
# --- asserts
assert square(3) == 9
