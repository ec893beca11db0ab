# Completions with several fenced blocks: helpers, versions, usage, output, and fences of every form.

# === usage-block-after of=fizz,words,add,primes,fib,matrix,stack,gcd
# --- completion
Here is the solution:

```python
{{code}}
```

Example usage:

```python
{{usage}}
```

That is all.

# === usage-unlabelled-after of=stack,gcd,fizz,fib,matrix
# --- completion
```
{{code}}
```

Example:

```
{{usage}}
```

# === shell-block-after of=fib,matrix,grid
# --- completion
```python
{{code}}
```
Run it:
```bash
pip install nothing
```
and see
```text
42
```

# === output-unlabelled-after of=echo-upper,primes,grid,sum-input
# --- completion
```
{{code}}
```
It prints
```
42
```

# === sample-input-after of=sum-input,echo-upper,grid
# --- completion
The program:
```python
{{code}}
```
For the input
```
{{stdin}}
```
it prints
```
{{stdout}}
```

# === test-with-asserts-after of=stack,gcd,fizz
# --- completion
```python
{{code}}
```

A few tests:

```python
{{asserts}}
```

# === helper-then-main of=echo-upper,words,sum-input,primes,add,grid,fib
# --- completion
First a helper:

```python
{{helper}}
```

Now the solution, which uses it:

```python
{{main}}
```

# === helper-then-main-unlabelled of=primes,add,grid
# --- completion
1. Part one
```
{{helper}}
```
2. Part two
```
{{main}}
```

# === helper-main-usage of=primes,add,fib
# --- completion
```python
{{helper}}
```

```python
{{main}}
```

Usage:

```python
{{usage}}
```

# === main-then-helper of=sum-input,primes,add
# --- completion
```python
{{main}}
```

It uses this:

```python
{{helper}}
```

# === token-same-line of=add,sum-input,grid,primes,words,gcd,matrix,echo-upper,fizz,stack
# --- completion
```python
{{code}}
```{{token}}

# === token-next-line of=add,sum-input,grid,primes,words,gcd,matrix,echo-upper,fizz,stack
# --- completion
```python
{{code}}
```
{{token}}

# === quoted-fence of=fib,matrix,grid
# --- completion
You asked:

> ```python
> {{code}}
> ```

Done.

# === quoted-twice of=add
# --- completion
> > ```python
> > {{code}}
> > ```

# === list-fence of=sum-input,fizz,words
# --- completion
1. Write it:

   ```python
   {{code}}
   ```

2. Done.

# === bullet-fence of=grid,stack
# --- completion
- ```python
  {{code}}
  ```
- done

# === tab-indented-fence of=primes
# --- completion
	```python
	{{code}}
	```

# === odd-closing-indent of=words,add
# --- completion
  ```python
{{code}}
   ```
ok

# === tildes-around-usage of=stack,gcd,fizz,fib
# --- completion
~~~python
{{code}}
~~~
then
~~~python
{{usage}}
~~~

# === nested-markdown of=fizz,words
# --- completion
````markdown
# Answer

```python
{{code}}
```

done
````

# === nested-same-marks of=stack,gcd
# --- completion
```markdown
```python
{{code}}
```
```

# === info of=fib,add,sum-input,grid,primes,words,gcd
# --- completion
```{{info}}
{{code}}
```
```sh
python main.py
```

# === space-after-mark of=matrix
# --- completion
``` python
{{code}}
``` 

# === glued-closing of=fizz,words
# --- completion
```python
{{code}}```

# === two-versions-then-usage of=add,primes,fib
# --- completion
```python
def {{name}}(*args):
    return None  # not yet
```
Better:
```python
{{code}}
```

```python
{{usage}}
```

# === broken-version-after of=fizz,words
# --- completion
```python
{{code}}
```
In short:
```python
def {{name}}(...)
```

# === cut-off-after of=stack,gcd
# --- completion
```python
{{code}}
```
Or with types:
```python
def {{name}}(x: 

# === signature-quoted-after of=fizz,words
# --- completion
```python
{{code}}
```
The signature is
```python
def {{name}}(*args): ...
```

# === html-entities of=fizz
# --- completion
```python
def fizz(n):
    out = []
    for i in range(1, n + 1):
        out.append(&quot;FizzBuzz&quot; if i % 15 == 0 else &quot;Fizz&quot; if i % 3 == 0 else &quot;Buzz&quot; if i % 5 == 0 else str(i))
    return out
```

# === diff-before of=echo-upper
# --- completion
```diff
- old
+ new
```
```python
{{code}}
```

# === main-guard-block-after of=stack,add
# --- completion
```python
{{code}}
```
To try it:
```python
if __name__ == "__main__":
    {{usage}}
```

# === fenced of=fence-in-docstring,fence-in-string,answer-in-string,answer-in-docstring,think-in-string,token-in-string
# --- completion
Sure.

```python
{{code}}
```

Done.

# === fenced-usage of=fence-in-docstring,fence-in-string,answer-in-string,answer-in-docstring,think-in-string,token-in-string
# --- completion
```python
{{code}}
```

Usage:
```python
print({{name}}(3))
```
