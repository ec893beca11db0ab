# Completions with tags, with end-of-text tokens, and without any markup.

# === answer-then-prose-names-tag of=echo-upper,primes,fib
# --- completion
<answer>
{{code}}
</answer>
I put the code into an <answer> tag, as asked.

# === answer-then-prose-names-both of=fizz,words,add
# --- completion
<answer>
{{code}}
</answer>
The code is between <answer> and </answer>.

# === answer-then-quoted-tag of=stack,gcd,sum-input
# --- completion
<answer>
{{code}}
</answer>
Everything is inside `<answer>`...`</answer>`.

# === prose-names-tag-before of=fib,matrix
# --- completion
My solution is in <answer></answer> tags:
<answer>
{{code}}
</answer>

# === fence-then-prose-names-answer of=add,echo-upper
# --- completion
```python
{{code}}
```
No <answer> is needed.

# === fence-then-answer-in-words of=sum-input,fizz
# --- completion
```python
{{code}}
```
<answer>The function above.</answer>

# === token-after-answer of=fib,matrix
# --- completion
<answer>
{{code}}
</answer><|im_end|>

# === token-after-open-answer of=add,echo-upper
# --- completion
<answer>
{{code}}
<|im_end|>

# === token-after-open-fence of=sum-input,fizz
# --- completion
```python
{{code}}<|eot_id|>

# === token-after-plain-code of=grid,stack
# --- completion
{{code}}<|endoftext|>

# === answer-mixed-case-attribute of=gcd
# --- completion
<Answer type='code'>```python
{{code}}
```</Answer>

# === answer-with-fence-and-usage of=fib,matrix
# --- completion
<answer>
```python
{{code}}
```
Usage:
```python
{{usage}}
```
</answer>

# === helper-fence-then-answer of=fib,echo-upper
# --- completion
```python
{{helper}}
```
<answer>
{{main}}
</answer>

# === code-tag-attribute of=stack,gcd
# --- completion
<CODE class="py">
{{code}}
</CODE>

# === plain-code of=stack,gcd,sum-input,fizz,fence-in-docstring,fence-in-string,answer-in-string,answer-in-docstring,think-in-string,token-in-string
# --- completion
{{code}}

# === plain-code-sentence-before of=fizz,words,add
# --- completion
Here is the code:

{{code}}

# === plain-code-sentence-after of=stack,gcd,fizz
# --- completion
{{code}}

This runs in linear time.

# === in-answer of=fence-in-docstring,fence-in-string,answer-in-string,answer-in-docstring,think-in-string,token-in-string
# --- completion
<answer>
{{code}}
</answer>

# === in-answer-fence of=fence-in-docstring,fence-in-string,answer-in-string,answer-in-docstring,think-in-string,token-in-string
# --- completion
<answer>
```python
{{code}}
```
</answer>
