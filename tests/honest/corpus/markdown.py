# === fence-then-explanation
# --- completion
Sure! Here is a function that doubles a number:

```python
def double(n):
    return n * 2
```

This multiplies the argument by two. **Complexity:** O(1).
# --- code
def double(n):
    return n * 2
# --- asserts
assert double(2) == 4

# === solution-then-example-usage entry_point=double
# --- completion
Here is the solution:

```python
def double(n):
    return n * 2
```

Example usage:

```python
print(double(2))  # 4
print(double(5))  # 10
```
# --- code
def double(n):
    return n * 2
# --- asserts
assert double(2) == 4

# === solution-then-example-usage-without-entry-point
# --- completion
```python
class Stack:
    def __init__(self):
        self.items = []

    def push(self, x):
        self.items.append(x)

    def pop(self):
        return self.items.pop()
```

You can use it like this:

```python
s = Stack()
s.push(1)
s.push(2)
print(s.pop())
```
# --- code
class Stack:
    def __init__(self):
        self.items = []

    def push(self, x):
        self.items.append(x)

    def pop(self):
        return self.items.pop()
# --- test
s = Stack()
s.push(1)
assert s.pop() == 1

# === helper-block-and-main-block entry_point=is_happy
# --- completion
First, a helper:

```python
def digit_squares(n):
    return sum(int(d) ** 2 for d in str(n))
```

Now the main function that uses it:

```python
def is_happy(n):
    seen = set()
    while n != 1 and n not in seen:
        seen.add(n)
        n = digit_squares(n)
    return n == 1
```
# --- code
def digit_squares(n):
    return sum(int(d) ** 2 for d in str(n))

def is_happy(n):
    seen = set()
    while n != 1 and n not in seen:
        seen.add(n)
        n = digit_squares(n)
    return n == 1
# --- asserts
assert is_happy(19) is True
assert is_happy(2) is False

# === imports-in-a-block-of-their-own entry_point=mean
# --- completion
We need one import:

```python
import statistics
```

and then:

```python
def mean(xs):
    return statistics.mean(xs)
```
# --- code
import statistics

def mean(xs):
    return statistics.mean(xs)
# --- asserts
assert mean([1, 2, 3]) == 2

# === draft-then-final entry_point=add
# --- completion
A first attempt:

```python
def add(a, b):
    return a - b
```

Wait, that subtracts. The corrected version:

```python
def add(a, b):
    return a + b
```
# --- code
def add(a, b):
    return a + b
# --- asserts
assert add(1, 2) == 3

# === wrong-final-after-right-draft wrong entry_point=add
# --- completion
```python
def add(a, b):
    return a + b
```

On second thought this is better:

```python
def add(a, b):
    return a * b
```
# --- code
def add(a, b):
    return a * b
# --- asserts
assert add(1, 2) == 3

# === answer-tags
# --- completion
<think>The function must square.</think>
<answer>
def square(x):
    return x * x
</answer>
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === answer-with-fence
# --- completion
<answer>
```python
def square(x):
    return x * x
```
</answer>
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === answer-then-prose-naming-the-tag
# --- completion
<answer>
def square(x):
    return x * x
</answer>

I put the code into an `<answer>` block as you asked. The <answer> above is complete.
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === prose-naming-the-tag-before
# --- completion
The solution goes into <answer> and </answer> tags, so:

<answer>
def square(x):
    return x * x
</answer>
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === empty-answer-in-think
# --- completion
<think>
The format is <answer></answer>. I write a function.
</think>

```python
def square(x):
    return x * x
```
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === draft-answer-in-think
# --- completion
<think>
Maybe <answer>def square(x): return x + x</answer>? No, that adds.
</think>
<answer>def square(x): return x * x</answer>
# --- code
def square(x): return x * x
# --- asserts
assert square(3) == 9

# === draft-fence-in-think
# --- completion
<think>
```python
def square(x):
    return x + x
```
wrong.
</think>

```python
def square(x):
    return x * x
```
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === think-after-with-draft-answer
# --- completion
<answer>
def square(x):
    return x * x
</answer>
<think>I could also have written <answer></answer> with pow, but this is fine.</think>
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === closing-fence-with-end-of-text-token
# --- completion
```python
def square(x):
    return x * x
```<|endoftext|>
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === closing-fence-with-im-end
# --- completion
Here you go:
```python
def square(x):
    return x * x
```<|im_end|>
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === closing-fence-with-eos-tag
# --- completion
```python
def square(x):
    return x * x
```</s>
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === open-fence-cut-off
# --- completion
```python
def square(x):
    return x * x
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === upper-case-tags
# --- completion
<ANSWER>
def square(x):
    return x * x
</ANSWER>
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === tag-with-attributes
# --- completion
<answer lang="python" id="1">
def square(x):
    return x * x
</answer>
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === code-tag
# --- completion
<code>
def square(x):
    return x * x
</code>
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === docstring-with-a-fence
# --- completion
```python
def fence(code):
    """Wrap code in a fence.

    Example:

    ```
    fence("x")
    ```
    """
    return "```\n" + code + "\n```"
```
# --- code
def fence(code):
    """Wrap code in a fence.

    Example:

    ```
    fence("x")
    ```
    """
    return "```\n" + code + "\n```"
# --- asserts
assert fence("x") == "```\nx\n```"

# === string-with-an-answer-tag
# --- completion
<answer>
def wrap(text):
    return "<answer>" + text + "</answer>"
</answer>
# --- code
def wrap(text):
    return "<answer>" + text + "</answer>"
# --- asserts
assert wrap("x") == "<answer>x</answer>"

# === fenced-code-with-answer-tag-in-string
# --- completion
```python
def parse(text):
    start = text.find("<answer>") + len("<answer>")
    return text[start:text.find("</answer>")]
```
# --- code
def parse(text):
    start = text.find("<answer>") + len("<answer>")
    return text[start:text.find("</answer>")]
# --- asserts
assert parse("a <answer>b</answer> c") == "b"

# === multi-line-string-with-fences
# --- completion
```python
TEMPLATE = """
```python
{code}
```
"""

def render(code):
    return TEMPLATE.format(code=code).strip()
```
# --- code
TEMPLATE = """
```python
{code}
```
"""

def render(code):
    return TEMPLATE.format(code=code).strip()
# --- asserts
assert render("x") == "```python\nx\n```"

# === fence-in-a-quote
# --- completion
> Here is the code:
>
> ```python
> def square(x):
>     return x * x
> ```
>
> That's it.
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === fence-in-a-list-item
# --- completion
1. Write the function:

   ```python
   def square(x):
       return x * x
   ```

2. Test it:

   ```bash
   python -c "print(1)"
   ```
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === tilde-fence
# --- completion
~~~python
def square(x):
    return x * x
~~~
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === four-backticks
# --- completion
````python
def doc():
    return """
```
inner
```
"""
````
# --- code
def doc():
    return """
```
inner
```
"""
# --- asserts
assert "inner" in doc()

# === fence-without-language-and-output-block
# --- completion
```
def square(x):
    return x * x

print(square(3))
```

Output:

```
9
```
# --- code
def square(x):
    return x * x

print(square(3))
# --- asserts
assert square(3) == 9

# === fence-language-with-attributes
# --- completion
```python title="solution.py" linenums="1"
def square(x):
    return x * x
```
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === fence-language-braces
# --- completion
```{python}
def square(x):
    return x * x
```
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === python-then-console-then-tests entry_point=square
# --- completion
```python
def square(x):
    return x * x
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
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === pytest-block-importing-the-solution entry_point=square
# --- completion
`solution.py`:

```python
def square(x):
    return x * x
```

`test_solution.py`:

```python
import pytest
from solution import square

def test_square():
    assert square(2) == 4
```
# --- code
def square(x):
    return x * x
# --- asserts
assert square(3) == 9

# === usage-block-with-placeholder entry_point=greet
# --- completion
```python
def greet(name):
    return f"Hello, {name}!"
```

```python
# Usage
name = input("Your name: ")
print(greet(name))
```
# --- code
def greet(name):
    return f"Hello, {name}!"
# --- asserts
assert greet("Al") == "Hello, Al!"

# === usage-block-not-python entry_point=greet
# --- completion
```python
def greet(name):
    return f"Hello, {name}!"
```

```python
>>> greet("Bo")
'Hello, Bo!'
```
# --- code
def greet(name):
    return f"Hello, {name}!"
# --- asserts
assert greet("Al") == "Hello, Al!"

# === two-classes-in-two-blocks
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
# --- test
l = LinkedList()
l.push(1)
l.push(2)
assert l.values() == [2, 1]

# === alternatives-both-right entry_point=reverse
# --- completion
**Option 1**: slicing

```python
def reverse(s):
    return s[::-1]
```

**Option 2**: `reversed`

```python
def reverse(s):
    return "".join(reversed(s))
```
# --- code
def reverse(s):
    return "".join(reversed(s))
# --- asserts
assert reverse("abc") == "cba"

# === plain-text-that-is-code
# --- completion
def square(x):
    return x * x


print(square(4))
# --- code
def square(x):
    return x * x


print(square(4))
# --- asserts
assert square(3) == 9

# === plain-text-code-with-imports-and-comments
# --- completion
# A small utility
from typing import List

def flatten(items: List) -> List:
    """Flatten one level."""
    return [x for item in items for x in item]
# --- code
from typing import List

def flatten(items: List) -> List:
    return [x for item in items for x in item]
# --- asserts
assert flatten([[1], [2, 3]]) == [1, 2, 3]

# === inline-code-in-prose-then-fence
# --- completion
Use the built-in `sorted` with `reverse=True`. The ``` marks below delimit the code.

```python
def descending(xs):
    return sorted(xs, reverse=True)
```

Note that `xs.sort()` would change the list.
# --- code
def descending(xs):
    return sorted(xs, reverse=True)
# --- asserts
assert descending([1, 3, 2]) == [3, 2, 1]

# === answer-alias-import entry_point=root
# --- completion
```python
from math import isqrt as root
```
# --- code
from math import isqrt as root
# --- asserts
assert root(17) == 4

# === answer-lambda entry_point=square
# --- completion
```python
square = lambda x: x ** 2
```

For example:

```python
print(square(12))
```
# --- code
square = lambda x: x ** 2
# --- asserts
assert square(3) == 9

# === fence-indented-by-tab-code
# --- completion
```python
def sign(x):
	if x > 0:
		return 1
	return -1 if x < 0 else 0
```
# --- code
def sign(x):
	if x > 0:
		return 1
	return -1 if x < 0 else 0
# --- asserts
assert [sign(x) for x in (5, 0, -2)] == [1, 0, -1]

# === program-in-markdown
# --- completion
Read the number and print its square:

```python
n = int(input())
print(n * n)
```

For input `3` it prints:

```
9
```
# --- code
n = int(input())
print(n * n)
# --- stdin
3
# --- stdout
9

# === program-with-sample-blocks-in-python-fences
# --- completion
```python
import sys

def main():
    n = int(sys.stdin.readline())
    print(n + 1)

if __name__ == "__main__":
    main()
```
Sample:
```text
3
```
# --- code
import sys

def main():
    n = int(sys.stdin.readline())
    print(n + 1)

if __name__ == "__main__":
    main()
# --- stdin
3
# --- stdout
4

# === wrong-only-prose wrong
# --- completion
Just multiply the argument by itself; that is all there is to it.
# --- code
"Just multiply the argument by itself"
# --- asserts
assert square(3) == 9

# === wrong-answer-tag-wins-over-fence wrong
# --- completion
```python
def square(x):
    return x * x
```

<answer>
def square(x):
    return x + x
</answer>
# --- code
def square(x):
    return x + x
# --- asserts
assert square(3) == 9
