"""Plain values as bytes and back: exactly, whatever they are made of; and nothing is called on the way."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import math
import pickle
import uuid
import zoneinfo
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.kafka.enumerator import PartitionRange
from penstock.connectors.source import Dealt, Split
from penstock.core import own_data
from penstock.core.durations import Instant
from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.core.handles import Blob
from penstock.core.ids import Subtask, SubtaskIndex, VertexId
from penstock.core.keys import NAN
from penstock.core.packed import PackedNames
from penstock.core.pickling import dumps
from penstock.core.plain_data import Codec
from penstock.core.plain_scalars import UnfitError
from penstock.core.row import Row, RowKind
from penstock.core.signals import SnapshotKind
from penstock.core.unpickling import loads_stored
from penstock.exchange.frames import FrameKind
from penstock.operators.join.interval import Side
from penstock.operators.window.windows import CountWindow, GlobalWindow, TimeWindow
from penstock.state_processor.writer import Draft
from tests.plain_values import same

_BUT_ROWS = [field.name for field in dataclasses.fields(Draft) if field.name != "rows"]
PLAIN = Codec()
WITH_PICKLES = Codec(dumps, loads_stored)


LONG: list[Any] = [
    list(range(-5, 100)),
    [float(n) for n in range(300)],
    [True, False] * 40,
    [None] * 50,
    ["", "a", "ü"] * 20,
    [""] * 40,
    ["with\0zero"] * 40,
    [1, "a"] * 20,
    [1, "a"] * 200,
    [2**70, 1] * 40,
    [2**70] * 40,
    [(n, "x", None) for n in range(50)],
    [(n, n if n % 2 else "x") for n in range(300)],
    [()] * 40,
    [(1,), (1, 2)] * 40,
    [[n] for n in range(50)],
    {n: str(n) for n in range(100)},
    {str(n): [n] for n in range(17)},
    {str(n): n for n in range(16)},
    set(range(100)),
    [Row(a=n) for n in range(50)],
]


@pytest.mark.parametrize("value", LONG, ids=range(len(LONG)))
def test_long_ones_too(value: Any) -> None:
    assert same(PLAIN.decode(PLAIN.encode(value)), value)
    assert same(PLAIN.decode(PLAIN.encode({"in": (value,)})), {"in": (value,)})


OURS: list[Any] = [
    Split("0", PartitionRange("topic", 1, 2, None, "id")),
    Dealt(PackedNames((b"one", b"two"))),
    TimeWindow(0, 1000),
    CountWindow(3),
    Blob(3, "0" * 32, "chk-1/x", 4),
    Subtask(VertexId("v"), SubtaskIndex(2)),
    SnapshotKind.SAVEPOINT,
    RowKind.DELETE,
    Instant(5, 7),
]


@pytest.mark.parametrize("value", OURS, ids=lambda value: type(value).__name__)
def test_our_own_plain_data_is_its_fields(value: Any) -> None:
    found = PLAIN.decode(PLAIN.encode([value]))[0]
    assert found == value and type(found) is type(value)


def test_members_that_are_equal_numbers_stay_apart() -> None:
    mixed = [Side.RIGHT, FrameKind.CONTROL]
    assert mixed[0] == mixed[1]
    assert [*map(type, PLAIN.decode(PLAIN.encode(mixed)))] == [Side, FrameKind]


def test_single_objects_stay_single() -> None:
    assert PLAIN.decode(PLAIN.encode((GlobalWindow.get(), NAN))) == (GlobalWindow.get(), NAN)
    assert PLAIN.decode(PLAIN.encode(GlobalWindow.get())) is GlobalWindow.get()
    assert PLAIN.decode(PLAIN.encode(NAN)) is NAN


Pair = namedtuple("Pair", "a b")


class Level(IntEnum):
    LOW = 1


@dataclass(frozen=True)
class Order:
    id: int


UNFIT: list[Any] = [
    Pair(1, 2),
    Level.LOW,
    Order(1),
    OrderedDict(a=1),
    "\ud800",
    Path("/x"),
    1j,
    dt.datetime(2024, 1, 1, tzinfo=type("Zone", (dt.tzinfo,), {})()),
    uuid.UUID(int=1, is_safe=uuid.SafeUUID.safe),
    zoneinfo.ZoneInfo("Europe/Rome"),
    SnapshotError("an error"),
]


@pytest.mark.parametrize("value", UNFIT, ids=lambda value: type(value).__name__)
def test_what_is_more_than_plain_data_does_not_fit(value: Any) -> None:
    for held in (value, [value], {"a": (1, value)}, [1] * 40 + [value], Row(a=value)):
        with pytest.raises(UnfitError):
            PLAIN.encode(held)


def test_with_pickles_only_what_does_not_fit_is_pickled() -> None:
    value = {"order": Order(5), "level": Level.LOW, "many": [Order(n) for n in range(50)], "plain": (1, "x")}
    data = WITH_PICKLES.encode(value)
    assert WITH_PICKLES.decode(data) == value
    assert data.startswith(b"m") and b"plain" in data
    with pytest.raises(CorruptSnapshotError):
        PLAIN.decode(data)


def test_values_within_themselves_are_left_to_pickle() -> None:
    knot: list[Any] = [1]
    knot.append(knot)
    with pytest.raises(UnfitError):
        PLAIN.encode(knot)
    found = WITH_PICKLES.decode(WITH_PICKLES.encode(knot))
    assert found[1] is found


def test_times_and_places() -> None:
    rome = zoneinfo.ZoneInfo("Europe/Rome")
    west, zulu = dt.timezone(dt.timedelta(hours=-5)), dt.timezone(dt.timedelta(0), "Zulu")
    for zone in (None, dt.UTC, west, zulu, rome):
        moment = dt.datetime(2024, 10, 27, 2, 30, 1, 5, zone, fold=1)
        found = PLAIN.decode(PLAIN.encode(moment))
        assert same(found, moment) and found.tzname() == moment.tzname()
        assert same(PLAIN.decode(PLAIN.encode(moment.timetz())), moment.timetz())


def test_numbers_to_the_bit() -> None:
    for number in (0.0, -0.0, math.inf, -math.inf, 5e-324):
        found = PLAIN.decode(PLAIN.encode([number]))[0]
        assert math.copysign(1, found) == math.copysign(1, number) and found == number
    for text in ("NaN", "-sNaN12", "Infinity", "1E+999999", "-0.00"):
        assert str(PLAIN.decode(PLAIN.encode(decimal.Decimal(text)))) == text


# --- classes that have changed since --------------------------------------------------------------


def test_a_field_that_came_later_has_its_default() -> None:
    stored = ("penstock.connectors.kafka.enumerator", "PartitionRange", "start", "topic", "partition", "stop")
    made = own_data.maker_of(stored)([2, "topic", 1, 3])
    assert made == PartitionRange("topic", 1, 2, 3, None)


def test_a_default_that_can_change_is_each_objects_own() -> None:
    make = own_data.maker_of(("penstock.state_processor.writer", "Draft", *_BUT_ROWS))
    first, second = (make([None] * len(_BUT_ROWS)) for _ in range(2))
    assert first.rows == second.rows and first.rows is not second.rows


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("os", "system"), "no module of Penstock"),
        (("penstockish.x", "y"), "no module of Penstock"),
        (("penstock.core.handles", "digest"), "names penstock.core.handles.digest"),
        (("penstock.core.row", "_restore"), "is no class"),
        (("penstock.core.handles", "hashlib.blake2b"), "names penstock"),
        (("penstock.core.unpickling", "importlib.import_module"), "names penstock"),
        (("penstock.connectors.source", "Split", "id", "__class__"), "has no field '__class__'"),
        (("penstock.connectors.source", "Split", "id", "id"), "not stored as data"),
        (("penstock.connectors.source", "Split", "info"), "without its field 'id'"),
        (("penstock.core.errors", "UserCodeError"), "not stored as data"),
        (("penstock.coordinator.driver", "JobDriver"), "names penstock"),
        (("penstock.core.gone", "Gone"), "penstock.core.gone"),
        (("penstock.core.clock", "time.struct_time"), "names penstock.core.clock.time.struct_time"),
    ],
)
def test_names_that_are_no_data_of_ours(names: tuple[str, ...], reason: str) -> None:
    with pytest.raises((ValueError, SnapshotError, ImportError, AttributeError), match=reason):
        own_data.maker_of(names)


def test_an_object_is_made_without_calling_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []
    data = PLAIN.encode(Split("0"))
    for name in ("__init__", "__setattr__", "__setstate__"):
        monkeypatch.setattr(Split, name, lambda *args: called.append(args))
    assert PLAIN.decode(data).id == "0" and not called


def test_a_pickle_is_never_taken_for_data() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(CorruptSnapshotError):
            PLAIN.decode(pickle.dumps({"a": Order(1)}, protocol))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_clean_refusal(data: bytes) -> None:
    try:
        found = PLAIN.decode(data)
    except SnapshotError as error:
        assert "\n" not in str(error)
    else:
        assert same(PLAIN.decode(PLAIN.encode(found)), found)


def test_a_refusal_does_not_quote_all_of_the_data() -> None:
    for data in (b"s" + b"\xff" * 1_000_000, b"l\x00S\x01\0\0\0" + b"\xff" * 1_000_000):
        with pytest.raises(CorruptSnapshotError) as refused:
            PLAIN.decode(data)
        assert len(str(refused.value)) < 1000
