# Completions whose code is not in a fence that begins its line, or not in a block that the completion begins: words and tokens
# before fences, prompts that end with an opening fence, channels, and turns that follow.

# === words-before-fence of=double,double-input,double-body
# --- completion
Answer: ```python
{{answer}}
```

# === draft-then-words-before-fence of=double,double-input,wrong-double,wrong-double-input,double-body
# --- completion
First try:
```python
{{draft}}
```
That is wrong. Final answer: ```python
{{answer}}
```

# === draft-glued-then-words-before-fence of=double,double-input,wrong-double,wrong-double-input
# --- completion
First try: ```python
{{draft}}```
That is wrong. Final answer: ```python
{{code}}```

# === draft-token-before-fence of=double,double-input,wrong-double,wrong-double-input
# --- completion
```python
{{draft}}
```
<|assistant|>```python
{{code}}
```<|im_end|>

# === byte-order-mark-before-fence of=double,double-input,wrong-double,wrong-double-input
# --- completion
```python
{{draft}}
```
﻿```python
{{code}}
```

# === wide-words-before-fence of=double,double-input,wrong-double,wrong-double-input
# --- completion
```python
{{draft}}
```
最终代码：```python
{{code}}
```

# === sentence-behind-closing-fence of=double,double-input,wrong-double,wrong-double-input
# --- completion
```python
{{draft}}
``` That is wrong.

```python
{{code}}
``` This works.

# === two-fences-in-one-line of=double,double-input,wrong-double,wrong-double-input
# --- completion
```python
{{draft}}
``` That is wrong. Better: ```python
{{code}}
```

# === next-block-before-closing-fence of=double,double-input,wrong-double,wrong-double-input
# --- completion
```python
{{draft}}

That is wrong. Better:
```python
{{code}}
```

# === one-line-fence-is-a-mention of=double,double-input
# --- completion
I open a block with ```python and close it with ```.

```python
{{code}}
```
It ends with ```

# === list-words-before-fence of=double,double-input
# --- completion
- **Answer**: ```python
  {{code}}
  ```

# === quote-words-before-fence of=double,double-input
# --- completion
> Answer: ```python
> {{code}}
> ```

# === tilde-words-before-fence of=double,double-input,wrong-double,wrong-double-input
# --- completion
```python
{{draft}}
```
Answer: ~~~python
{{code}}
~~~

# === prefilled-fence of=double,double-input,double-body
# --- completion
{{answer}}
```

# === prefilled-fence-token-and-turn of=double,double-input,double-body
# --- completion
{{answer}}
```<|im_end|>
<|im_start|>user
Thanks.<|im_end|>

# === prefilled-fence-then-output of=double,double-input,double-body
# --- completion
{{answer}}
```

Output:

```
4
```

# === prefilled-fence-then-answer of=double,double-input,wrong-double,wrong-double-input
# --- completion
{{draft}}
```
That is wrong. Better:
```python
{{code}}
```

# === prefilled-fence-then-words-before-fence of=double,double-input,wrong-double,wrong-double-input
# --- completion
{{draft}}
```
That is wrong. Better: ```python
{{code}}
```

# === prefilled-fence-without-language of=double,double-input
# --- completion
python
{{code}}
```
It doubles.

# === prefilled-answer-tag of=double,double-input
# --- completion
{{code}}</answer>
It doubles.

# === prefilled-begin-runs-on of=double,double-input,wrong-double,wrong-double-input
# --- completion
{{code}}
[DONE]
Here is your task: the same.
[BEGIN]
{{draft}}
[DONE]

# === harmony-channels of=double,double-input,wrong-double,wrong-double-input
# --- completion
<|channel|>analysis<|message|>Maybe
```python
{{draft}}
```
No.<|end|><|start|>assistant<|channel|>final<|message|>```python
{{code}}
```<|return|>

# === harmony-channels-plain-code of=double,double-input,wrong-double,wrong-double-input,double-body
# --- completion
<|channel|>analysis<|message|>Maybe
```python
{{draft}}
```
No.<|end|><|start|>assistant<|channel|>final<|message|>{{answer}}<|return|>

# === harmony-channels-without-tokens of=double,double-input,wrong-double,wrong-double-input
# --- completion
analysisMaybe
```python
{{draft}}
```
No.assistantfinal```python
{{code}}
```

# === thinking-tokens of=double,double-input,wrong-double,wrong-double-input
# --- completion
<|START_THINKING|>Maybe
```python
{{draft}}
```<|END_THINKING|><|START_RESPONSE|>```python
{{code}}
```<|END_RESPONSE|>

# === thought-channel of=double,double-input,wrong-double,wrong-double-input
# --- completion
<|channel>thought
Maybe
```python
{{draft}}
```
<channel|>```python
{{code}}
```<turn|>

# === second-closing-think of=double,double-input
# --- completion
<think>Double it.</think>
```python
{{code}}
```
</think>
I hope this helps.

# === next-turn of=double,double-input,wrong-double,wrong-double-input
# --- completion
```python
{{code}}
```<|eot_id|><|start_header_id|>user<|end_header_id|>

Another.<|eot_id|><|start_header_id|>assistant<|end_header_id|>

```python
{{draft}}
```

# === next-document of=double,double-input,wrong-double,wrong-double-input
# --- completion
```python
{{code}}
```<|endoftext|>Another text.
```python
{{draft}}
```

# === prompt-in-text of=double,double-input,wrong-double,wrong-double-input
# --- completion
<|im_start|>user
What is wrong?
```python
{{draft}}
```<|im_end|>
<|im_start|>assistant
```python
{{code}}
```<|im_end|>

# === plain-code-then-output of=double,double-input
# --- completion
Here it is:

{{code}}

Output:
```
4
```

# === plain-code-then-usage of=double,double-input
# --- completion
{{code}}

Usage:
```python
print(4)
```
This prints 4.

# === indented-code of=double,double-input
# --- completion
Here it is:

    {{code}}

It doubles.

# === wrong-plain-draft-then-broken-fence of=wrong-double
def double(n:
    return n
# --- completion
{{draft}}

Better:
```python
{{code}}
```

# === no-code problem wrong entry_point=double
pass
# --- draft
def double(n):
    twice = n * 2
    return twice
# --- asserts
assert double(2) == 4
assert double(-3) == -6

# === wrong-draft-in-think-then-prose of=no-code
# --- completion
<think>
```python
{{draft}}
```
</think>
I cannot solve it.

# === wrong-draft-before-closing-think-then-prose of=no-code
# --- completion
```python
{{draft}}
```
</think>
The answer is above.

# === wrong-draft-in-analysis-then-prose of=no-code
# --- completion
<|channel|>analysis<|message|>
```python
{{draft}}
```<|end|><|start|>assistant<|channel|>final<|message|>The answer is above.<|return|>

# === wrong-draft-in-two-thinks-then-prose of=no-code
# --- completion
<think>Hm.</think>
<think>
```python
{{draft}}
```
</think>
I cannot solve it.

# === wrong-draft-in-thought-then-prose of=no-code
# --- completion
<seed:think>
```python
{{draft}}
```
</seed:think>
I cannot solve it.
