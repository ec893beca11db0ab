# === typing-names prelude
class Solution:
    def twoSum(self, nums: List[int], target: int) -> Optional[List[int]]:
        seen: Dict[int, int] = {}
        for i, n in enumerate(nums):
            if target - n in seen:
                return [seen[target - n], i]
            seen[n] = i
        return None
# --- asserts
assert Solution().twoSum([2, 7, 11, 15], 9) == [0, 1]
assert Solution().twoSum([], 1) is None

# === math-and-collections-names prelude
def primes(n):
    return [p for p in range(2, n) if all(p % d for d in range(2, isqrt(p) + 1))]


def most_common(words):
    return Counter(words).most_common(1)[0][0]


@lru_cache(None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
# --- asserts
assert primes(12) == [2, 3, 5, 7, 11]
assert most_common("abca") == "a"
assert fib(50) == 12586269025

# === solution-overrides-a-prelude-name prelude
def gcd(a, b):
    return a if b == 0 else gcd(b, a % b)


def accumulate(xs):
    total, out = 0, []
    for x in xs:
        total += x
        out.append(total)
    return out
# --- asserts
assert gcd(12, 18) == 6
assert accumulate([1, 2, 3]) == [1, 3, 6]

# === program-with-prelude prelude
n = int(input())
d = deque(range(n))
d.rotate(1)
print(*d, sep=",")
print(sqrt(16), ceil(2.1))
# --- stdin
3
# --- stdout
2,0,1
4.0 3

# === wrong-without-prelude wrong
def primes(n):
    return [p for p in range(2, n) if all(p % d for d in range(2, isqrt(p) + 1))]
# --- asserts
assert primes(6) == [2, 3, 5]
