# Completions with a right solution where no answer is: it must not be found.

# === wrong-right-draft-in-think of=wrong-fizz,wrong-matrix
# --- completion
<think>
```python
{{draft}}
```
</think>
```python
{{code}}
```

# === wrong-right-draft-in-think-wrong-answer of=wrong-fizz,wrong-matrix
# --- completion
<think><answer>{{draft}}</answer></think>
<answer>
{{code}}
</answer>

# === wrong-right-draft-no-opening of=wrong-fizz,wrong-matrix
# --- completion
```python
{{draft}}
```
hm
</think>
```python
{{code}}
```

# === wrong-right-then-wrong-version of=wrong-fizz,wrong-matrix
# --- completion
```python
{{draft}}
```
I changed my mind:
```python
{{code}}
```

# === wrong-right-then-wrong-answer of=wrong-fizz,wrong-matrix
# --- completion
<answer>{{draft}}</answer>
No:
<answer>
{{code}}
</answer>

# === wrong-right-fence-then-wrong-answer of=wrong-fizz,wrong-matrix
# --- completion
```python
{{draft}}
```
<answer>
{{code}}
</answer>

# === wrong-right-fence-then-answer-of-another-name of=wrong-fizz,wrong-matrix
# --- completion
```python
{{draft}}
```
<answer>
def something_else():
    return 1
</answer>

# === wrong-right-in-text-block of=wrong-fizz,wrong-matrix
# --- completion
```python
{{code}}
```
```text
{{draft}}
```

# === wrong-right-quoted-in-string of=wrong-fizz,wrong-matrix
# --- completion
```python
TEXT = '''
{{draft}}
'''

{{code}}
```

# === wrong-right-in-comment of=wrong-fizz,wrong-matrix
# --- completion
```python
# {{draft}}
{{code}}
```
