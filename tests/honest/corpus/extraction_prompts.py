# Completions of prompts that are code, as HumanEval has them: bodies with and without their indentation.

# === humaneval-body-below-zero entry_point=below_zero
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
# --- completion
    balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-body-lost-indent-below-zero entry_point=below_zero
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
# --- completion
balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-body-fenced-below-zero entry_point=below_zero
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
# --- completion
```python
    balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False
```
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-body-fenced-lost-indent-below-zero entry_point=below_zero
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
# --- completion
```python
balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False
```
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-body-fenced-dedented-below-zero entry_point=below_zero
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
# --- completion
```python
balance = 0
for op in operations:
    balance += op
    if balance < 0:
        return True
return False
```
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-body-in-answer-below-zero entry_point=below_zero
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
# --- completion
<answer>
    balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False
</answer>
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-body-token-below-zero entry_point=below_zero
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
# --- completion
    balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False<|endoftext|>
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-body-comment-first-below-zero entry_point=below_zero
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
# --- completion
    # Think first.
    balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-body-comment-first-lost-below-zero entry_point=below_zero
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
# --- completion
# Think first.
    balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-body-fenced-comment-lost-below-zero entry_point=below_zero
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
# --- completion
```python
# Think first.
    balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False
```
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-body-then-more-below-zero entry_point=below_zero
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
# --- completion
    balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False


def other():
    pass


print(below_zero)
print(
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-full-fenced-below-zero entry_point=below_zero
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
# --- completion
```python
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
```
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-full-usage-below-zero entry_point=below_zero
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
# --- completion
```python
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
```

```python
print(below_zero.__name__)
```
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-full-plain-below-zero entry_point=below_zero
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
# --- completion
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
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-fenced-then-usage-below-zero entry_point=below_zero
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
# --- completion
```python
    balance = 0
    for op in operations:
        balance += op
        if balance < 0:
            return True
    return False
```
Usage:
```python
print(below_zero.__name__)
```
# --- asserts
assert below_zero([1, 2, -4]) is True
assert below_zero([]) is False

# === humaneval-body-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
    return max(xs, default=0)
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-body-lost-indent-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
return max(xs, default=0)
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-body-fenced-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
```python
    return max(xs, default=0)
```
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-body-fenced-lost-indent-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
```python
return max(xs, default=0)
```
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-body-fenced-dedented-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
```python
return max(xs, default=0)
```
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-body-in-answer-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
<answer>
    return max(xs, default=0)
</answer>
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-body-token-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
    return max(xs, default=0)<|endoftext|>
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-body-comment-first-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
    # Think first.
    return max(xs, default=0)
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-body-comment-first-lost-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
# Think first.
    return max(xs, default=0)
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-body-fenced-comment-lost-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
```python
# Think first.
    return max(xs, default=0)
```
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-body-then-more-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
    return max(xs, default=0)


def other():
    pass


print(largest)
print(
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-full-fenced-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
```python
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
```
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-full-usage-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
```python
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
```

```python
print(largest.__name__)
```
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-full-plain-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0

# === humaneval-fenced-then-usage-largest entry_point=largest
# --- prompt
def largest(xs: list) -> int:
    """ The largest, or 0. """
# --- code
def largest(xs: list) -> int:
    """ The largest, or 0. """
    return max(xs, default=0)
# --- completion
```python
    return max(xs, default=0)
```
Usage:
```python
print(largest.__name__)
```
# --- asserts
assert largest([1, 5, 3]) == 5
assert largest([]) == 0
