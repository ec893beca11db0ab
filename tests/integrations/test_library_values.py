"""Values of NumPy and pandas in checks: as in plain Python, judged in another process, and no false one is believed."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandrl.events.results import Trust
from sandrl.judge.guest.libraries import FORMS
from sandrl.judge.guest.values import Decoder, Encoder
from sandrl.problems import Problem
from sandrl.redteam import EXPLOITS, attack
from sandrl.rewards import ScoreOptions
from sandrl.runtime import daemon
from sandrl.sandboxes import Job, connect, new_job_id
from sandrl.sandboxes.providers.protocol import Packages
from sandrl.settings import RuntimeKind, load_settings
from tests.honest.comparison import compare
from tests.honest.entries import load_entries
from tests.support.wheels import Index

pytestmark = pytest.mark.needs("numpy", "pandas")

# Expressions of values that cross as data.
VALUES = """\
[np.dtype(code).type(3) for code in '?bBhHiIlLefdgFDG']
np.float64("nan"), np.float32("inf"), np.str_("ab"), np.str_(""), np.str_("a\\0"), np.bytes_(b"ab")
np.datetime64("2020-01-02T03", "h"), np.datetime64("NaT"), np.timedelta64(5, "D")
list(np.arange(40)), list(np.linspace(0, 1, 30)), [np.True_] * 20, {np.int8(1): np.float16(2)}
np.array(5), np.array([]), np.zeros((0, 3)), np.ones((2, 3, 4)), np.arange(6)[::-2], np.eye(3).T, np.array([1, 2], ">i4")
np.array([True, False]), np.array(["a", "bcd"]), np.array([b"a"]), np.array(["2020-01-01", "NaT"], "M8[D]")
np.array([1, None, "x", [1], (2,), np.int8(1), np.array([1, 2])], dtype=object), np.broadcast_to(3, (2, 2))
np.dtype("int64"), np.dtype("U3"), np.dtype(object), np.dtype(">f4"), np.dtype("M8[ns]")
pd.Timestamp("2020-01-02 03:04:05.678"), pd.Timestamp("2020-07-02", tz="Europe/Berlin"), pd.Timestamp(0, tz="UTC")
pd.Timedelta("3h"), pd.NaT, pd.NA, pd.Interval(0, 2), pd.Interval(pd.Timestamp(0), pd.Timestamp(1)), pd.Period("2020-03", "M")
pd.Series([1, 2]), pd.Series([1.5, np.nan], name="x", index=["a", "b"]), pd.Series(["a", None]), pd.Series([], dtype=float)
pd.Series([1, "a", None, [1]], dtype=object), pd.Series(["a", "b"], dtype=object), pd.Series([1], name=("a", 1))
pd.Series(pd.date_range("2020", periods=3)), pd.Series(pd.date_range("2020", periods=3, tz="Europe/Berlin"))
pd.Series(["a", "b", "a"], dtype="category"), pd.Series(pd.Categorical([1, None], [1, 2], ordered=True))
pd.Series([1, None], dtype="Int64"), pd.Series([True, None], dtype="boolean"), pd.Series([1.5, None], dtype="Float32")
pd.Series(["a", None], dtype="string"), pd.Series(pd.timedelta_range("1h", periods=2)), pd.Series(pd.interval_range(0, 3))
pd.Series(pd.period_range("2020", periods=2, freq="D")), pd.Series([1, 2], index=pd.RangeIndex(5, 9, 2))
pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), pd.DataFrame(), pd.DataFrame(columns=["a"]), pd.DataFrame(index=[1, 2])
pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), pd.DataFrame({"a": [1, 2]}, index=pd.date_range("2020", periods=2))
pd.DataFrame({"a": [1, 2, 1], "b": [1.0, 2, 3]}).groupby(["a", "b"]).size(), pd.DataFrame({"a": [1, 2]}).describe()
pd.DataFrame({("x", 1): [1], ("x", 2): ["a"]}), pd.DataFrame({"a": [1]}).dtypes, pd.Series(["x", "y"]).unique()
pd.Index([1, 2]), pd.Index(["a"], name="n"), pd.RangeIndex(3), pd.CategoricalIndex(["a"]), pd.IntervalIndex.from_breaks([0, 1])
pd.MultiIndex.from_product([[1, 2], ["a", "b"]], names=["x", None]), pd.period_range("2020", periods=2, freq="M")
pd.date_range("2020", periods=3, freq="W"), pd.timedelta_range("1h", periods=3, freq="h"), pd.date_range("2020", periods=2, tz="UTC")
pd.array([1, None]), pd.Categorical(["a"]), pd.CategoricalDtype(["a"]), pd.StringDtype(), pd.DatetimeTZDtype("ns", "UTC")
""".splitlines()

FALSE_PARTS: list[tuple[tuple[str, str], tuple[Any, ...]]] = [
    (("numpy", "ndarray"), ("<i8", (2,), bytes(8), True)),
    (("numpy", "ndarray"), ("<i8", (-1, -1), bytes(8), True)),
    (("numpy", "ndarray"), ("<i8", (1 << 40, 0), b"", True)),
    (("numpy", "ndarray"), ("<U0", (1 << 30,), b"", True)),
    (("numpy", "ndarray"), ("<U1", (1,), b"\xff" * 4, True)),
    (("numpy", "ndarray"), ("|O", (1,), bytes(8), True)),
    (("numpy", "ndarray"), ("|O", (2,), (1,), True)),
    (("numpy", "ndarray"), ("|V8", (1,), bytes(8), True)),
    (("numpy", "ndarray"), ("i8,i8", (1,), bytes(16), True)),
    (("numpy", "ndarray"), ("<i8", [1], bytes(8), True)),
    (("numpy", "generic"), ("|O", (1,))),
    (("numpy", "generic"), ("U", b"a")),
    (("numpy", "dtype"), ("O,O",)),
    (("numpy", "dtype"), ("|V8",)),
    (("numpy", "dtype"), (["a"],)),
    (("pandas", "Index"), ("range", 0, 1 << 60, 1, None)),
    (("pandas", "Index"), ("levels", (), (), ())),
    (("pandas", "Index"), ("index", ("array", "<M8[ns]", (2,), bytes(16), True), None, "D")),
    (("pandas", "Series"), (("array", "<i8", (2,), bytes(16), True), ("range", 0, 1, 1, None), None)),
    (("pandas", "Series"), (("texts", "python", "nan", (1,)), ("range", 0, 1, 1, None), None)),
    (("pandas", "Timestamp"), ("<M8[ns]", bytes(8), "../../etc/localtime")),
    (("pandas", "Timestamp"), ("<i8", bytes(8))),
    (("pandas", "Period"), ("1", "M")),
    (("pandas", "Period"), (1, "M; import os")),
    (("pandas", "Interval"), (object(), object(), "left")),
    (("pandas", "array"), ("categories", ("|i1", (1,), b"\x05", True), ("range", 0, 1, 1, None), False)),
]


def no_objects(*_: object) -> Any:
    raise AssertionError("a value of a library needs no proxy")


def crossed(value: object) -> Any:
    return Decoder(Encoder(no_objects).encode(value), no_objects).whole()


def form(value: Any) -> object:
    """A value as plain tuples and texts, with the types of all of its parts."""
    import numpy as np
    import pandas as pd

    name = type(value).__name__
    if isinstance(value, list | tuple):
        return name, [form(item) for item in value]
    if isinstance(value, dict):
        return name, [(form(key), form(item)) for key, item in value.items()]
    if isinstance(value, np.ndarray):
        return (
            name,
            value.dtype.str,
            value.shape,
            value.flags.writeable,
            [form(item) for item in value.ravel().tolist()],
        )
    if isinstance(value, pd.DataFrame):
        return name, form(value.columns), form(value.index), [form(value.iloc[:, at]) for at in range(value.shape[1])]
    if isinstance(value, pd.Series):
        return name, repr(value.dtype), form(value.index), form(value.name), form(value.tolist())
    if isinstance(value, pd.Index):
        return name, str(value.dtype), form(list(value.names)), form(value.tolist()), str(getattr(value, "freq", None))
    return name, repr(value)


def each_value() -> Iterator[tuple[str, object]]:
    import numpy as np
    import pandas as pd

    for line in VALUES:
        for value in eval(f"[{line}]", {"np": np, "pd": pd}):
            yield line, value


def test_values_of_libraries_cross_as_equal_values_of_equal_types() -> None:
    values = list(each_value())
    assert len(values) > 80
    assert [(line, form(value)) for line, value in values if form(crossed(value)) != form(value)] == []


def test_containers_of_values_of_libraries_cross() -> None:
    values = [value for _, value in each_value()]
    assert form(crossed({"all": values, "pairs": tuple(enumerate(values))})) == form(
        {"all": values, "pairs": tuple(enumerate(values))}
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda np, pd: np.ones(2).view(type("Own", (np.ndarray,), {})),
        lambda np, pd: np.zeros(2, [("a", "i4")]),
        lambda np, pd: type("Own", (np.float64,), {})(1.5),
        lambda np, pd: type("int64", (), {"__module__": "numpy", "dtype": np.dtype("i8"), "__class__": np.int64})(),
        lambda np, pd: type("Own", (pd.DataFrame,), {})({"a": [1]}),
        lambda np, pd: np.void(b"ab"),
        lambda np, pd: pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])}),
    ],
)
def test_objects_of_other_classes_are_no_data(make: Callable[[Any, Any], object]) -> None:
    import numpy as np
    import pandas as pd

    with pytest.raises(AssertionError, match="needs no proxy"):
        crossed(make(np, pd))


@pytest.mark.parametrize(("place", "parts"), FALSE_PARTS, ids=map(str, range(len(FALSE_PARTS))))
def test_false_parts_are_refused(place: tuple[str, str], parts: tuple[Any, ...]) -> None:
    objects: list[object] = []

    def describe(value: object, encoder: Encoder, levels: int) -> None:
        if type(value) is Sent:
            encoder.parts.append(b"y")
            encoder.text(place[0])
            encoder.text(place[1])
            encoder.value(parts, levels)
        else:
            encoder.parts.append(b"o")
            objects.append(value)

    class Sent:
        pass

    assert place in FORMS
    data = Encoder(describe).encode(Sent())
    with pytest.raises(ValueError, match=r".+"):
        Decoder(data, lambda tag, decoder: objects[0]).whole()


@pytest.fixture(scope="module")
def job(index: Index) -> Iterator[Job]:
    index.add_installed("numpy", "pandas")
    settings = load_settings()
    connection = connect(settings, runtime=RuntimeKind.LOCAL, packages=Packages(("numpy", "pandas")))
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=900) as job:
        yield job
    daemon.stop(settings.state_dir)


def test_the_judge_agrees_with_plain_python_and_is_isolated(job: Job) -> None:
    comparisons = compare([entry for entry in load_entries() if entry.problem.packages], job)
    assert len(comparisons) > 20
    assert [f"{found.entry.id}: {found.plain_failure or 'passes'}" for found in comparisons if not found.is_sound] == []
    assert [str(found) for found in comparisons if not found.agrees] == []
    # A generator of numbers is no data: a check that passes one to a completion shares its process.
    together = {found.entry.id for found in comparisons if found.result.trust is not Trust.ISOLATED}
    assert together == {"library_values/generator-of-numbers-after-another-assert"}


PROBLEMS = [
    Problem("sum", "", ("assert total([1, 2]) == 3",), reference="def total(xs):\n    return sum(xs)\n"),
    Problem(
        "rows",
        "",
        ("import numpy as np\nassert (np.array([3]) == rows([[1, 2]])).all()",),
        reference="import numpy as np\ndef rows(xs):\n    return np.sum(xs, axis=1)\n",
    ),
    Problem(
        "close",
        "",
        ("import numpy as np\nassert np.allclose(halves([2]), np.array([1]))",),
        reference="import numpy as np\ndef halves(xs):\n    return np.array(xs) / 2\n",
    ),
    Problem(
        "same",
        "",
        ("import numpy as np\nnp.testing.assert_array_equal(ones(1), np.array([1]))",),
        reference="import numpy as np\ndef ones(n):\n    return np.ones(n)\n",
    ),
    Problem(
        "table",
        "",
        ("import pandas as pd\nassert sums(pd.DataFrame({'a': [20, 17]})) == 37",),
        reference="def sums(table):\n    return table['a'].sum()\n",
    ),
]


@pytest.mark.timeout(900)
def test_exploits_of_values_of_libraries_are_never_rewarded(job: Job) -> None:
    exploits = [exploit for exploit in EXPLOITS if exploit.group == "library value"]
    report = attack(PROBLEMS, exploits, job=job, options=ScoreOptions(concurrency=2))
    assert len(report.attempts) == len(PROBLEMS) * len(exploits)
    assert [(attempt.exploit.name, attempt.target.problem.task_id) for attempt in report.rewarded] == []
    assert [result.detail for result in report.unscorable] == []
    assert [neighbour.detail for neighbour in report.disturbed] == []
    assert {attempt.result.trust for attempt in report.attempts} == {Trust.ISOLATED}
