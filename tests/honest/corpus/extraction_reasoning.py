# Completions with reasoning before the answer: drafts and empty answers in it are no answers.

# === draft-in-think of=grid,stack,gcd,matrix,fib
# --- completion
<think>
Let me try
```python
def {{name}}(*args):
    return None  # not yet
```
No.
</think>
```python
{{code}}
```

# === draft-answer-in-think of=primes,fib,matrix
# --- completion
<think>Maybe <answer>def {{name}}(*args):
    return None  # not yet</answer>? No.</think>
<answer>
{{code}}
</answer>

# === empty-answer-in-think of=words,add,echo-upper,primes,fib
# --- completion
<think>I must write <answer></answer>.</think>

```python
{{code}}
```

# === think-without-opening of=gcd,sum-input,fizz,matrix,primes
# --- completion
Let me think. <answer></answer> is wanted.
```python
def {{name}}(*args):
    return None  # not yet
```
hm
</think>

```python
{{code}}
```

# === open-draft-in-think of=matrix,grid,stack,fizz,words
# --- completion
<think>
Start:
```python
def broken(
</think>
The answer:
```python
{{code}}
```

# === think-unclosed of=echo-upper,primes,grid,matrix
# --- completion
<think>
The code is easy.
```python
{{code}}
```

# === think-unclosed-empty-answer of=fizz,words,add,stack
# --- completion
<think>
I need <answer></answer> here.
<answer>
{{code}}
</answer>

# === thinking-upper-case of=stack,gcd
# --- completion
<THINKING>def {{name}}(*args):
    return None  # not yet</THINKING>
```python
{{code}}
```

# === reasoning-then-answer of=fib,matrix,add,primes
# --- completion
<reasoning>
use <answer>x</answer>
</reasoning>
<answer>
{{code}}
</answer>

# === after-think of=fence-in-docstring,fence-in-string,answer-in-string,answer-in-docstring,think-in-string,token-in-string
# --- completion
<think>
Simple.
</think>
```python
{{code}}
```
