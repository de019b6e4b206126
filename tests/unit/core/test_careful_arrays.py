"""Stored arrays: those that numpy and Arrow wrote come back, and none becomes a way into memory."""

from __future__ import annotations

import datetime
import enum
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock.core.errors import SnapshotError
from penstock.core.ids import SubtaskIndex
from penstock.core.pickling import dumps
from penstock.core.signals import SnapshotKind
from penstock.core.unpickling import loads_stored

DTYPES: list[Any] = [
    "i8", ">i8", "?", "f2", "c16", "S5", "U3", ">U3", "V8", "O", "M8[ns]", ">M8[D]", "m8[25s]", "M8",
    [("a", "i4"), ("b", "O")],
    np.dtype([("a", "i1"), ("b", "f8")], align=True),
    ("i4", (2, 3)),
    {"names": ["a"], "formats": ["i4"], "titles": ["T"], "offsets": [4], "itemsize": 12},
    [("a", [("x", "i2")]), ("p", ">i4", (2,))],
]  # fmt: skip


@pytest.mark.parametrize("spec", DTYPES, ids=str)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_types_and_arrays_of_all_kinds_come_back(spec: Any, protocol: int) -> None:
    kind = np.dtype(spec)
    assert loads_stored(pickle.dumps(kind, protocol)) == kind
    array = np.zeros((2, 3), kind)
    data = pickle.dumps({"a": [array, array[0], kind], "b": array}, protocol)
    found, plain = loads_stored(data), pickle.loads(data)["b"]
    assert found["b"] is found["a"][0] and found["a"][2] == kind
    assert found["b"].dtype == plain.dtype and str(found["b"].tolist()) == str(plain.tolist())
    assert type(found["b"]) is np.ndarray


NUMBERS = [
    np.float64(1.5),
    np.float32(-0.0),
    np.int8(-3),
    np.uint64(2**63),
    np.bool_(True),
    np.complex128(1j),
]
OTHERS = [
    np.datetime64("2024-01-01"),
    np.timedelta64(3, "s"),
    np.str_("ab"),
    np.bytes_(b"ab"),
    np.longdouble(1),
]


@pytest.mark.parametrize("value", [*NUMBERS, *OTHERS], ids=repr)
def test_single_values_come_back(value: Any) -> None:
    for data in (dumps(value), memoryview(dumps(value)), pickle.dumps(value, 4), pickle.dumps(value, 2)):
        found = loads_stored(data)
        assert type(found) is type(value) and found.tobytes() == value.tobytes()
    assert loads_stored(dumps([value, (value, {"a": value})])) == [value, (value, {"a": value})]


def test_order_of_memory_masks_and_frames_come_back() -> None:
    fortran = np.asfortranarray(np.arange(6).reshape(2, 3))
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": pd.to_datetime(["2024-01-01", "2024-01-02"])})
    for protocol in (4, 5):
        found = loads_stored(pickle.dumps([fortran, masked, frame, np.array([{"x": 1}, None])], protocol))
        assert found[0].tolist() == fortran.tolist() and found[0].flags.f_contiguous
        assert found[1].tolist() == [1, None, 3]
        assert found[2].equals(frame) and found[3].tolist() == [{"x": 1}, None]


def test_what_pandas_has_comes_back() -> None:
    """All that it writes goes by its own names: those were missing, and a job could not go on."""
    days = pd.date_range("2024-01-01", periods=2)
    numbers = ("Int8", "Int64", "UInt32", "Float32", "Float64", "boolean")
    steps = ("h", "min", "ME", "B", "W")
    series = [
        pd.Series(days),
        pd.Series(days, index=days),
        pd.Series(days.tz_localize("UTC")),
        pd.Series(pd.to_timedelta(["1s"])),
        pd.Series(["a", "b", "a"], dtype="category"),
        pd.Series(["x", None], dtype="string"),
        pd.Series(["x", None], dtype="string[pyarrow]"),
        pd.Series([1], index=pd.MultiIndex.from_tuples([(1, "x")])),
        pd.Series([1], index=pd.CategoricalIndex(["a"])),
        pd.Series(pd.period_range("2024", periods=2, freq="M")),
        *(pd.Series([1, None], dtype=kind) for kind in numbers),
        *(pd.Series([1], index=pd.date_range("2024", periods=1, freq=step)) for step in steps),
    ]
    found = loads_stored(dumps(series))
    assert [one.equals(other) for one, other in zip(found, series, strict=True)] == [True] * len(series)
    assert [one.dtype for one in found] == [one.dtype for one in series]
    values = [
        pd.Timestamp("2024-01-01", tz="Europe/Berlin"),
        pd.Period("2024"),
        pd.Interval(0, 1),
        pd.Timedelta(1),
    ]
    assert loads_stored(dumps(values)) == values
    assert loads_stored(dumps(pd.NaT)) is pd.NaT and loads_stored(dumps(pd.NA)) is pd.NA


def test_arrows_arrays_come_back() -> None:
    nested = pa.array([[{"a": 1}], None, []])
    coded = pa.array(["x", "y", "x"]).dictionary_encode()
    sparse = pa.array([1, None, 3])[1:]
    when = pa.array([datetime.date(2024, 1, 1)])
    for value in (nested, coded, sparse, when, pa.array([]), pa.chunked_array([sparse]), pa.nulls(2)):
        assert loads_stored(dumps(value)).equals(value)


class Says:
    """A pickle that calls something, and then gives it a state."""

    def __init__(self, function: Any, arguments: tuple[Any, ...], state: Any = None) -> None:
        self.said = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self) -> Any:
        return self.said


POINTER = struct.pack("<Q", 0x4141414141414141)
FAR = struct.pack("<ii", 0, 1 << 30)
RECONSTRUCT = np.arange(1).__reduce__()[0]
SCALAR = np.int64(1).__reduce__()[0]
FROM_BUFFER: Any = np.arange(1).__reduce_ex__(5)[0]
RESTORE: Any = pa.array([1]).__reduce__()[0]


def dtype(spec: str, *state: Any) -> Says:
    return Says(np.dtype, (spec, False, True), (3, "|", *state))


def filled(kind: Any, raw: bytes = POINTER) -> Says:
    return Says(RECONSTRUCT, (np.ndarray, (0,), b"b"), (1, (1,), kind, False, raw))


OBJECTS = dtype("V8", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0)
ATTACKS: dict[str, Callable[[], Any]] = {
    "an array of bytes as objects": lambda: Says(np.ndarray, ((1,), "O", POINTER)),
    "the same by its other name": lambda: Says(np.ndarray.__new__, (np.ndarray, (1,), "O", POINTER)),
    "objects that say they are none": lambda: filled(dtype("O8", None, None, None, -1, -1, 0)),
    "a field of objects that says it is none": lambda: filled(OBJECTS),
    "a number of it": lambda: Says(SCALAR, (OBJECTS, POINTER)),
    "a buffer of it": lambda: Says(FROM_BUFFER, (POINTER, OBJECTS, (1,), "C")),
    "a field outside": lambda: filled(dtype("V8", None, ("a",), {"a": (np.dtype("i8"), 1 << 40)}, 8, 1, 0)),
    "texts longer than their bytes": lambda: filled(dtype("S8", None, None, None, 1 << 40, 1, 0)),
    "an array in an array": lambda: filled(dtype("V8", (np.dtype("O"), (1,)), None, None, 8, 1, 0)),
    "a type for ever": lambda: Says(SCALAR, (np.dtype, POINTER)),
    "a text of Arrow far away": lambda: Says(
        RESTORE, ((pa.string(), 1, 0, 0, [None, pa.py_buffer(FAR), pa.py_buffer(b"x")], [], None),)
    ),
    "a text of Arrow without bytes": lambda: Says(RESTORE, ((pa.string(), 1, 0, 0, [], [], None),)),
    "Arrow's codes without texts": lambda: Says(
        RESTORE,
        ((pa.dictionary(pa.int8(), pa.string()), 1, 0, 0, [None, pa.py_buffer(b"\x7f")], [], None),),
    ),
    "a list of Arrow without items": lambda: Says(
        RESTORE, ((pa.list_(pa.int8()), 1, 0, 0, [None, pa.py_buffer(bytes(8))], [], None),)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_said_of_memory_is_not_believed(name: str) -> None:
    with pytest.raises((SnapshotError, TypeError, ValueError)):
        loads_stored(pickle.dumps(ATTACKS[name](), 4))


_CRASH = """
import pickle, sys
found = pickle.loads(sys.stdin.buffer.read())
print(found.tolist(), found["a"] if found.dtype.names else "")
"""


@pytest.mark.parametrize("name", ["an array of bytes as objects", "a field of objects that says it is none"])
def test_the_attacks_are_attacks(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CRASH],
        input=pickle.dumps(ATTACKS[name](), 4),
        capture_output=True,
        check=False,
    )
    assert done.returncode < 0, "it reads where the pickle says, and is killed for that"


class Order(NamedTuple):
    number: int
    name = "order"


class Colour(enum.Enum):
    RED = 1


def test_an_array_is_filled_once() -> None:
    """Who has a part of it would be left with memory that is another's."""
    array = b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntC\x01btR"
    fill = b"(I1\n(I1\ntcnumpy\ndtype\n(Vi1\nI00\nI01\ntR(I3\nV|\nNNNI-1\nI-1\nI0\ntbI00\nC\x01xtb"
    assert loads_stored(array + fill + b".").tolist() == [ord("x")]
    with pytest.raises(SnapshotError, match="fills an array twice"):
        loads_stored(array + fill + fill + b".")


@pytest.mark.parametrize("target", [Order, Colour.RED, SnapshotKind.CHECKPOINT, np.dtype("i8")], ids=str)
def test_what_is_there_for_all_is_not_changed_beside_an_array(target: Any) -> None:
    state = (None, {"name": "another"})
    planted = pickle.dumps([np.arange(1), target], 4)[:-2] + pickle.dumps(state, 4)[2:-1] + b"be."
    with pytest.raises((SnapshotError, pickle.UnpicklingError, TypeError, ValueError)):
        loads_stored(planted)
    assert Order.name == "order" and Colour.RED.name == "RED" and SubtaskIndex(1) == 1
