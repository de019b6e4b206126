"""Classes by module and name: which a stored pickle may use, and whether a class is found by its own.

Each known name is one that Python, numpy, pyarrow or pandas writes when an object of a type that holds data
is pickled, and calling it with any arguments makes an object and does nothing else.
"""

from __future__ import annotations

import sys
from enum import Enum
from typing import Any

_ERRORS = (
    "ArithmeticError AssertionError AttributeError BaseException EOFError Exception ImportError IndexError "
    "KeyError LookupError MemoryError NameError NotImplementedError OSError OverflowError RuntimeError "
    "StopIteration SystemError TimeoutError TypeError UnicodeDecodeError UnicodeEncodeError ValueError "
    "ZeroDivisionError ConnectionError FileNotFoundError PermissionError"
)
_NAMES = {
    "builtins": "bool bytearray bytes complex dict float frozenset int list object range set slice str tuple "
    "Ellipsis NotImplemented " + _ERRORS,
    "copyreg": "_reconstructor __newobj__ __newobj_ex__",
    "collections": "ChainMap Counter OrderedDict UserDict UserList UserString defaultdict deque",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "uuid": "UUID SafeUUID",
    "ipaddress": "IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network",
    "zoneinfo": "ZoneInfo",
    "pathlib": "PurePath PurePosixPath PureWindowsPath Path PosixPath WindowsPath",
    "types": "SimpleNamespace",
    "array": "array _array_reconstructor",
    "_codecs": "encode",
    "numpy": "dtype ndarray",
    "numpy._core.multiarray": "_reconstruct scalar",
    "numpy.core.multiarray": "_reconstruct scalar",
    "numpy._core.numeric": "_frombuffer",
    "numpy.core.numeric": "_frombuffer",
    "numpy.ma": "MaskedArray",
    "numpy.ma.core": "_mareconstruct MaskedArray",
    "pyarrow.lib": "py_buffer type_for_alias schema field struct list_ large_list map_ dictionary decimal128 "
    "decimal256 timestamp time32 time64 duration binary fixed_size_binary _restore_array _reconstruct_table "
    "_reconstruct_record_batch scalar chunked_array Buffer KeyValueMetadata RecordBatch.from_arrays "
    "Table.from_arrays StructType ListType MapType Field Schema DataType",
    "pandas._libs.tslibs.timestamps": "_unpickle_timestamp",
    "pandas._libs.tslibs.timedeltas": "_timedelta_unpickle",
    "pandas._libs.tslibs.nattype": "_nat_unpickle __nat_unpickle",
    "pandas._libs.tslibs.period": "Period",
    "pandas._libs.tslibs.offsets": "Day Hour Minute Second Milli Micro Nano BusinessDay Week MonthBegin "
    "MonthEnd QuarterBegin QuarterEnd YearBegin YearEnd",
    "pandas._libs.interval": "Interval",
    "pandas._libs.missing": "NAType NA",
    "pandas._libs.arrays": "__pyx_unpickle_NDArrayBacked",
    "pandas._libs.internals": "_unpickle_block",
    "pandas.core.frame": "DataFrame",
    "pandas.core.series": "Series",
    "pandas.core.internals.managers": "BlockManager SingleBlockManager",
    "pandas.core.arrays.datetimes": "DatetimeArray",
    "pandas.core.arrays.timedeltas": "TimedeltaArray",
    "pandas.core.arrays.period": "PeriodArray",
    "pandas.core.arrays.categorical": "Categorical",
    "pandas.core.arrays.boolean": "BooleanArray BooleanDtype",
    "pandas.core.arrays.integer": "IntegerArray Int8Dtype Int16Dtype Int32Dtype Int64Dtype UInt8Dtype "
    "UInt16Dtype UInt32Dtype UInt64Dtype",
    "pandas.core.arrays.floating": "FloatingArray Float32Dtype Float64Dtype",
    "pandas.core.arrays.string_": "StringArray StringDtype",
    "pandas.core.arrays.string_arrow": "ArrowStringArray",
    "pandas.core.arrays.arrow.array": "ArrowExtensionArray",
    "pandas.core.dtypes.dtypes": "ArrowDtype CategoricalDtype DatetimeTZDtype PeriodDtype",
    "pandas.core.indexes.base": "_new_Index Index",
    "pandas.core.indexes.range": "RangeIndex",
    "pandas.core.indexes.datetimes": "DatetimeIndex _new_DatetimeIndex",
    "pandas.core.indexes.timedeltas": "TimedeltaIndex",
    "pandas.core.indexes.period": "PeriodIndex",
    "pandas.core.indexes.category": "CategoricalIndex",
    "pandas.core.indexes.interval": "IntervalIndex _new_IntervalIndex",
    "pandas.core.indexes.multi": "MultiIndex",
    "pytz": "_p _UTC",
}
KNOWN: dict[str, frozenset[str]] = {module: frozenset(names.split()) for module, names in _NAMES.items()}

OWN = frozenset(
    {
        ("penstock.core.row", "_restore"),
        ("penstock.core.packed_rows", "rows_of"),
        ("penstock.core.keys", "NAN"),
        ("penstock.operators.window.windows", "GlobalWindow"),
    }
)
"""Names of Penstock beside its dataclasses, enums and named tuples."""


def is_plain_data(found: Any) -> bool:
    """Whether a class of Penstock is one whose objects snapshots may hold, by its module and name."""
    if not isinstance(found, type) or found.__module__.partition(".")[0] != "penstock":
        return False  # nor is what a module of ours has merely imported
    if (found.__module__, found.__qualname__) in OWN or hasattr(found, "__dataclass_fields__"):
        return True
    return issubclass(found, Enum | tuple | BaseException)


def found_under(module: str, qualname: str) -> Any:
    """What a module that is loaded has under a name; ``None`` if there is nothing."""
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def is_named(kind: type) -> bool:
    """Whether a class is found by its module and qualified name: in every run it is the same one."""
    return found_under(kind.__module__, kind.__qualname__) is kind
