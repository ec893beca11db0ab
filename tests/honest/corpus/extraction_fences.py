# Completions whose code is not in a fence that begins its line, or not in a block that the completion begins: words and tokens
# before fences, prompts that end with an opening fence, channels, and turns that follow.

# === words-before-fence
# --- code
n = int(input())
print(n * 2)
# --- completion
Answer: ```python
n = int(input())
print(n * 2)
```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === draft-then-words-before-fence entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
First try:
```python
def double(n):
    twice = n * 3
    return twice
```
That is wrong. Final answer: ```python
def double(n):
    twice = n * 2
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-draft-then-words-before-fence wrong
# --- code
n = int(input())
print(n * 3)
# --- completion
First try:
```python
n = int(input())
print(n * 2)
```
That is wrong. Final answer: ```python
n = int(input())
print(n * 3)
```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === draft-glued-then-words-before-fence
# --- code
n = int(input())
print(n * 2)
# --- completion
First try: ```python
n = int(input())
print(n * 3)```
That is wrong. Final answer: ```python
n = int(input())
print(n * 2)```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === wrong-draft-glued-then-words-before-fence entry_point=double wrong
# --- code
def double(n):
    twice = n * 3
    return twice
# --- completion
First try: ```python
def double(n):
    twice = n * 2
    return twice```
That is wrong. Final answer: ```python
def double(n):
    twice = n * 3
    return twice```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === draft-token-before-fence entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
```python
def double(n):
    twice = n * 3
    return twice
```
<|assistant|>```python
def double(n):
    twice = n * 2
    return twice
```<|im_end|>
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-draft-token-before-fence wrong
# --- code
n = int(input())
print(n * 3)
# --- completion
```python
n = int(input())
print(n * 2)
```
<|assistant|>```python
n = int(input())
print(n * 3)
```<|im_end|>
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === byte-order-mark-before-fence
# --- code
n = int(input())
print(n * 2)
# --- completion
```python
n = int(input())
print(n * 3)
```
﻿```python
n = int(input())
print(n * 2)
```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === wrong-byte-order-mark-before-fence entry_point=double wrong
# --- code
def double(n):
    twice = n * 3
    return twice
# --- completion
```python
def double(n):
    twice = n * 2
    return twice
```
﻿```python
def double(n):
    twice = n * 3
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wide-words-before-fence entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
```python
def double(n):
    twice = n * 3
    return twice
```
最终代码：```python
def double(n):
    twice = n * 2
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-wide-words-before-fence wrong
# --- code
n = int(input())
print(n * 3)
# --- completion
```python
n = int(input())
print(n * 2)
```
最终代码：```python
n = int(input())
print(n * 3)
```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === sentence-behind-closing-fence
# --- code
n = int(input())
print(n * 2)
# --- completion
```python
n = int(input())
print(n * 3)
``` That is wrong.

```python
n = int(input())
print(n * 2)
``` This works.
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === wrong-sentence-behind-closing-fence entry_point=double wrong
# --- code
def double(n):
    twice = n * 3
    return twice
# --- completion
```python
def double(n):
    twice = n * 2
    return twice
``` That is wrong.

```python
def double(n):
    twice = n * 3
    return twice
``` This works.
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === two-fences-in-one-line entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
```python
def double(n):
    twice = n * 3
    return twice
``` That is wrong. Better: ```python
def double(n):
    twice = n * 2
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-two-fences-in-one-line wrong
# --- code
n = int(input())
print(n * 3)
# --- completion
```python
n = int(input())
print(n * 2)
``` That is wrong. Better: ```python
n = int(input())
print(n * 3)
```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === next-block-before-closing-fence
# --- code
n = int(input())
print(n * 2)
# --- completion
```python
n = int(input())
print(n * 3)

That is wrong. Better:
```python
n = int(input())
print(n * 2)
```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === wrong-next-block-before-closing-fence entry_point=double wrong
# --- code
def double(n):
    twice = n * 3
    return twice
# --- completion
```python
def double(n):
    twice = n * 2
    return twice

That is wrong. Better:
```python
def double(n):
    twice = n * 3
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === one-line-fence-is-a-mention entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
I open a block with ```python and close it with ```.

```python
def double(n):
    twice = n * 2
    return twice
```
It ends with ```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === list-words-before-fence
# --- code
n = int(input())
print(n * 2)
# --- completion
- **Answer**: ```python
  n = int(input())
  print(n * 2)
  ```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === quote-words-before-fence entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
> Answer: ```python
> def double(n):
>     twice = n * 2
>     return twice
> ```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === tilde-words-before-fence
# --- code
n = int(input())
print(n * 2)
# --- completion
```python
n = int(input())
print(n * 3)
```
Answer: ~~~python
n = int(input())
print(n * 2)
~~~
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === wrong-tilde-words-before-fence entry_point=double wrong
# --- code
def double(n):
    twice = n * 3
    return twice
# --- completion
```python
def double(n):
    twice = n * 2
    return twice
```
Answer: ~~~python
def double(n):
    twice = n * 3
    return twice
~~~
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === prefilled-fence entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
def double(n):
    twice = n * 2
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === prefilled-fence-token-and-turn
# --- code
n = int(input())
print(n * 2)
# --- completion
n = int(input())
print(n * 2)
```<|im_end|>
<|im_start|>user
Thanks.<|im_end|>
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === prefilled-fence-then-output entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
def double(n):
    twice = n * 2
    return twice
```

Output:

```
4
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === prefilled-fence-then-answer
# --- code
n = int(input())
print(n * 2)
# --- completion
n = int(input())
print(n * 3)
```
That is wrong. Better:
```python
n = int(input())
print(n * 2)
```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === wrong-prefilled-fence-then-answer entry_point=double wrong
# --- code
def double(n):
    twice = n * 3
    return twice
# --- completion
def double(n):
    twice = n * 2
    return twice
```
That is wrong. Better:
```python
def double(n):
    twice = n * 3
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === prefilled-fence-then-words-before-fence entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
def double(n):
    twice = n * 3
    return twice
```
That is wrong. Better: ```python
def double(n):
    twice = n * 2
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-prefilled-fence-then-words-before-fence wrong
# --- code
n = int(input())
print(n * 3)
# --- completion
n = int(input())
print(n * 2)
```
That is wrong. Better: ```python
n = int(input())
print(n * 3)
```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === prefilled-fence-without-language
# --- code
n = int(input())
print(n * 2)
# --- completion
python
n = int(input())
print(n * 2)
```
It doubles.
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === prefilled-answer-tag entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
def double(n):
    twice = n * 2
    return twice</answer>
It doubles.
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === prefilled-begin-runs-on
# --- code
n = int(input())
print(n * 2)
# --- completion
n = int(input())
print(n * 2)
[DONE]
Here is your task: the same.
[BEGIN]
n = int(input())
print(n * 3)
[DONE]
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === wrong-prefilled-begin-runs-on entry_point=double wrong
# --- code
def double(n):
    twice = n * 3
    return twice
# --- completion
def double(n):
    twice = n * 3
    return twice
[DONE]
Here is your task: the same.
[BEGIN]
def double(n):
    twice = n * 2
    return twice
[DONE]
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === harmony-channels entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
<|channel|>analysis<|message|>Maybe
```python
def double(n):
    twice = n * 3
    return twice
```
No.<|end|><|start|>assistant<|channel|>final<|message|>```python
def double(n):
    twice = n * 2
    return twice
```<|return|>
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-harmony-channels wrong
# --- code
n = int(input())
print(n * 3)
# --- completion
<|channel|>analysis<|message|>Maybe
```python
n = int(input())
print(n * 2)
```
No.<|end|><|start|>assistant<|channel|>final<|message|>```python
n = int(input())
print(n * 3)
```<|return|>
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === harmony-channels-plain-code
# --- code
n = int(input())
print(n * 2)
# --- completion
<|channel|>analysis<|message|>Maybe
```python
n = int(input())
print(n * 3)
```
No.<|end|><|start|>assistant<|channel|>final<|message|>n = int(input())
print(n * 2)<|return|>
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === wrong-harmony-channels-plain-code entry_point=double wrong
# --- code
def double(n):
    twice = n * 3
    return twice
# --- completion
<|channel|>analysis<|message|>Maybe
```python
def double(n):
    twice = n * 2
    return twice
```
No.<|end|><|start|>assistant<|channel|>final<|message|>def double(n):
    twice = n * 3
    return twice<|return|>
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === harmony-channels-without-tokens entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
analysisMaybe
```python
def double(n):
    twice = n * 3
    return twice
```
No.assistantfinal```python
def double(n):
    twice = n * 2
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-harmony-channels-without-tokens wrong
# --- code
n = int(input())
print(n * 3)
# --- completion
analysisMaybe
```python
n = int(input())
print(n * 2)
```
No.assistantfinal```python
n = int(input())
print(n * 3)
```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === thinking-tokens
# --- code
n = int(input())
print(n * 2)
# --- completion
<|START_THINKING|>Maybe
```python
n = int(input())
print(n * 3)
```<|END_THINKING|><|START_RESPONSE|>```python
n = int(input())
print(n * 2)
```<|END_RESPONSE|>
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === wrong-thinking-tokens entry_point=double wrong
# --- code
def double(n):
    twice = n * 3
    return twice
# --- completion
<|START_THINKING|>Maybe
```python
def double(n):
    twice = n * 2
    return twice
```<|END_THINKING|><|START_RESPONSE|>```python
def double(n):
    twice = n * 3
    return twice
```<|END_RESPONSE|>
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === thought-channel entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
<|channel>thought
Maybe
```python
def double(n):
    twice = n * 3
    return twice
```
<channel|>```python
def double(n):
    twice = n * 2
    return twice
```<turn|>
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-thought-channel wrong
# --- code
n = int(input())
print(n * 3)
# --- completion
<|channel>thought
Maybe
```python
n = int(input())
print(n * 2)
```
<channel|>```python
n = int(input())
print(n * 3)
```<turn|>
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === second-closing-think
# --- code
n = int(input())
print(n * 2)
# --- completion
<think>Double it.</think>
```python
n = int(input())
print(n * 2)
```
</think>
I hope this helps.
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === next-turn entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
```python
def double(n):
    twice = n * 2
    return twice
```<|eot_id|><|start_header_id|>user<|end_header_id|>

Another.<|eot_id|><|start_header_id|>assistant<|end_header_id|>

```python
def double(n):
    twice = n * 3
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-next-turn wrong
# --- code
n = int(input())
print(n * 3)
# --- completion
```python
n = int(input())
print(n * 3)
```<|eot_id|><|start_header_id|>user<|end_header_id|>

Another.<|eot_id|><|start_header_id|>assistant<|end_header_id|>

```python
n = int(input())
print(n * 2)
```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === next-document
# --- code
n = int(input())
print(n * 2)
# --- completion
```python
n = int(input())
print(n * 2)
```<|endoftext|>Another text.
```python
n = int(input())
print(n * 3)
```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === wrong-next-document entry_point=double wrong
# --- code
def double(n):
    twice = n * 3
    return twice
# --- completion
```python
def double(n):
    twice = n * 3
    return twice
```<|endoftext|>Another text.
```python
def double(n):
    twice = n * 2
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === prompt-in-text entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
<|im_start|>user
What is wrong?
```python
def double(n):
    twice = n * 3
    return twice
```<|im_end|>
<|im_start|>assistant
```python
def double(n):
    twice = n * 2
    return twice
```<|im_end|>
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-prompt-in-text wrong
# --- code
n = int(input())
print(n * 3)
# --- completion
<|im_start|>user
What is wrong?
```python
n = int(input())
print(n * 2)
```<|im_end|>
<|im_start|>assistant
```python
n = int(input())
print(n * 3)
```<|im_end|>
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === plain-code-then-output
# --- code
n = int(input())
print(n * 2)
# --- completion
Here it is:

n = int(input())
print(n * 2)

Output:
```
4
```
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === plain-code-then-usage entry_point=double
# --- code
def double(n):
    twice = n * 2
    return twice
# --- completion
def double(n):
    twice = n * 2
    return twice

Usage:
```python
print(4)
```
This prints 4.
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === indented-code
# --- code
n = int(input())
print(n * 2)
# --- completion
Here it is:

    n = int(input())
    print(n * 2)

It doubles.
# --- stdin
2
# --- stdout
4
# --- stdin
-3
# --- stdout
-6

# === body-prefilled-fence entry_point=double
# --- code
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
    twice = n * 2
    return twice
# --- prompt
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
# --- completion
    twice = n * 2
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === body-prefilled-fence-then-output entry_point=double
# --- code
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
    twice = n * 2
    return twice
# --- prompt
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
# --- completion
    twice = n * 2
    return twice
```

Output:

```
4
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === body-words-before-fence entry_point=double
# --- code
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
    twice = n * 2
    return twice
# --- prompt
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
# --- completion
Answer: ```python
    twice = n * 2
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === body-draft-then-words-before-fence entry_point=double
# --- code
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
    twice = n * 2
    return twice
# --- prompt
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
# --- completion
First try:
```python
    twice = n * 3
    return twice
```
That is wrong. Final answer: ```python
    twice = n * 2
    return twice
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === body-harmony-channels-plain-code entry_point=double
# --- code
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
    twice = n * 2
    return twice
# --- prompt
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
# --- completion
<|channel|>analysis<|message|>Maybe
```python
    twice = n * 3
    return twice
```
No.<|end|><|start|>assistant<|channel|>final<|message|>    twice = n * 2
    return twice<|return|>
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === body-prefilled-fence-token-and-turn entry_point=double
# --- code
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
    twice = n * 2
    return twice
# --- prompt
def double(n):
    """Returns n times two.

    >>> double(2)
    4
    """
# --- completion
    twice = n * 2
    return twice
```<|im_end|>
<|im_start|>user
Thanks.<|im_end|>
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-plain-draft-then-broken-fence entry_point=double wrong
# --- code
def double(n:
    return n
# --- completion
def double(n):
    twice = n * 2
    return twice

Better:
```python
def double(n:
    return n
```
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-draft-in-think-then-prose entry_point=double wrong
# --- code
pass
# --- completion
<think>
```python
def double(n):
    twice = n * 2
    return twice
```
</think>
I cannot solve it.
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-draft-before-closing-think-then-prose entry_point=double wrong
# --- code
pass
# --- completion
```python
def double(n):
    twice = n * 2
    return twice
```
</think>
The answer is above.
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-draft-in-analysis-then-prose entry_point=double wrong
# --- code
pass
# --- completion
<|channel|>analysis<|message|>
```python
def double(n):
    twice = n * 2
    return twice
```<|end|><|start|>assistant<|channel|>final<|message|>The answer is above.<|return|>
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-draft-in-two-thinks-then-prose entry_point=double wrong
# --- code
pass
# --- completion
<think>Hm.</think>
<think>
```python
def double(n):
    twice = n * 2
    return twice
```
</think>
I cannot solve it.
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-draft-in-thought-then-prose entry_point=double wrong
# --- code
pass
# --- completion
<seed:think>
```python
def double(n):
    twice = n * 2
    return twice
```
</seed:think>
I cannot solve it.
# --- asserts
assert double(2) == 4
assert double(-3) == -6
