# === fence-then-explanation
# --- code
def double(n):
    return n * 2
# --- completion
Sure! Here is a function that doubles a number:

```python
{{code}}
```

This multiplies the argument by two. **Complexity:** O(1).
# --- asserts
assert double(2) == 4

# === solution-then-example-usage-without-entry-point
# --- code
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

# === wrong-final-after-right-draft wrong entry_point=add
# --- code
def add(a, b):
    return a * b
# --- completion
```python
def add(a, b):
    return a + b
```

On second thought this is better:

```python
{{code}}
```
# --- asserts
assert add(1, 2) == 3

# === square problem
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === answer-tags of=square
# --- completion
<think>The function must square.</think>
<answer>
{{code}}
</answer>

# === answer-with-fence of=square
# --- completion
<answer>
```python
{{code}}
```
</answer>

# === answer-then-prose-naming-the-tag of=square
# --- completion
<answer>
{{code}}
</answer>

I put the code into an `<answer>` block as you asked. The <answer> above is complete.

# === prose-naming-the-tag-before of=square
# --- completion
The solution goes into <answer> and </answer> tags, so:

<answer>
{{code}}
</answer>

# === empty-answer-in-think of=square
# --- completion
<think>
The format is <answer></answer>. I write a function.
</think>

```python
{{code}}
```

# === draft-answer-in-think
# --- code
def square(x): return x * x
# --- completion
<think>
Maybe <answer>def square(x): return x + x</answer>? No, that adds.
</think>
<answer>{{code}}</answer>
# --- asserts
assert square(3) == 9

# === draft-fence-in-think of=square
# --- completion
<think>
```python
def square(x):
    return x + x
```
wrong.
</think>

```python
{{code}}
```

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

# === upper-case-tags of=square
# --- completion
<ANSWER>
{{code}}
</ANSWER>

# === tag-with-attributes of=square
# --- completion
<answer lang="python" id="1">
{{code}}
</answer>

# === code-tag of=square
# --- completion
<code>
{{code}}
</code>

# === fence-in-a-quote of=square
# --- completion
> Here is the code:
>
> ```python
> {{code}}
> ```
>
> That's it.

# === fence-in-a-list-item of=square
# --- completion
1. Write the function:

   ```python
   {{code}}
   ```

2. Test it:

   ```bash
   python -c "print(1)"
   ```

# === four-backticks
# --- code
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

# === fence-language-with-attributes of=square
# --- completion
```python title="solution.py" linenums="1"
{{code}}
```

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
# --- code
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

# === usage-block-not-python entry_point=greet
# --- code
def greet(name):
    return f"Hello, {name}!"
# --- completion
```python
{{code}}
```

```python
>>> greet("Bo")
'Hello, Bo!'
```
# --- asserts
assert greet("Al") == "Hello, Al!"

# === two-classes-in-two-blocks
# --- code
class Node:
    def __init__(self, value):
        self.value = value
        self.next = None

class LinkedList:
    def __init__(self):
        self.head = None

    def push(self, value):
        node = Node(value)
        node.next, self.head = self.head, node

    def values(self):
        out, node = [], self.head
        while node:
            out.append(node.value)
            node = node.next
        return out
# --- completion
The node:

```python
class Node:
    def __init__(self, value):
        self.value = value
        self.next = None
```

The list:

```python
class LinkedList:
    def __init__(self):
        self.head = None

    def push(self, value):
        node = Node(value)
        node.next, self.head = self.head, node

    def values(self):
        out, node = [], self.head
        while node:
            out.append(node.value)
            node = node.next
        return out
```
# --- test
l = LinkedList()
l.push(1)
l.push(2)
assert l.values() == [2, 1]

# === alternatives-both-right entry_point=reverse
# --- code
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

# === plain-text-that-is-code
# --- code
def square(x):
    return x * x


print(square(4))
# --- completion
{{code}}
# --- asserts
assert square(3) == 9

# === plain-text-code-with-imports-and-comments
# --- code
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
# --- code
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
# --- code
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

# === program-with-sample-blocks-in-python-fences
# --- code
import sys

def main():
    n = int(sys.stdin.readline())
    print(n + 1)

if __name__ == "__main__":
    main()
# --- completion
```python
{{code}}
```
Sample:
```text
3
```
# --- stdin
3
# --- stdout
4

# === wrong-only-prose wrong
# --- code
"Just multiply the argument by itself"
# --- completion
Just multiply the argument by itself; that is all there is to it.
# --- asserts
assert square(3) == 9

# === wrong-answer-tag-wins-over-fence wrong
# --- code
def square(x):
    return x + x
# --- completion
```python
def square(x):
    return x * x
```

<answer>
{{code}}
</answer>
# --- asserts
assert square(3) == 9
