"""Values of NumPy and pandas cross between the processes as data, from which the receiver's library makes values again.

So the judge's library compares, never the completion's. Only types of the two libraries themselves are data, recognized
by identity. An object of a derived class, or with items that are not data (structured types), crosses as a proxy. The
receiver verifies everything: types of items must be in a fixed list, sizes must fit the bytes, and nothing is
unpickled. A process imports a library when the first value of it arrives, and only if the sandbox has packages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

# The kinds of items that are data: truth values, numbers, times, texts and bytes.
DATA_KINDS = frozenset("biufcmMSU")
_NUMBERS = frozenset("biufc")
_CODE_CHARACTERS = frozenset("<>|[]0123456789abcdefghijklmnopqrstuvwxyzACDMOSUWY")
_FREQUENCY_CHARACTERS = frozenset("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_ZONE_CHARACTERS = _FREQUENCY_CHARACTERS | frozenset("+_/")
MOST_DIMENSIONS = 32
MOST_CHARACTER = 0x10FFFF
# A range of rows takes no bytes however long it is, and the judge may list it.
MOST_ROWS = 1 << 27
_SIDES = frozenset(("left", "right", "both", "neither"))
_EXTENSIONS = {"i": "IntegerArray", "u": "IntegerArray", "f": "FloatingArray", "b": "BooleanArray"}
_TABLES = ("Series", "DataFrame")
CHANGEABLE_IN_LIBRARY = frozenset((("numpy", "ndarray"), ("pandas", "Series"), ("pandas", "DataFrame")))


# The types of the libraries that are loaded here whose values are data, and the names that these cross under.
_kinds: dict[str, list[tuple[Any, str]]] = {}
# The same by the `id` of a type.
_places: dict[int, tuple[str, str]] = {}


def library(name: str) -> Any:
    """One of the libraries; ValueError if it is not there. Without packages none is: a file could be anybody's."""
    if sys.flags.no_site:
        raise ValueError(f"{name} is not among the packages")
    try:
        return __import__(name)
    except ImportError as error:
        raise ValueError(f"{name} is not among the packages") from error


def learn_kinds(name: str) -> None:
    """Takes note of the types of a library whose values are data, once it is loaded here."""
    module: Any = sys.modules.get(name)
    if name in _kinds or module is None:
        return
    try:
        found = kinds_of_numpy(module) if name == "numpy" else kinds_of_pandas(module)
    except AttributeError:
        return  # a part of it, or something else of that name
    # Versions of a library do not have all of them.
    _kinds[name] = [(kind, word) for kind, word in found if isinstance(kind, type)]
    _places.update({id(kind): (name, word) for kind, word in _kinds[name]})


def kinds_of_numpy(numpy: Any) -> list[tuple[Any, str]]:
    kinds = {*numpy.sctypeDict.values()} - {numpy.void, numpy.object_}
    found = [(numpy.ndarray, "ndarray"), *[(kind, "generic") for kind in kinds]]
    return found + [(type(numpy.dtype(kind)), "dtype") for kind in (*kinds, object)]


def kinds_of_pandas(pandas: Any) -> list[tuple[Any, str]]:
    names = (*_TABLES, "Timestamp", "Timedelta", "Period", "Interval")
    found = [(getattr(pandas, name, None), name) for name in names]
    found += [(type(pandas.NaT), "NaT"), (type(pandas.NA), "NA")]
    for name in dir(pandas):
        kind = getattr(pandas, name)
        if name[-5:] == "Index" and isinstance(kind, type) and issubclass(kind, pandas.Index):
            found.append((kind, "Index"))
        elif name[-5:] == "Dtype":
            found.append((kind, "dtype"))
    found += [(getattr(pandas.arrays, name), "array") for name in dir(pandas.arrays) if name[:1] != "_"]
    for storage in ("python", "pyarrow"):
        # How texts are kept differs between versions; these have no public names.
        for missing in (pandas.NA, float("nan")):
            try:
                found.append((type(pandas.array([], dtype=pandas.StringDtype(storage, missing))), "array"))
            except (TypeError, ImportError, ValueError):
                continue
    return found


def place_in_library(kind: Any) -> tuple[str, str] | None:
    """Under which name values of exactly this type cross as data; None if they do not."""
    if "numpy" not in sys.modules:
        return None
    learn_kinds("numpy")
    learn_kinds("pandas")
    return _places.get(id(kind))


def class_in_library(kind: Any) -> tuple[str, str] | None:
    """Where a type is found whose values are data: both sides have it."""
    place = place_in_library(kind)
    name = type.__dict__["__name__"].__get__(kind)
    is_there = place is not None and getattr(sys.modules.get(place[0]), name, None) is kind
    return (place[0], name) if place is not None and is_there else None


def parts_in_library(place: tuple[str, str], value: Any) -> tuple[Any, ...] | None:
    """What a value is rebuilt from; None if it cannot cross as data."""
    try:
        return FORMS[place][0](value)
    except (AttributeError, ImportError, LookupError, TypeError, ValueError, NotImplementedError):
        return None


def rebuilt_in_library(place: tuple[str, str], parts: tuple[Any, ...]) -> Any:
    try:
        return FORMS[place][1](*parts)
    except (AttributeError, ImportError, LookupError, TypeError, NotImplementedError, ArithmeticError) as error:
        raise ValueError(f"no {place[1]} of {place[0]}") from error


def change_in_library(kind: Any) -> Callable[[Any, Any], None] | None:
    """How a value of exactly this type is given the content of another one; None if it cannot be changed."""
    place = place_in_library(kind)
    if place not in CHANGEABLE_IN_LIBRARY:
        return None
    return replace_array if place == ("numpy", "ndarray") else replace_table


def replace_array(old: Any, new: Any) -> None:
    """Gives an array the items of another one; ValueError if it cannot have them."""
    if old.dtype != new.dtype:
        raise ValueError("an array does not change the type of its items")
    if old.shape != new.shape:
        old.resize(new.shape, refcheck=False)
    is_fixed = not old.flags.writeable
    if is_fixed:
        old.flags.writeable = True
    old[...] = new
    if is_fixed:
        old.flags.writeable = False


def replace_table(old: Any, new: Any) -> None:
    old._update_inplace(new)
    if type(old).__name__ == "Series":
        old.name = new.name


def is_same_data(one: Any, other: Any) -> bool:
    """Whether two values have been made of the same parts; objects are compared by identity."""
    if type(one) is not type(other):
        return False
    if type(one) is tuple:
        return len(one) == len(other) and all(map(is_same_data, one, other))
    return one is other or (type(one) in (str, bytes, int, float, bool) and one == other)


def plain_number(value: Any) -> Any:
    """A number of NumPy as one of Python's; any other value as it is."""
    if place_in_library(type(value)) == ("numpy", "generic") and value.dtype.kind in _NUMBERS:
        return value.item()
    return value


# NumPy


def packed_numbers(kind: Any, items: Any) -> tuple[str, bytes] | None:
    """Many numbers of exactly one type of NumPy's: the type and their bytes; None if they are something else."""
    if place_in_library(kind) != ("numpy", "generic"):
        return None
    numpy = sys.modules["numpy"]
    dtype = numpy.dtype(kind)
    return (dtype.str, numpy.array(items, dtype).tobytes()) if dtype.kind in _NUMBERS else None


def array_parts(array: Any) -> tuple[Any, ...]:
    kind = array.dtype.kind
    if kind == "O":
        return "|O", array.shape, tuple(array.ravel().tolist()), bool(array.flags.writeable)
    if kind not in DATA_KINDS:
        raise ValueError("the items of the array are not data")
    return array.dtype.str, array.shape, array.tobytes(), bool(array.flags.writeable)


def dtype_of(code: str) -> Any:
    """A type of items; ValueError if its items are not data."""
    if type(code) is not str or not _CODE_CHARACTERS.issuperset(code):
        raise ValueError("not a type of items")
    dtype = library("numpy").dtype(code)
    if dtype.str != code or dtype.kind not in DATA_KINDS | {"O"}:
        raise ValueError("items of this type are not data")
    return dtype


def array_of(code: str, shape: tuple[int, ...], data: Any, is_writeable: bool = True) -> Any:
    """An array; ValueError if the items do not fill the shape, or are none of their type."""
    dtype, size = dtype_of(code), 1
    if type(shape) is not tuple or len(shape) > MOST_DIMENSIONS:
        raise ValueError("no shape")
    for length in shape:
        if type(length) is not int or not 0 <= length < 1 << 31:
            raise ValueError("no length")
        size *= length
    numpy = library("numpy")
    if dtype.kind == "O":
        if type(data) is not tuple or len(data) != size:
            raise ValueError("another number of items than the shape has")
        made = numpy.empty(size, dtype)
        for number, item in enumerate(data):
            made[number] = item
        made = made.reshape(shape)
    else:
        if type(data) is not bytes or len(data) != size * dtype.itemsize or (size and not dtype.itemsize):
            raise ValueError("another number of bytes than the shape has")
        # A copy owns its items, so that it can be changed.
        made = numpy.frombuffer(data, dtype).reshape(shape).copy() if size else numpy.empty(shape, dtype)
        if dtype.kind == "b":
            made = made.view("u1") != 0
        elif dtype.kind == "U" and size and int(made.view(dtype.str[0] + "u4").max()) > MOST_CHARACTER:
            raise ValueError("a character that there is not")
    if is_writeable is not True:
        made.flags.writeable = False
    return made


def scalar_parts(value: Any) -> tuple[Any, ...]:
    kind = value.dtype.kind
    if kind in "SU":
        # As an item of an array it would lose zeros at its end.
        return kind, value.item()
    if kind not in DATA_KINDS:
        raise ValueError("no data")
    return value.dtype.str, value.tobytes()


def scalar_of(code: str, data: Any) -> Any:
    if code in ("S", "U"):
        if type(data) is not (str if code == "U" else bytes):
            raise ValueError("no text")
        return library("numpy").str_(data) if code == "U" else library("numpy").bytes_(data)
    if code == "|O":
        raise ValueError("no data")
    return array_of(code, (1,), data)[0]


# pandas


def zone_part(zone: Any) -> Any:
    """A time zone as it crosses: one of the standard library, or the name of one of `pytz`."""
    if zone is None or is_standard_zone(zone):
        return zone
    if type(zone).__module__.partition(".")[0] != "pytz" or type(zone.zone) is not str:
        raise ValueError("a time zone of another library")
    return zone.zone


def is_standard_zone(zone: Any) -> bool:
    """Whether something is a time zone of the standard library, of exactly its types."""
    names = (("datetime", "timezone"), ("zoneinfo", "ZoneInfo"))
    return any(type(zone) is getattr(sys.modules.get(module), name, None) for module, name in names)


def zone_of(part: Any) -> Any:
    if part is None or is_standard_zone(part):
        return part
    return library("pytz").timezone(checked(part, _ZONE_CHARACTERS))


def checked(text: Any, characters: frozenset[str]) -> str:
    """A name that has only certain characters; ValueError if it has others, or is too long."""
    if type(text) is not str or len(text) > 64 or not characters.issuperset(text):
        raise ValueError("no name")
    return text


def in_zone(times: Any, zone: Any) -> Any:
    """Times of the world's clock as those of a zone."""
    return times if zone is None else times.tz_localize("UTC").tz_convert(zone)


def column_parts(column: Any) -> tuple[Any, ...]:
    name = type(column).__name__
    if name in ("NumpyExtensionArray", "PandasArray", "TimedeltaArray"):
        return ("array", *array_parts(column.to_numpy()))
    if name == "DatetimeArray":
        zone = zone_part(column.tz)
        times = column if zone is None else column.tz_convert("UTC").tz_localize(None)
        return ("times", zone, *array_parts(times.to_numpy()))
    if name in _EXTENSIONS.values():
        return "masked", array_parts(column._data), array_parts(column._mask)
    if name == "Categorical":
        codes = sys.modules["numpy"].asarray(column.codes)
        return "categories", array_parts(codes), index_parts(column.categories), bool(column.ordered)
    if name == "PeriodArray":
        return "periods", array_parts(column.asi8), column.freqstr
    if name == "IntervalArray":
        return "intervals", index_parts(column.left), index_parts(column.right), column.closed
    if type(column.dtype).__name__ != "StringDtype":
        raise ValueError("a column of another kind")
    missing = "NA" if getattr(column.dtype, "na_value", None) is sys.modules["pandas"].NA else "nan"
    texts = tuple([None if is_missing else text for text, is_missing in zip(column, column.isna())])
    return "texts", column.dtype.storage, missing, texts


def column_of(form: str, *parts: Any) -> Any:
    pandas = library("pandas")
    if form == "array":
        return array_of(*parts)
    if form == "times":
        return in_zone(pandas.DatetimeIndex(array_of(*parts[1:])), zone_of(parts[0])).array
    if form == "masked":
        data, mask = array_of(*parts[0]), array_of(*parts[1])
        return getattr(pandas.arrays, _EXTENSIONS[data.dtype.kind])(data, mask)
    if form == "categories":
        return pandas.Categorical.from_codes(array_of(*parts[0]), index_of(*parts[1]), ordered=parts[2] is True)
    if form == "periods":
        dtype = pandas.PeriodDtype(checked(parts[1], _FREQUENCY_CHARACTERS))
        return pandas.arrays.PeriodArray(array_of(*parts[0]), dtype=dtype)
    if form == "intervals" and parts[2] in _SIDES:
        return pandas.arrays.IntervalArray.from_arrays(index_of(*parts[0]), index_of(*parts[1]), closed=parts[2])
    if form != "texts" or [text for text in parts[2] if text is not None and type(text) is not str]:
        raise ValueError("a column of no kind")
    storage = checked(parts[0], _FREQUENCY_CHARACTERS)
    # Of older versions, `NA` is the only value.
    dtype = pandas.StringDtype(storage) if parts[1] == "NA" else pandas.StringDtype(storage, float("nan"))
    return pandas.array([pandas.NA if text is None else text for text in parts[2]], dtype=dtype)


def typed_column(parts: Any) -> tuple[Any, Any]:
    """A column, and the type that keeps pandas from guessing another one."""
    column = column_of(*parts)
    return column, column.dtype


def index_parts(index: Any) -> tuple[Any, ...]:
    name = type(index).__name__
    if place_in_library(type(index)) != ("pandas", "Index"):
        raise ValueError("an index of another class")
    if name == "RangeIndex":
        return "range", index.start, index.stop, index.step, index.name
    if name == "MultiIndex":
        numpy = sys.modules["numpy"]
        codes = tuple([array_parts(numpy.asarray(each)) for each in index.codes])
        return "levels", tuple([index_parts(each) for each in index.levels]), codes, tuple(index.names)
    frequency = getattr(index, "freqstr", None) if name in ("DatetimeIndex", "TimedeltaIndex") else None
    if frequency is not None and sys.modules["pandas"].tseries.frequencies.to_offset(frequency) != index.freq:
        raise ValueError("a frequency without a name")
    return "index", column_parts(index.array), index.name, frequency


def index_of(form: str, *parts: Any) -> Any:
    pandas = library("pandas")
    if form == "range":
        if [part for part in parts[:3] if type(part) is not int] or len(range(*parts[:3])) > MOST_ROWS:
            raise ValueError("no range of rows")
        return pandas.RangeIndex(*parts[:3], name=parts[3])
    if form == "levels":
        levels, codes = [index_of(*each) for each in parts[0]], [array_of(*each) for each in parts[1]]
        return pandas.MultiIndex(levels=levels, codes=codes, names=list(parts[2]))
    if form != "index":
        raise ValueError("an index of no kind")
    column, dtype = typed_column(parts[0])
    index = pandas.Index(column, dtype=dtype, name=parts[1])
    if parts[2] is not None:
        index = type(index)(index, freq=checked(parts[2], _FREQUENCY_CHARACTERS), name=parts[1])
    return index


def series_of(parts: Any, index: Any, name: Any) -> Any:
    column, dtype = typed_column(parts)
    return library("pandas").Series(column, index=index_of(*index), dtype=dtype, name=name)


def table_parts(table: Any) -> tuple[Any, ...]:
    columns = tuple([column_parts(table.iloc[:, number].array) for number in range(table.shape[1])])
    return index_parts(table.columns), index_parts(table.index), columns


def table_of(labels: Any, index: Any, columns: Any) -> Any:
    pandas, rows = library("pandas"), index_of(*index)
    series = {}
    for number, parts in enumerate(columns):
        column, dtype = typed_column(parts)
        series[number] = pandas.Series(column, index=rows, dtype=dtype)
    made = pandas.DataFrame(series, index=rows)
    made.columns = index_of(*labels)
    return made


def period_of(ordinal: int, frequency: str) -> Any:
    if type(ordinal) is not int:
        raise ValueError("no period")
    return library("pandas").Period(ordinal=ordinal, freq=checked(frequency, _FREQUENCY_CHARACTERS))


def interval_of(left: Any, right: Any, closed: str) -> Any:
    pandas = library("pandas")
    for each in (left, right):
        if type(each) not in (int, float) and place_in_library(type(each)) is None:
            raise ValueError("no end of an interval")
    if type(closed) is not str or closed not in _SIDES:
        raise ValueError("no sides")
    return pandas.Interval(left, right, closed=closed)


# For each kind of value: what takes it apart, and what makes it of its parts.
FORMS: dict[tuple[str, str], tuple[Callable[[Any], tuple[Any, ...]], Callable[..., Any]]] = {
    ("numpy", "ndarray"): (array_parts, array_of),
    ("numpy", "generic"): (scalar_parts, scalar_of),
    ("numpy", "dtype"): (lambda dtype: (dtype.str,), dtype_of),
    ("pandas", "DataFrame"): (table_parts, table_of),
    ("pandas", "Series"): (
        lambda series: (column_parts(series.array), index_parts(series.index), series.name),
        series_of,
    ),
    ("pandas", "Index"): (index_parts, index_of),
    ("pandas", "array"): (column_parts, lambda *parts: library("pandas").array(*typed_column(parts))),
    ("pandas", "dtype"): (
        lambda dtype: column_parts(sys.modules["pandas"].Series([], dtype=dtype).array),
        lambda *parts: column_of(*parts).dtype,
    ),
    ("pandas", "Timestamp"): (
        lambda value: (*scalar_parts(value.to_datetime64()), zone_part(value.tz)),
        lambda code, data, zone: in_zone(library("pandas").Timestamp(scalar_of(code, data)), zone_of(zone)),
    ),
    ("pandas", "Timedelta"): (
        lambda value: scalar_parts(value.to_timedelta64()),
        lambda code, data: library("pandas").Timedelta(scalar_of(code, data)),
    ),
    ("pandas", "Period"): (lambda value: (value.ordinal, value.freqstr), period_of),
    ("pandas", "Interval"): (lambda value: (value.left, value.right, value.closed), interval_of),
    ("pandas", "NaT"): (lambda value: (), lambda: library("pandas").NaT),
    ("pandas", "NA"): (lambda value: (), lambda: library("pandas").NA),
}  # fmt: skip
