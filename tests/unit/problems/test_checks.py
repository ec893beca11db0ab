"""From the tests of a row to checks: what cannot fail is refused, and test functions are checks with names."""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

import pytest

from sandrl.errors import InputError
from sandrl.problems import Problem
from sandrl.problems.checks import checks_of, name_of

RIGHT: dict[str, Any] = {"add": lambda a, b: a + b}
WRONG: dict[str, Any] = {"add": lambda a, b: a - b}


def outcomes(checks: tuple[str, ...], names: dict[str, Any]) -> list[bool]:
    """Whether each check passes, all in one namespace, as a judge runs them."""
    namespace = {"__name__": "checks", **names}
    passed = []
    with mock.patch.dict(sys.modules):
        for check in checks:
            try:
                exec(check, namespace)
            except Exception:  # noqa: BLE001 - whatever a check raises
                passed.append(False)
            else:
                passed.append(True)
    return passed


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        (["# assert add(1, 2) == 3"], "checks nothing"),
        ([""], "checks nothing"),
        (["pass"], "checks nothing"),
        (["'assert add(1, 2) == 3'"], "checks nothing"),
        (["add(1, 2) == 3"], "compares values but asserts nothing: write `assert add(1, 2) == 3`"),
        (["not add(1, 2)"], "compares values but asserts nothing"),
        (["add(1, 2)"], "asserts nothing: every answer that runs without an error would pass"),
        (["print(add(1, 2))"], "asserts nothing"),
        (["x = add(1, 2)"], "asserts nothing"),
        (["import math"], "asserts nothing"),
        (["assert (add(1, 2) == 3, 'wrong')"], "asserts a tuple, which is always true"),
        (["assert True"], "always true"),
        (["assert 1 == 1"], "no name is used"),
        (["assert add(1, 2) == 3 or True"], "always true"),
        (["assert len([1]) == 1"], "uses no name that a completion defines"),
        (["def helper():\n    assert add(1, 2) == 3"], "defines helper and calls nothing"),
        (["def check(candidate):\n    assert candidate(1, 2) == 3"], "defines check and calls nothing"),
        (["def test_a():\n    pass"], "test_a checks nothing"),
        (["def test_a():\n    add(1, 2)"], "no test function asserts anything"),
        (["def test_a():\n    add(1, 2) == 3"], "test_a compares values but asserts nothing"),
        (["def test_a(database):\n    assert add(1, 2) == 3"], "test_a takes `database`, which is not a fixture"),
        (["class Checks:\n    def add(self):\n        assert add(1, 2) == 3"], "defines Checks and calls nothing"),
        (["try:\n    assert add(1, 2) == 3\nexcept AssertionError:\n    pass"], "asserts nothing"),
        (["try:\n    assert add(1, 2) == 3\nexcept Exception as error:\n    x = error"], "asserts nothing"),
        (["if False:\n    assert add(1, 2) == 3"], "asserts nothing"),
    ],
)
def test_a_test_that_cannot_fail_is_refused_with_the_reason(tests: list[str], reason: str) -> None:
    with pytest.raises(InputError) as caught:
        Problem("p", "Add.", tests=tuple(tests))
    assert reason in str(caught.value)
    assert str(caught.value).startswith("field 'tests")


@pytest.mark.parametrize(
    "test",
    [
        "assert add(1, 2) == 3",
        "assert add(1, 2) == 3, 'wrong'",
        "for a, b in [(1, 2)]:\n    assert add(a, b) == 3",
        "if add(1, 2) != 3:\n    raise ValueError",
        "def check(f):\n    assert f(1, 2) == 3\ncheck(add)",
        "import unittest\nunittest.TestCase().assertEqual(add(1, 2), 3)",
        "try:\n    assert add(1, 2) == 3\nexcept AssertionError:\n    raise ValueError",
        "try:\n    add(1, None)\nexcept TypeError:\n    pass\nassert add(1, 2) == 3",
        "try:\n    add(1, 2) < None\nexcept TypeError:\n    pass\nelse:\n    raise KeyError\nassert add(1, 2) == 3",
        "if __name__ == '__main__':\n    assert add(1, 2) == 3",
    ],
)
def test_a_test_that_can_fail_is_one_check(test: str) -> None:
    checks = checks_of([test])
    assert len(checks) == 1
    assert outcomes(checks, RIGHT) == [True]
    assert outcomes(checks, WRONG) == [False]


def test_a_test_that_nothing_passes_rewards_nothing_and_stays() -> None:
    assert checks_of(["assert False"]) == ("assert False",)


def test_the_name_that_is_asked_for_may_be_that_of_a_builtin() -> None:
    assert checks_of(["assert sum(1, 2) == 3"], entry_point="sum")


def test_definitions_are_part_of_the_check_after_them_and_calls_are_checks() -> None:
    checks = checks_of(
        ["import math", "y = 3", "x = add(1, 2)", "assert math.isclose(x, y)", "assert add(1, 1) == 2", "x = 0"]
    )
    assert checks[0] == "import math\ny = 3\nx = add(1, 2)"
    assert outcomes(checks, RIGHT) == [True, True, True]
    assert outcomes(checks, WRONG) == [True, False, False]


def test_a_test_that_is_no_python_stays_for_the_judge_to_refuse() -> None:
    assert checks_of(["assert add(1, 2) =="]) == ("assert add(1, 2) ==",)


def test_humanevals_function_is_called_where_the_entry_point_is_known() -> None:
    checks = checks_of(["def check(candidate):\n    assert candidate(1, 2) == 3"], entry_point="add")
    assert outcomes(checks, RIGHT) == [True]
    assert outcomes(checks, WRONG) == [False]


FILES = {
    "functions": (
        "from pytest import raises\nONE = 1\n\ndef test_sum():\n    assert add(ONE, 2) == 3\n\n"
        "def test_error():\n    with raises(TypeError):\n        add(None, 1)\n\n"
        "if __name__ == '__main__':\n    test_sum()\n    test_error()\n",
        ["test_sum", "test_error"],
        [False, True],
    ),
    "parameters": (
        "import pytest\n\n@pytest.mark.parametrize('a, b, c', [(1, 2, 3), (0, 0, 0), pytest.param(1, 1, 2, id='x')])\n"
        "def test_sum(a, b, c):\n    assert add(a, b) == c\n",
        ["test_sum[0]", "test_sum[1]", "test_sum[2]"],
        [False, True, False],
    ),
    "two parametrize decorators": (
        "import pytest\n\n@pytest.mark.parametrize('a', [1, 2])\n@pytest.mark.parametrize(['b'], [(0,), (5,)])\n"
        "@pytest.mark.slow\ndef test_sum(a, b):\n    assert add(a, b) == a + b\n",
        ["test_sum[0]", "test_sum[1]", "test_sum[2]", "test_sum[3]"],
        [True, False, True, False],
    ),
    "fixtures": (
        "import pytest\n\n@pytest.fixture\ndef one():\n    return 1\n\n@pytest.fixture()\n"
        "def two(one):\n    yield one + 1\n\n"
        "def test_sum(one, two, tmp_path):\n    (tmp_path / 'x').write_text('3')\n"
        "    assert add(one, two) == int((tmp_path / 'x').read_text())\n",
        ["test_sum"],
        [False],
    ),
    "approx": (
        "import pytest\n\ndef test_sum():\n    assert add(0.1, 0.2) == pytest.approx(0.3)\n"
        "    assert [add(0.1, 0.2), {'a': 1}] == [pytest.approx(0.3), {'a': 1}]\n",
        ["test_sum"],
        [False],
    ),
    "class": (
        "class TestAdd:\n    numbers = [1, 2]\n\n    def setup_method(self, method):\n        self.three = 3\n\n"
        "    def test_sum(self):\n        assert add(*self.numbers) == self.three\n\n"
        "    def test_zero(self):\n        assert add(0, 0) == 0\n",
        ["TestAdd.test_sum", "TestAdd.test_zero"],
        [False, True],
    ),
    "test case": (
        "import unittest\n\nclass Common(unittest.TestCase):\n    @classmethod\n"
        "    def setUpClass(cls):\n        cls.three = 3\n\n"
        "    def setUp(self):\n        self.two = 2\n\nclass TestAdd(Common):\n    def test_sum(self):\n"
        "        self.assertEqual(add(1, self.two), self.three)\n\n    def test_error(self):\n"
        "        with self.assertRaises(TypeError):\n            add(None, 1)\n\n    @unittest.skip('not now')\n"
        "    def test_skipped(self):\n        self.fail()\n\nif __name__ == '__main__':\n    unittest.main()\n",
        ["TestAdd.test_sum", "TestAdd.test_error"],
        [False, True],
    ),
    "coroutine": (
        "async def test_sum():\n    assert add(1, 2) == 3\n",
        ["test_sum"],
        [False],
    ),
    "assert beside functions": (
        "assert add(0, 0) == 0\n\ndef test_sum():\n    assert add(1, 2) == 3\n",
        ["", "test_sum"],
        [True, False],
    ),
    "a helper that is named like a test": (
        "def test_add(a, b, c):\n    assert add(a, b) == c\n\ntest_add(1, 2, 3)\n",
        [""],
        [False],
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_each_test_function_is_a_check_with_its_name(kind: str) -> None:
    text, names, of_wrong = FILES[kind]
    checks = checks_of([text])
    assert [name_of(check) for check in checks] == names
    assert outcomes(checks, RIGHT) == [True] * len(names)
    assert outcomes(checks, WRONG) == of_wrong
    # The checks of a problem can be given again, as `dataclasses.replace` does.
    assert checks_of(checks) == checks


FUNCTIONS = "def test_a():\n    assert add(1, 2) == 3\n\ndef test_b():\n    assert add(0, 0) == 0\n\n"
CASE = (
    "import unittest\n\nclass TestAdd(unittest.TestCase):\n"
    "    def test_a(self):\n        self.assertEqual(add(1, 2), 3)\n\n"
    "    def test_b(self):\n        self.assertEqual(add(0, 0), 0)\n\n"
)
LOADED = "unittest.TestLoader().loadTestsFromTestCase(TestAdd)"
# Each with how many checks it consists of: one that asserts something about its own run has one more.
FILES_THAT_RUN_THEMSELVES = {
    "a suite": (f"{CASE}suite = {LOADED}\nunittest.TextTestRunner().run(suite)\n", 2),
    "a suite and an exit status": (
        f"{CASE}if __name__ == '__main__':\n    import sys\n    suite = {LOADED}\n"
        "    result = unittest.TextTestRunner(verbosity=0).run(suite)\n    sys.exit(not result.wasSuccessful())\n",
        2,
    ),
    "a suite and an assert": (
        f"{CASE}import io\nresult = unittest.TextTestRunner(io.StringIO()).run({LOADED})\n"
        "assert result.wasSuccessful() and result.testsRun == 2\n",
        3,
    ),
    "a function that makes a suite": (
        f"{CASE}def suite():\n    tests = unittest.TestSuite()\n"
        "    tests.addTest(TestAdd('test_a'))\n    return tests\n\n"
        "unittest.TextTestRunner().run(suite())\n",
        2,
    ),
    "an exit": (f"{CASE}import sys\nsys.exit(unittest.main())\n", 2),
    "main without an exit": (
        f"{CASE}program = unittest.main(argv=[''], exit=False)\nassert program.result.wasSuccessful()\n",
        2,
    ),
    "imported main": (f"{CASE}from unittest import main as go\ngo()\n", 2),
    "another name of the library": (
        CASE.replace("unittest", "ut").replace("import ut", "import unittest as ut") + "ut.main()\n",
        2,
    ),
    "pytest and an exit": (f"import pytest, sys\n{FUNCTIONS}sys.exit(pytest.main([__file__]))\n", 2),
    "pytest and SystemExit": (f"import pytest as py\n{FUNCTIONS}raise SystemExit(py.main([__file__]))\n", 2),
    "a function": (f"{FUNCTIONS}def main():\n    test_a()\n    test_b()\n    print('passed')\n\nmain()\n", 2),
    "a loop": (f"{FUNCTIONS}for test in [test_a, test_b]:\n    test()\n", 2),
    "a loop that counts": (
        f"{FUNCTIONS}TESTS = [test_a, test_b]\npassed = 0\nfor test in TESTS:\n    test()\n    passed += 1\n"
        "assert passed == len(TESTS)\n",
        3,
    ),
    "try": (f"{FUNCTIONS}try:\n    test_a()\nexcept AssertionError as error:\n    print('failed', error)\n", 2),
    "a test of all": (f"{FUNCTIONS}def test_all():\n    test_a()\n    test_b()\n\ntest_all()\n", 3),
    "a helper that runs a test": (f"{FUNCTIONS}def run():\n    test_a()\n\ndef test_c():\n    run()\n", 3),
    "an assert of its own": (f"{FUNCTIONS}def main():\n    test_b()\n    assert add(5, 5) == 10\n\nmain()\n", 3),
    "an expression": (f"{FUNCTIONS}print(test_a(), test_b())\n", 2),
    "a condition": (f"{FUNCTIONS}if test_a() is None and test_b() is None:\n    print('passed')\n", 2),
    "a coroutine": (
        "import asyncio\n\nasync def test_a():\n    assert add(1, 2) == 3\n\n"
        "async def main():\n    await test_a()\n\nasyncio.run(main())\n",
        1,
    ),
    "an object": ("class TestAdd:\n    def test_a(self):\n        assert add(1, 2) == 3\n\nTestAdd().test_a()\n", 1),
    "a test class with a base": (
        "class TestBase:\n    one = 1\n\n    def test_a(self):\n        assert add(self.one, 2) == 3\n\n"
        "class TestMore(TestBase):\n    def test_b(self):\n        assert add(self.one, 1) == 2\n",
        2,
    ),
}


@pytest.mark.parametrize("kind", FILES_THAT_RUN_THEMSELVES)
def test_a_file_that_runs_its_own_tests_is_as_good_as_one_that_leaves_it_to_a_runner(kind: str) -> None:
    text, count = FILES_THAT_RUN_THEMSELVES[kind]
    checks = checks_of([text])
    assert len(checks) == count
    assert all(map(name_of, checks))
    # Each by itself, too: no check rests on the names of another.
    for some in (checks, *((check,) for check in checks)):
        assert outcomes(some, RIGHT) == [True] * len(some)
        assert not all(outcomes(some, WRONG)) or "add(0, 0)" in some[0]
    assert not all(outcomes(checks, WRONG))
    assert checks_of(checks) == checks


def test_what_only_looks_like_a_run_of_tests_stays_a_check() -> None:
    text = (
        f"{CASE}for case in (TestAdd,):\n    unittest.main(defaultTest=case.__name__, exit=False)\n\n"
        "for case in (3, 4):\n    assert add(case, 0) == case\n"
    )
    checks = checks_of([text])
    assert [name_of(check) for check in checks] == ["", "TestAdd.test_a", "TestAdd.test_b"]
    assert outcomes(checks, RIGHT) == [True] * 3
    assert not outcomes(checks, {"add": lambda a, b: a + b if b else 0})[0]


def test_no_test_function_depends_on_another() -> None:
    text, _, _ = FILES["test case"]
    last = checks_of([text])[-1]
    assert outcomes((last,), RIGHT) == [True]
    assert "test_sum" not in last


def test_a_problem_names_its_checks() -> None:
    text, names, _ = FILES["functions"]
    assert Problem("p", "Add.", tests=(text,)).check_names == tuple(names)
    assert Problem("p", "Add.", tests=("assert add(1, 2) == 3",)).check_names == ("",)
