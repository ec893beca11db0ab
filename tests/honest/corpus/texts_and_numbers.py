# === unicode-strings
import unicodedata


def strip_accents(s):
    return "".join(c for c in unicodedata.normalize("NFD", s) if unicodedata.category(c) != "Mn")


def reverse(s):
    return s[::-1]


def emoji_count(s):
    return sum(ord(c) > 0x1F000 for c in s)
# --- wrong
def strip_accents(s):
    return s.encode("ascii", "ignore").decode()
# --- asserts
assert strip_accents("Crème Brûlée") == "Creme Brulee"
assert reverse("añb") == "bña"
assert emoji_count("a🎉b🚀") == 2
assert reverse("日本語") == "語本日"

# === encodings
def encode_all(text):
    return {name: text.encode(name) for name in ("utf-8", "utf-16-le", "latin-1")}


def fix_mojibake(text):
    return text.encode("latin-1").decode("utf-8")


def with_errors(data):
    return data.decode("ascii", errors="replace"), data.decode("ascii", errors="surrogateescape")
# --- asserts
assert encode_all("é") == {"utf-8": b"\xc3\xa9", "utf-16-le": b"\xe9\x00", "latin-1": b"\xe9"}
assert fix_mojibake("Ã©") == "é"
assert with_errors(b"a\xff") == ("a\ufffd", "a\udcff")

# === control-characters-and-nul
def visible(s):
    return s.translate({0: "␀", 9: "→", 10: "↵"})


def split_records(s):
    return s.split("\x1e")


def nul_join(items):
    return "\0".join(items)
# --- asserts
assert visible("a\0b\tc\n") == "a␀b→c↵"
assert split_records("a\x1eb") == ["a", "b"]
assert nul_join(["x", "y"]) == "x\x00y"

# === text-with-quotes-and-fences
FENCE = "```"


def fence(code, language=""):
    return f"{FENCE}{language}\n{code}\n{FENCE}"


def quote(s):
    return '"' + s.replace("\\", "\\\\").replace('"', '\\"') + '"'


TEMPLATE = """
<answer>
{}
</answer>
"""
# --- asserts
assert fence("x = 1", "python") == "```python\nx = 1\n```"
assert quote('a"b\\') == '"a\\"b\\\\"'
assert TEMPLATE.format(1).strip() == "<answer>\n1\n</answer>"

# === long-strings-and-lines
def run_length(s):
    from itertools import groupby
    return "".join(f"{len(list(g))}{k}" for k, g in groupby(s))


def expand(s):
    import re
    return "".join(c * int(n) for n, c in re.findall(r"(\d+)(\D)", s))
# --- asserts
assert run_length("a" * 100000 + "b") == "100000a1b"
assert expand("3a2b") == "aaabb"
assert len(expand("500000x")) == 500000

# === floats-close
import math


def newton_sqrt(x, tolerance=1e-12):
    guess = x or 1.0
    while abs(guess * guess - x) > tolerance * max(1, x):
        guess = (guess + x / guess) / 2
    return guess


def distance(p, q):
    return math.dist(p, q)
# --- asserts
import math; assert math.isclose(newton_sqrt(2), math.sqrt(2), rel_tol=1e-9)
assert abs(newton_sqrt(1e6) - 1000) < 1e-6
assert round(distance((0, 0), (1, 1)), 4) == 1.4142
assert distance((0, 0), (3, 4)) == 5.0

# === special-floats-in-containers
import math


def clean(xs):
    return [x for x in xs if not math.isnan(x)]


def extremes():
    return {"inf": math.inf, "ninf": -math.inf, "nan": math.nan, "zero": -0.0, "tiny": 5e-324}
# --- wrong
def clean(xs):
    return [x for x in xs if x != float("nan")]
# --- test
import math
assert clean([1.0, float("nan"), 2.0]) == [1.0, 2.0]
e = extremes()
assert e["inf"] > 1e308 and e["ninf"] == -e["inf"]
assert math.isnan(e["nan"])
assert math.copysign(1, e["zero"]) == -1.0
assert e["tiny"] > 0 and e["tiny"] / 2 == 0

# === bool-is-int-and-numeric-equality
def truth(x):
    return bool(x)


def as_float(n):
    return float(n)


def one():
    return True
# --- asserts
assert truth([0]) is True
assert as_float(2) == 2
assert one() == 1
assert one() + one() == 2
assert isinstance(one(), bool)
assert type(as_float(1)) is float

# === roman-with-reference entry_point=roman
def roman(n: int) -> str:
    table = {1000: "M", 900: "CM", 500: "D", 400: "CD", 100: "C", 90: "XC", 50: "L", 40: "XL", 10: "X", 9: "IX", 5: "V", 4: "IV", 1: "I"}
    result = []
    for value, numeral in table.items():
        count, n = divmod(n, value)
        result.append(numeral * count)
    return "".join(result)
# --- reference
def roman(n):
    out = ""
    for v, s in [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]:
        while n >= v:
            out += s
            n -= v
    return out
# --- asserts
assert roman(3999) == "MMMCMXCIX"
assert roman(1) == "I"
assert [roman(i) for i in range(1, 6)] == ["I", "II", "III", "IV", "V"]

# === wrong-rounding wrong
def half_up(x):
    return round(x)
# --- asserts
assert half_up(1.5) == 2
assert half_up(2.5) == 3

# === wrong-type wrong
def double(x):
    return str(2 * x)
# --- asserts
assert double(2) == 4

# === raises-a-syntax-error
def parse(text):
    if text.count("(") != text.count(")"):
        raise SyntaxError("missing )")
    return eval(text)
# --- test
assert parse("(1 + 2) * -3") == -9
try:
    parse("(1")
except SyntaxError as e:
    assert e.msg == "missing )"
else:
    raise AssertionError
