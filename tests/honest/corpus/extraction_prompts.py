# Completions of prompts that are code, as HumanEval has them: bodies with and without their indentation.

# === humaneval-body of=below-zero,largest,double-body
# --- completion
{{body}}

# === humaneval-body-lost-indent of=below-zero,largest
# --- completion
{{lost}}

# === humaneval-body-fenced of=below-zero,largest,double-body
# --- completion
```python
{{body}}
```

# === humaneval-body-fenced-lost-indent of=below-zero,largest
# --- completion
```python
{{lost}}
```

# === humaneval-body-fenced-dedented of=below-zero,largest
# --- completion
```python
{{dedented}}
```

# === humaneval-body-in-answer of=below-zero,largest,double-body
# --- completion
<answer>
{{body}}
</answer>

# === humaneval-body-token of=below-zero,largest,double-body
# --- completion
{{body}}<|endoftext|>

# === humaneval-body-comment-first of=below-zero,largest,double-body
# --- completion
    # Think first.
{{body}}

# === humaneval-body-comment-first-lost of=below-zero,largest,double-body
# --- completion
# Think first.
{{body}}

# === humaneval-body-fenced-comment-lost of=below-zero,largest,double-body
# --- completion
```python
# Think first.
{{body}}
```

# === humaneval-body-then-more of=below-zero,largest,double-body
# --- completion
{{body}}


def other():
    pass


print({{name}})
print(

# === humaneval-full-fenced of=below-zero,largest,double-body
# --- completion
```python
{{code}}
```

# === humaneval-full-usage of=below-zero,largest,double-body
# --- completion
```python
{{code}}
```

```python
print({{name}}.__name__)
```

# === humaneval-full-plain of=below-zero,largest,double-body
# --- completion
{{code}}

# === humaneval-fenced-then-usage of=below-zero,largest,double-body
# --- completion
```python
{{body}}
```
Usage:
```python
print({{name}}.__name__)
```
