# Completions with a right solution where no answer is: it must not be found.

# === wrong-right-draft-in-think-fizz entry_point=fizz wrong
# --- code
def fizz(*args):
    return None  # not yet
# --- completion
<think>
```python
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
```
</think>
```python
def fizz(*args):
    return None  # not yet
```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === wrong-right-draft-in-think-matrix entry_point=transpose wrong
# --- code
def transpose(*args):
    return None  # not yet
# --- completion
<think>
```python
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
```
</think>
```python
def transpose(*args):
    return None  # not yet
```
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === wrong-right-draft-in-think-stack entry_point=MinStack wrong
# --- code
def MinStack(*args):
    return None  # not yet
# --- completion
<think>
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
</think>
```python
def MinStack(*args):
    return None  # not yet
```
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === wrong-right-draft-in-think-wrong-answer-fizz entry_point=fizz wrong
# --- code
def fizz(*args):
    return None  # not yet
# --- completion
<think><answer>def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out</answer></think>
<answer>
def fizz(*args):
    return None  # not yet
</answer>
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === wrong-right-draft-in-think-wrong-answer-matrix entry_point=transpose wrong
# --- code
def transpose(*args):
    return None  # not yet
# --- completion
<think><answer>def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]</answer></think>
<answer>
def transpose(*args):
    return None  # not yet
</answer>
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === wrong-right-draft-in-think-wrong-answer-stack entry_point=MinStack wrong
# --- code
def MinStack(*args):
    return None  # not yet
# --- completion
<think><answer>class MinStack:
    def __init__(self):
        self._items = []

    def push(self, x):
        low = min(x, self._items[-1][1]) if self._items else x
        self._items.append((x, low))

    def pop(self):
        return self._items.pop()[0]

    def low(self):
        return self._items[-1][1]</answer></think>
<answer>
def MinStack(*args):
    return None  # not yet
</answer>
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === wrong-right-draft-no-opening-fizz entry_point=fizz wrong
# --- code
def fizz(*args):
    return None  # not yet
# --- completion
```python
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
```
hm
</think>
```python
def fizz(*args):
    return None  # not yet
```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === wrong-right-draft-no-opening-matrix entry_point=transpose wrong
# --- code
def transpose(*args):
    return None  # not yet
# --- completion
```python
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
```
hm
</think>
```python
def transpose(*args):
    return None  # not yet
```
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === wrong-right-draft-no-opening-stack entry_point=MinStack wrong
# --- code
def MinStack(*args):
    return None  # not yet
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
hm
</think>
```python
def MinStack(*args):
    return None  # not yet
```
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === wrong-right-then-wrong-version-fizz entry_point=fizz wrong
# --- code
def fizz(*args):
    return None  # not yet
# --- completion
```python
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
```
I changed my mind:
```python
def fizz(*args):
    return None  # not yet
```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === wrong-right-then-wrong-version-matrix entry_point=transpose wrong
# --- code
def transpose(*args):
    return None  # not yet
# --- completion
```python
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
```
I changed my mind:
```python
def transpose(*args):
    return None  # not yet
```
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === wrong-right-then-wrong-version-stack entry_point=MinStack wrong
# --- code
def MinStack(*args):
    return None  # not yet
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
I changed my mind:
```python
def MinStack(*args):
    return None  # not yet
```
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === wrong-right-then-wrong-answer-fizz entry_point=fizz wrong
# --- code
def fizz(*args):
    return None  # not yet
# --- completion
<answer>def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out</answer>
No:
<answer>
def fizz(*args):
    return None  # not yet
</answer>
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === wrong-right-then-wrong-answer-matrix entry_point=transpose wrong
# --- code
def transpose(*args):
    return None  # not yet
# --- completion
<answer>def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]</answer>
No:
<answer>
def transpose(*args):
    return None  # not yet
</answer>
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === wrong-right-then-wrong-answer-stack entry_point=MinStack wrong
# --- code
def MinStack(*args):
    return None  # not yet
# --- completion
<answer>class MinStack:
    def __init__(self):
        self._items = []

    def push(self, x):
        low = min(x, self._items[-1][1]) if self._items else x
        self._items.append((x, low))

    def pop(self):
        return self._items.pop()[0]

    def low(self):
        return self._items[-1][1]</answer>
No:
<answer>
def MinStack(*args):
    return None  # not yet
</answer>
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === wrong-right-fence-then-wrong-answer-fizz entry_point=fizz wrong
# --- code
def fizz(*args):
    return None  # not yet
# --- completion
```python
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
```
<answer>
def fizz(*args):
    return None  # not yet
</answer>
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === wrong-right-fence-then-wrong-answer-matrix entry_point=transpose wrong
# --- code
def transpose(*args):
    return None  # not yet
# --- completion
```python
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
```
<answer>
def transpose(*args):
    return None  # not yet
</answer>
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === wrong-right-fence-then-wrong-answer-stack entry_point=MinStack wrong
# --- code
def MinStack(*args):
    return None  # not yet
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
<answer>
def MinStack(*args):
    return None  # not yet
</answer>
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === wrong-right-fence-then-answer-of-another-name-fizz entry_point=fizz wrong
# --- code
def fizz(*args):
    return None  # not yet
# --- completion
```python
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
```
<answer>
def something_else():
    return 1
</answer>
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === wrong-right-fence-then-answer-of-another-name-matrix entry_point=transpose wrong
# --- code
def transpose(*args):
    return None  # not yet
# --- completion
```python
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
```
<answer>
def something_else():
    return 1
</answer>
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === wrong-right-fence-then-answer-of-another-name-stack entry_point=MinStack wrong
# --- code
def MinStack(*args):
    return None  # not yet
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
<answer>
def something_else():
    return 1
</answer>
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2

# === wrong-right-in-text-block-fizz entry_point=fizz wrong
# --- code
def fizz(*args):
    return None  # not yet
# --- completion
```python
def fizz(*args):
    return None  # not yet
```
```text
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === wrong-right-in-text-block-matrix entry_point=transpose wrong
# --- code
def transpose(*args):
    return None  # not yet
# --- completion
```python
def transpose(*args):
    return None  # not yet
```
```text
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
```
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === wrong-right-in-text-block-stack entry_point=MinStack wrong
# --- code
def MinStack(*args):
    return None  # not yet
# --- completion
```python
def MinStack(*args):
    return None  # not yet
```
```text
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

# === wrong-right-quoted-in-string-fizz entry_point=fizz wrong
# --- code
def fizz(*args):
    return None  # not yet
# --- completion
```python
TEXT = '''
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
    return out
'''

def fizz(*args):
    return None  # not yet
```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === wrong-right-quoted-in-string-matrix entry_point=transpose wrong
# --- code
def transpose(*args):
    return None  # not yet
# --- completion
```python
TEXT = '''
def transpose(rows):
    # A matrix without rows has no columns.
    if not rows:
        return []
    return [list(column) for column in zip(*rows)]
'''

def transpose(*args):
    return None  # not yet
```
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === wrong-right-in-comment-fizz entry_point=fizz wrong
# --- code
def fizz(*args):
    return None  # not yet
# --- completion
```python
# def fizz(n):
#     out = []
#     for i in range(1, n + 1):
#         out.append("FizzBuzz" if i % 15 == 0 else "Fizz" if i % 3 == 0 else "Buzz" if i % 5 == 0 else str(i))
#     return out
def fizz(*args):
    return None  # not yet
```
# --- asserts
assert fizz(5) == ["1", "2", "Fizz", "4", "Buzz"]
assert fizz(0) == []

# === wrong-right-in-comment-matrix entry_point=transpose wrong
# --- code
def transpose(*args):
    return None  # not yet
# --- completion
```python
# def transpose(rows):
#     # A matrix without rows has no columns.
#     if not rows:
#         return []
#     return [list(column) for column in zip(*rows)]
def transpose(*args):
    return None  # not yet
```
# --- asserts
assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
assert transpose([]) == []

# === wrong-right-in-comment-stack entry_point=MinStack wrong
# --- code
def MinStack(*args):
    return None  # not yet
# --- completion
```python
# class MinStack:
#     def __init__(self):
#         self._items = []
# 
#     def push(self, x):
#         low = min(x, self._items[-1][1]) if self._items else x
#         self._items.append((x, low))
# 
#     def pop(self):
#         return self._items.pop()[0]
# 
#     def low(self):
#         return self._items[-1][1]
def MinStack(*args):
    return None  # not yet
```
# --- asserts
s = MinStack(); s.push(3); s.push(1); s.push(2); assert s.low() == 1 and s.pop() == 2
