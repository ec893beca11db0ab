# === scalar-equals-number packages=numpy
import numpy as np
def total(xs):
    return np.sum(xs)
# --- wrong
import numpy as np
def total(xs):
    return np.sum(xs) + 1
# --- asserts
assert total([1, 2]) == 3
assert 3 == total([1, 2])
assert total([1]) + 1 == 2
assert [total([1])] == [1]
assert (total([1]), total([2])) == (1, 2)
assert {total([1]): total([2])} == {1: 2}
assert {total([1]), total([2])} == {1, 2}
assert total([5]) > 4 and 4 < total([5])
assert total([1, 2]) in (1, 2, 3)

# === truth-values packages=numpy
import numpy as np
def is_negative(x):
    return np.int64(x) < 0
# --- asserts
assert is_negative(-1) == True
assert not is_negative(1)
assert [is_negative(-1)] == [True]

# === index-of-largest packages=numpy
import numpy as np
def best(xs):
    return np.argmax(xs)
# --- test
xs = [5, 9, 1]
assert xs[best(xs)] == 9
assert best(xs) == 1
assert list(range(best(xs))) == [0]

# === small-floats packages=numpy
import numpy as np
def mean(xs):
    return np.float32(np.mean(xs))
# --- test
import math
assert math.isclose(mean([1, 2]), 1.5)
assert abs(mean([1, 2]) - 1.5) < 1e-6
assert round(mean([1, 2]), 1) == 1.5
assert f"{mean([1, 2]):.2f}" == "1.50"

# === containers-of-scalars packages=numpy
import numpy as np
def facts(xs):
    a = np.array(xs)
    return {"sum": a.sum(), "mean": a.mean(), "any": a.any(), "items": list(a), "pair": (a.min(), a.max())}
# --- test
assert facts([1, 2]) == {"sum": 3, "mean": 1.5, "any": True, "items": [1, 2], "pair": (1, 2)}
# --- test
import numpy as np
found = facts(range(40))
assert found["items"] == list(range(40))
assert isinstance(found["sum"], np.integer) and isinstance(found["mean"], float)

# === arrays packages=numpy
import numpy as np
def doubled(xs):
    return np.asarray(xs) * 2
# --- test
import numpy as np
r = doubled([[1, 2], [3, 4]])
assert r.shape == (2, 2) and r.dtype == np.int64 and r.tolist() == [[2, 4], [6, 8]]
assert (r == np.array([[2, 4], [6, 8]])).all() and (np.array([[2, 4], [6, 8]]) == r).all()
assert np.array_equal(r, [[2, 4], [6, 8]]) and r.sum() == 20 and isinstance(r, np.ndarray)
np.testing.assert_allclose(r / 2, [[1, 2], [3, 4]])
# --- test
import numpy as np
r = doubled(np.array([1.5, np.nan]))
assert np.isnan(r[1]) and r[0] == 3

# === arrays-by-the-name-of-the-solution packages=numpy
import numpy as np
def doubled(xs):
    return np.asarray(xs) * 2
# --- wrong
import numpy as np
def doubled(xs):
    return np.asarray(xs) * 3
# --- asserts
assert np.allclose(doubled([1, 2]), [2, 4])

# === array-is-no-list packages=numpy wrong
import numpy as np
def doubled(xs):
    return np.asarray(xs) * 2
# --- asserts
assert doubled([1, 2]) == [2, 4]

# === array-changed-in-place packages=numpy
def order(a):
    a.sort()
def add(a, n):
    a += n
    return a
# --- test
import numpy as np
a = np.array([3, 1, 2])
assert order(a) is None and a.tolist() == [1, 2, 3]
# --- test
import numpy as np
a = np.array([3, 1, 2])
b = add(a, 1)
assert b is a and a.tolist() == [4, 2, 3]
a[0] = 9
assert add(a, 1)[0] == 10
# --- test
import numpy as np
a = np.arange(20000)[::-1].copy()
order(a)
assert a[0] == 0 and (np.diff(a) == 1).all()

# === array-left-alone packages=numpy
import numpy as np
def ordered(a):
    return np.sort(a)
# --- test
import numpy as np
a = np.array([3, 1, 2])
b = ordered(a)
assert b is not a and a.tolist() == [3, 1, 2] and b.tolist() == [1, 2, 3]

# === functions-of-the-library packages=numpy
import numpy as np
def apply(function, xs, **how):
    return function(np.asarray(xs), **how)
# --- test
import numpy as np
assert apply(np.mean, [1, 2, 3]) == 2.0
assert apply(np.add.reduce, [1, 2]) == 3
assert apply(np.cumsum, [1, 2], dtype=np.float32).dtype == np.float32
assert apply(lambda a: a.max(), [1, 7]) == 7

# === attributes-that-are-arrays packages=numpy entry_point=Stats
# --- setup
import numpy as np
# --- code
import numpy as np
class Stats:
    def __init__(self, data):
        self.data = np.array(data)
    def mean(self):
        return self.data.mean()
    def double(self):
        self.data *= 2
# --- test
s = Stats([1, 2, 3])
data = s.data
assert s.mean() == 2 and (data == np.array([1, 2, 3])).all()
data[0] = 10
assert s.mean() == 5
s.double()
assert data.tolist() == [20, 4, 6]

# === tables packages=numpy,pandas
import pandas as pd
def totals(rows):
    table = pd.DataFrame(rows)
    table["total"] = table.sum(axis=1, numeric_only=True)
    return table
# --- test
import pandas as pd
t = totals([{"a": 1, "b": 2, "name": "x"}, {"a": 3, "b": 4, "name": "y"}])
assert isinstance(t, pd.DataFrame) and list(t.columns) == ["a", "b", "name", "total"]
assert t["total"].tolist() == [3, 7] and t["total"].iloc[0] == 3 and t.shape == (2, 4)
assert t[t["name"] == "y"]["total"].sum() == 7
pd.testing.assert_series_equal(t["total"], pd.Series([3, 7], name="total"))
expected = pd.DataFrame({"a": [1, 3], "b": [2, 4], "name": ["x", "y"], "total": [3, 7]})
pd.testing.assert_frame_equal(t, expected)
assert t.equals(expected)

# === table-is-wrong packages=numpy,pandas wrong
import pandas as pd
def totals(rows):
    return pd.DataFrame(rows)
# --- test
import pandas as pd
pd.testing.assert_frame_equal(totals([{"a": 1}]), pd.DataFrame({"a": [2]}))

# === table-changed-in-place packages=numpy,pandas
def extend(table):
    table["double"] = table["a"] * 2
    table.sort_values("a", inplace=True)
    return table
# --- test
import pandas as pd
t = pd.DataFrame({"a": [2, 1]})
assert extend(t) is t
assert t["double"].tolist() == [2, 4] and list(t.index) == [1, 0]

# === grouped-tables packages=numpy,pandas
import pandas as pd
def grouped(table):
    return table.groupby("k")["n"].agg(["sum", "mean"]), table.groupby(["k", "n"]).size(), table["k"].value_counts()
# --- test
import pandas as pd
table = pd.DataFrame({"k": ["x", "y", "x"], "n": [1, 2, 3]})
by_key, by_both, counts = grouped(table)
assert by_key.loc["x", "sum"] == 4 and by_key.index.name == "k" and by_key.to_dict()["mean"] == {"x": 2.0, "y": 2.0}
assert by_both.loc[("x", 1)] == 1 and list(by_both.index) == [("x", 1), ("x", 3), ("y", 2)]
assert counts["x"] == 2 and counts.idxmax() == "x"

# === times packages=numpy,pandas
import pandas as pd
def times(text, zone=None):
    time = pd.Timestamp(text, tz=zone)
    return time, time - pd.Timestamp("2020-01-01", tz=zone), pd.date_range(time, periods=2), pd.Period(text, freq="M"), pd.NaT
# --- test
import datetime
import pandas as pd
time, since, both, month, never = times("2020-01-03")
assert time == pd.Timestamp("2020-01-03") == datetime.datetime(2020, 1, 3) and time.day == 3
assert since == datetime.timedelta(days=2) and since.days == 2
pd.testing.assert_index_equal(both, pd.date_range("2020-01-03", periods=2))
assert month == pd.Period("2020-01", freq="M") and never is pd.NaT
# --- test
import pandas as pd
time = times("2020-07-03", "Europe/Berlin")[0]
assert time == pd.Timestamp("2020-07-02 22:00", tz="UTC") and time.hour == 0

# === missing-values packages=numpy,pandas
import pandas as pd
def columns():
    return {
        "numbers": pd.Series([1, None], dtype="Int64"), "texts": pd.Series(["a", None]),
        "kinds": pd.Series(["a", "b", "a"], dtype="category"), "objects": pd.Series([1, "a", [2]], dtype=object),
        "nothing": pd.NA,
    }
# --- test
import pandas as pd
found = columns()
assert found["numbers"].sum() == 1 and found["numbers"].isna().tolist() == [False, True]
assert found["texts"].isna().sum() == 1 and found["texts"][0] == "a"
assert list(found["kinds"].cat.categories) == ["a", "b"] and found["objects"].tolist() == [1, "a", [2]]
assert found["nothing"] is pd.NA

# === kinds-of-arrays packages=numpy
import numpy as np
def kinds():
    return np.matrix([[1, 2]]), np.ma.array([1, 2, 5], mask=[0, 0, 1])
# --- test
matrix, masked = kinds()
assert matrix.tolist() == [[1, 2]] and matrix.shape == (1, 2)
assert masked.sum() == 3

# === generator-of-numbers-after-another-assert packages=numpy
def draw(rng):
    return 1 if rng is None else rng.normal(size=3)
# --- test
import numpy as np
def check(candidate):
    assert candidate(None) == 1
    assert candidate(np.random.default_rng(1)).shape == (3,)
check(draw)

# === table-from-a-text-in-memory packages=numpy,pandas
import pandas as pd


def read(file):
    return pd.read_csv(file)["a"].tolist()


def write(file):
    pd.DataFrame({"a": [1]}).to_csv(file, index=False)
# --- test
import io
assert read(io.StringIO("a,b\n1,2")) == [1]
file = io.StringIO()
write(file)
assert file.getvalue() == "a\n1\n"
