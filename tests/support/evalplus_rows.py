"""Rows in the shape of EvalPlus, all written for these tests, with answers in many styles, right and wrong ones.

The entry points and task ids are those whose inputs or results EvalPlus treats in a way of their own; the other tasks
have numbers that no task of theirs has.
"""

# A program in a line is read more easily than one that is broken to fit.
# ruff: noqa: E501

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Task:
    """A row, and answers besides its reference."""

    task_id: str
    reference: str
    base: list[Any]
    plus: list[Any] = field(default_factory=list)
    atol: float = 0
    answers: tuple[str, ...] = ()

    @property
    def entry_point(self) -> str:
        """The function that is asked for: the last that the reference defines."""
        names = [node.name for node in ast.parse(self.reference).body if isinstance(node, ast.FunctionDef)]
        return names[-1]

    @property
    def row(self) -> dict[str, Any]:
        """The row: the reference continues a prompt, or is whole after one that is a docstring."""
        prompt, solution = '"""\nWrite what the tests ask for.\n"""\n', self.reference
        if self.task_id.startswith("HumanEval/"):
            tree = ast.parse(self.reference).body[-1]
            assert isinstance(tree, ast.FunctionDef)
            lines = self.reference.splitlines(keepends=True)
            begins = tree.body[0].lineno - 1
            prompt = "".join(lines[:begins]) + '    """Write it."""\n'
            solution = "".join(lines[begins:])
        return {
            "task_id": self.task_id, "prompt": prompt, "contract": "", "canonical_solution": solution,
            "entry_point": self.entry_point, "base_input": self.base, "plus_input": self.plus, "atol": self.atol,
        }  # fmt: skip

    @property
    def codes(self) -> list[str]:
        """The reference, the answers, and mutants of the reference, each a whole program."""
        return [self.row["prompt"] + self.row["canonical_solution"], *self.answers, *mutants(self.reference)]


def mutants(source: str, most: int = 8) -> list[str]:
    """Programs that differ from one in a single operator, number or returned value; most of them are wrong."""
    found: list[str] = []
    count = len(list(ast.walk(ast.parse(source))))
    for number in range(count):
        tree = ast.parse(source)
        if _mutate(list(ast.walk(tree))[number]):
            found.append(ast.unparse(tree))
    step = max(1, len(found) // most)
    return found[::step][:most]


_SWAPS: dict[type[ast.AST], ast.AST] = {
    ast.Add: ast.Sub(), ast.Sub: ast.Add(), ast.Mult: ast.Add(), ast.Div: ast.FloorDiv(), ast.FloorDiv: ast.Div(),
    ast.Lt: ast.LtE(), ast.LtE: ast.Lt(), ast.Gt: ast.GtE(), ast.GtE: ast.Gt(), ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(), ast.In: ast.NotIn(), ast.And: ast.Or(), ast.Or: ast.And(),
}  # fmt: skip


def _mutate(node: ast.AST) -> bool:
    match node:
        case ast.BinOp() if type(node.op) in _SWAPS:
            node.op = _SWAPS[type(node.op)]  # type: ignore[assignment]
        case ast.BoolOp():
            node.op = _SWAPS[type(node.op)]  # type: ignore[assignment]
        case ast.Compare() if type(node.ops[0]) in _SWAPS:
            node.ops[0] = _SWAPS[type(node.ops[0])]  # type: ignore[call-overload]
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int() | float()):
            node.value = node.value + 1  # type: ignore[operator]
        case ast.Return():
            node.value = ast.Constant(None)
        case _:
            return False
    return True


def _answers(*sources: str) -> tuple[str, ...]:
    return tuple(textwrap.dedent(source).strip("\n") + "\n" for source in sources)


def _task(task_id: str, reference: str, base: list[Any], plus: list[Any], *answers: str, atol: float = 0) -> Task:
    return Task(task_id, _answers(reference)[0], base, plus, atol, _answers(*answers))


def _float_tasks() -> Iterator[Task]:
    numbers = [[[0.1 * n for n in range(1, size)]] for size in (3, 5, 9)]
    yield _task(
        "HumanEval/900", "def part(number):\n    return number % 1.0", [[3.5], [1.25]], [[0.1], [123456.789], [7.0]],
        "def part(number):\n    return number - int(number)",
        "def part(number):\n    return round(number % 1.0, 2)",
        "def part(number):\n    return str(number % 1.0)",
        "def part(number):\n    return [number % 1.0]",
        "def part(number):\n    return number % 1.0 + 9e-7",
        "def part(number):\n    return number % 1.0 + 2e-6",
        "def part(number):\n    return complex(number % 1.0)",
        "from fractions import Fraction\ndef part(number):\n    return Fraction(number) % 1",
        "from decimal import Decimal\ndef part(number):\n    return Decimal(number) % 1",
        "import math\ndef part(number):\n    return math.nan",
    )  # fmt: skip
    yield _task(
        "HumanEval/901",
        "def scaled(numbers):\n    low, high = min(numbers), max(numbers)\n"
        "    return [(each - low) / (high - low) for each in numbers]",
        numbers, [[[1, 2, 4]], [[-1.5, 1e6, 3e-7]]],
        "def scaled(numbers):\n    low, high = min(numbers), max(numbers)\n"
        "    return [each / (high - low) - low / (high - low) for each in numbers]",
        "def scaled(numbers):\n    low, high = min(numbers), max(numbers)\n"
        "    return tuple((each - low) / (high - low) for each in numbers)",
        "def scaled(numbers):\n    low, high = min(numbers), max(numbers)\n"
        "    return tuple(each / (high - low) - low / (high - low) for each in numbers)",
        "def scaled(numbers):\n    low, high = min(numbers), max(numbers)\n"
        "    yield from ((each - low) / (high - low) for each in numbers)",
        "def scaled(numbers):\n    low, high = min(numbers), max(numbers)\n"
        "    return [(each - low) / (high - low) for each in numbers][:-1]",
        "def scaled(numbers):\n    low, high = min(numbers), max(numbers)\n"
        "    for place, each in enumerate(numbers):\n        numbers[place] = (each - low) / (high - low)\n"
        "    return numbers",
    )  # fmt: skip
    yield _task(
        "HumanEval/902",
        "def closest(numbers):\n    ordered = sorted(numbers)\n"
        "    return min(zip(ordered, ordered[1:]), key=lambda pair: pair[1] - pair[0])",
        numbers, [[[1.0, 5.5, 5.75]]],
        "def closest(numbers):\n    numbers.sort()\n"
        "    return list(min(zip(numbers, numbers[1:]), key=lambda pair: pair[1] - pair[0]))",
        "def closest(numbers):\n    numbers.sort()\n"
        "    one, two = min(zip(numbers, numbers[1:]), key=lambda pair: pair[1] - pair[0])\n"
        "    return one + 1e-8, two - 1e-8",
        "from typing import NamedTuple\nclass Pair(NamedTuple):\n    one: float\n    two: float\n"
        "def closest(numbers):\n    numbers.sort()\n"
        "    return Pair(*min(zip(numbers, numbers[1:]), key=lambda pair: pair[1] - pair[0]))",
    )  # fmt: skip
    table = "def table(count):\n    return [[row * 0.1 * column for column in range(count)] for row in range(count)]"
    noisy = (
        "def table(count):\n    return [[row * column / 10 + 1e-9 for column in range(count)] for row in range(count)]"
    )
    mixed = (
        "def table(count):\n    return [tuple(row * 0.1 * column for column in range(count)) for row in range(count)]"
    )
    for task_id, atol in (("HumanEval/903", 0.0), ("HumanEval/904", 1e-3)):
        yield _task(task_id, table, [[1], [3]], [[4]], noisy, mixed, noisy.replace("1e-9", "1e-2"), atol=atol)
    yield _task(
        "HumanEval/905",
        "def steps(number):\n    return number / 2 if number % 2 else [number, number / 2]",
        [[2], [3], [4]], [[4], [6], [7], [8]],
        "def steps(number):\n    return number * 0.5 + 1e-9 if number % 2 else [number, number * 0.5]",
        "def steps(number):\n    return number * 0.5 if number % 2 else [number, number * 0.5 + 1e-9]",
    )  # fmt: skip
    yield _task(
        "HumanEval/906",
        "def steps(number):\n    return number / 2 if number % 2 else [number, number / 2]",
        [[3], [4]], [[7], [8]],
        "def steps(number):\n    return number * 0.5 if number % 2 else [number, number * 0.5 + 1e-9]",
        "def steps(number):\n    return number * 0.5 if number % 2 else (number, number * 0.5)",
    )  # fmt: skip
    yield _task(
        "HumanEval/907", "def ratio(one, two):\n    return one / two if two else float('inf')",
        [[1, 2], [1, 0]], [[-1, 0], [10**8, 3]],
        "import math\ndef ratio(one, two):\n    return one / two if two else math.inf",
        "def ratio(one, two):\n    return one / two if two else 1e300",
        "def ratio(one, two):\n    return one / two if two else None",
        "def ratio(one, two):\n    return one / two + 3 if two else float('inf')",
    )  # fmt: skip
    yield _task(
        "HumanEval/908", "def square(number):\n    return number * number", [[3], [10**5]], [[10**9], [12345678]],
        "def square(number):\n    return float(number) ** 2",
        "def square(number):\n    return number ** 2 + 1",
        "def square(number):\n    return number * number if number < 1000 else number * number + 1",
        atol=1e-4,
    )  # fmt: skip
    yield _task(
        "HumanEval/32",
        """
        def find_zero(xs):
            def value(x):
                return sum(c * x ** i for i, c in enumerate(xs))
            low, high = -1.0, 1.0
            while value(low) * value(high) > 0:
                low, high = low * 2, high * 2
            while high - low > 1e-10:
                middle = (low + high) / 2
                low, high = (low, middle) if value(middle) * value(low) <= 0 else (middle, high)
            return low
        """.replace("\n        ", "\n"),
        [[[1, 2]], [[-6, 11, -6, 1]]], [[[-1, 0, 0, 1]], [[3, 1]]],
        "def find_zero(xs):\n    return -xs[0] / xs[1] if xs[1] else 1",
        "def find_zero(xs):\n"
        "    return {(1, 2): -0.5, (-6, 11, -6, 1): 3, (-1, 0, 0, 1): 1.0, (3, 1): -3}[tuple(xs)]",
        "def find_zero(xs):\n"
        "    return {(1, 2): -0.5, (-6, 11, -6, 1): 2.00001, (-1, 0, 0, 1): 1.00001, (3, 1): -3}[tuple(xs)]",
        "from fractions import Fraction\ndef find_zero(xs):\n"
        "    return {(1, 2): Fraction(-1, 2), (-6, 11, -6, 1): 3, (-1, 0, 0, 1): 1, (3, 1): -3}[tuple(xs)]",
        "def find_zero(xs):\n    return None",
        "def find_zero(xs):\n    return [0]",
        "def find_zero(xs):\n    return float('inf')",
        "def find_zero(xs):\n    return float('nan')",
        atol=1e-4,
    )  # fmt: skip


def _plain_tasks() -> Iterator[Task]:
    yield _task(
        "HumanEval/920",
        "def factors(number):\n    found, each = [], 2\n    while number > 1:\n        while number % each == 0:\n"
        "            found.append(each)\n            number //= each\n        each += 1\n    return found",
        [[8], [12]], [[1], [97], [360]],
        "def factors(number):\n    found = []\n    for each in range(2, number + 1):\n        while number % each == 0:\n"
        "            found.append(each)\n            number //= each\n    return tuple(found)",
        "def factors(number):\n    for each in range(2, number + 1):\n        while number % each == 0:\n"
        "            yield each\n            number //= each",
        "def factors(number, found=[]):\n    for each in range(2, number + 1):\n        while number % each == 0:\n"
        "            found.append(each)\n            number //= each\n    return found",
        "class Solution:\n    pass\ndef factors(number):\n    raise ValueError(number)",
        "def factors(number):\n    raise SystemExit(0)",
        "def factors(number):\n    while True:\n        pass",
        "def factors(number):\n    return factors(number)",
        "def other(number):\n    return []",
        "factors = 3",
        "def factors(number)\n    return []",
        "raise SystemExit(0)\ndef factors(number):\n    return []",
    )  # fmt: skip
    yield _task(
        "HumanEval/921", "def counted(text):\n    return {each: text.count(each) for each in text}",
        [["abca"], [""]], [["zz"], ["\u00e9\u4e2d"]],
        "from collections import Counter\ndef counted(text):\n    return Counter(text)",
        "from collections import defaultdict\ndef counted(text):\n    found = defaultdict(int)\n"
        "    for each in text:\n        found[each] += 1\n    return found",
        "from collections import OrderedDict\ndef counted(text):\n"
        "    return OrderedDict((each, text.count(each)) for each in sorted(set(text)))",
        "def counted(text):\n    return list({each: text.count(each) for each in text}.items())",
        "def counted(text):\n    return {each: float(text.count(each)) for each in text}",
        "def counted(text):\n    return {each: True for each in text}",
    )  # fmt: skip
    yield _task(
        "HumanEval/923", "def distinct(items):\n    return set(items)", [[[1, 2, 2]]], [[[]], [["a", "b"]]],
        "def distinct(items):\n    return frozenset(items)",
        "def distinct(items):\n    return list(set(items))",
        "def distinct(items):\n    return {}.keys() | items",
        "def distinct(items):\n    return dict.fromkeys(items).keys()",
    )  # fmt: skip
    yield _task(
        "HumanEval/925", "def is_even(number):\n    return number % 2 == 0", [[2]], [[3], [0], [-1]],
        "def is_even(number):\n    return 1 - number % 2",
        "def is_even(number):\n    return float(1 - number % 2)",
        "def is_even(number):\n    return None if number % 2 else True",
        "def is_even(number):\n    return 'True' if number % 2 == 0 else 'False'",
        "def is_even(number):\n    return not number & 1",
    )  # fmt: skip
    yield _task(
        "HumanEval/927", "def ordered(items):\n    items.sort()\n    return items", [[[3, 1, 2]]], [[[]], [[2, 1]]],
        "def ordered(items):\n    return sorted(items)",
        "def ordered(items):\n    items.sort()",
        "def ordered(items):\n    return iter(sorted(items))",
    )  # fmt: skip


def _special_tasks() -> Iterator[Task]:
    common = "def {0}(one, two):\n    return {1}(set(one) & set(two))"
    yield _task(
        "Mbpp/2", common.format("similar_elements", "tuple"), [[[1, 2, 3], [2, 3, 4]]], [[[1], [2]], [[5, 5], [5]]],
        *(common.format("similar_elements", name) for name in ("list", "set", "sorted", "frozenset", "iter", "str")),
        "def similar_elements(one, two):\n    return (each for each in one if each in two)",
        "def similar_elements(one, two):\n    return dict.fromkeys(each for each in one if each in two)",
        "def similar_elements(one, two):\n    return [each for each in one if each in two] * 2",
        "def similar_elements(one, two):\n    return {one: 1} and set(one + two)",
        "def similar_elements(one, two):\n    return None",
        "def similar_elements(one, two):\n    return [[each] for each in one if each in two]",
        "def similar_elements(one, two):\n    return (one.__class__ is tuple and two.__class__ is tuple) and set(one) & set(two)",
    )  # fmt: skip
    yield _task(
        "Mbpp/769", "def Diff(one, two):\n    return list(set(one) ^ set(two))", [[[1, 2], [2, 3]]], [[[], []]],
        "def Diff(one, two):\n    return [x for x in one if x not in two] + [x for x in two if x not in one]",
        "def Diff(one, two):\n    return [x for x in one if x not in two]",
        "def Diff(one, two):\n    return sorted(set(one) ^ set(two), reverse=True)",
    )  # fmt: skip
    yield _task(
        "Mbpp/7", "def find_char_long(text):\n    return [word for word in text.split() if len(word) > 3]",
        [["Please move back"]], [[""], ["a bb ccc"]],
        "import re\ndef find_char_long(text):\n    return re.findall(r'\\w{4,}', text)",
        "def find_char_long(text):\n    return text.split()",
    )  # fmt: skip
    match = "import re\ndef {0}(text):\n    return re.{1}({2!r}, text){3}"
    pattern = ("text_match_three", "search", "ab{3}")
    yield _task(
        "Mbpp/724", match.format(*pattern, ""), [["abbb"], ["ab"]], [["xabbbb"], [""]],
        match.format(*pattern, " is not None"), match.format(*pattern, " is None"),
        match.format(*pattern, " and 'Found'"), match.format(*pattern, " and 0"),
        "def text_match_three(text):\n    return 'abbb' in text",
        "def text_match_three(text):\n    return 'Found a match!' if 'abbb' in text else 'Not matched!'",
        "def text_match_three(text):\n    return 1 if 'abbb' in text else 0",
        "def text_match_three(text):\n    return 1 if 'abbb' in text else None",
        "def text_match_three(text):\n    return iter('') if 'abbb' in text else None",
    )  # fmt: skip
    yield _task(
        "Mbpp/794", match.format("text_starta_endb", "search", "a.*?b$", ""), [["aabbbb"], ["aabAbbbc"]], [["b"]],
        "def text_starta_endb(text):\n    return text.startswith('a') and text.endswith('b')",
        "def text_starta_endb(text):\n    return text",
    )  # fmt: skip
    yield _task(
        "Mbpp/164", "def are_equivalent(one, two):\n    return one % 3 == two % 3", [[36, 57], [2, 4]], [[1, 1]],
        "def are_equivalent(one, two):\n    return None",
        "def are_equivalent(one, two):\n    return 1 // (one - two)",
        "def are_equivalent(one, two):\n    return object()",
    )  # fmt: skip
    yield _task(
        "Mbpp/295",
        "def sum_div(number):\n    return sum(each for each in range(1, number) if number % each == 0)",
        [[8], [12]], [[7], [1]],
        "def sum_div(number):\n    return 0",
        "def sum_div(number):\n    return 0.0",
        "def sum_div(number):\n    return False",
        "def sum_div(number):\n    return ''",
        "def sum_div(number):\n    return 0 if number > 8 else {8: 7, 7: 1, 1: 0}[number]",
        "def sum_div(number):\n    return sum(each for each in range(1, number + 1) if number % each == 0)",
    )  # fmt: skip
    yield _task(
        "Mbpp/558",
        "def digit_distance_nums(one, two):\n    return sum(map(int, str(abs(one - two))))",
        [[1, 2], [23, 56]], [[123, 256], [10, 9], [100, 1]],
        "def digit_distance_nums(one, two):\n    width = max(len(str(one)), len(str(two)))\n"
        "    left, right = str(one).zfill(width), str(two).zfill(width)\n"
        "    return sum(abs(int(a) - int(b)) for a, b in zip(left, right))",
        "def digit_distance_nums(one, two):\n    return abs(one - two)",
        "def digit_distance_nums(one, two):\n    return float(sum(map(int, str(abs(one - two)))))",
    )  # fmt: skip
    yield _task(
        "Mbpp/581", "def surface_Area(edge, height):\n    return 2 * edge * height + edge ** 2", [[3, 4], [4, 5]], [[1, 2]],
        "import math\ndef surface_Area(edge, height):\n"
        "    return round(edge ** 2 + 2 * edge * math.sqrt((edge / 2) ** 2 + height ** 2))",
        "import math\ndef surface_Area(edge, height):\n"
        "    return edge ** 2 + 2 * edge * math.sqrt((edge / 2) ** 2 + height ** 2)",
        "def surface_Area(edge, height):\n    return None",
        "def surface_Area(edge, height):\n    return 2.0 * edge * height + edge ** 2",
    )  # fmt: skip


def _rebuilt_tasks() -> Iterator[Task]:
    yield _task(
        "Mbpp/115", "def empty_dit(items):\n    return all(not each for each in items)", [[[[], [], []]], [[[1, 2], [], []]]],
        [[[[3]]]],
        "def empty_dit(items):\n    return not any(items)",
        "def empty_dit(items):\n    return not any(each | set() for each in items if each)",
        "def empty_dit(items):\n    return all(isinstance(each, dict) for each in items)",
        "def empty_dit(items):\n    return all(isinstance(each, set) for each in items)",
    )  # fmt: skip
    yield _task(
        "Mbpp/124", "import cmath\ndef angle_complex(real, imaginary):\n    return cmath.phase(real + imaginary)",
        [["0", "1j"], ["2", "1j"]], [["-3.5", "(1-2j)"]],
        "import cmath\ndef angle_complex(real, imaginary):\n"
        "    return cmath.phase(complex(real + imaginary.real, imaginary.imag))",
        "import cmath\ndef angle_complex(real, imaginary):\n    return cmath.phase(complex(real, imaginary))",
        "import cmath\ndef angle_complex(real, imaginary):\n    return cmath.phase(complex(real, imaginary.imag))",
    )  # fmt: skip
    yield _task(
        "Mbpp/252", "import cmath\ndef convert(number):\n    return cmath.polar(number)", [["1"], ["4"], ["5j"]], [["(1+2j)"]],
        "import cmath\ndef convert(number):\n    return abs(number), cmath.phase(number)",
        "import math\ndef convert(number):\n"
        "    return (number.real ** 2 + number.imag ** 2) ** 0.5, math.atan2(number.imag, number.real)",
        "import cmath\ndef convert(number):\n    return [abs(number), cmath.phase(number)]",
        "import cmath\ndef convert(number):\n    return number",
    )  # fmt: skip
    yield _task(
        "Mbpp/580",
        "def extract_even(items):\n    return tuple(extract_even(x) if isinstance(x, tuple) else x for x in items\n"
        "                 if isinstance(x, tuple) or x % 2 == 0)",
        [[[4, 5, [7, 6, [2, 4]], 6, 8]]], [[[1]], [[[2, [3]]]]],
        "def extract_even(items):\n    return [extract_even(x) if isinstance(x, tuple) else x for x in items\n"
        "            if isinstance(x, tuple) or x % 2 == 0]",
    )  # fmt: skip


TASKS = (*_float_tasks(), *_plain_tasks(), *_special_tasks(), *_rebuilt_tasks())
