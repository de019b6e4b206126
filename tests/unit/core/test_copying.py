"""Copies of values: what can change is never shared, what cannot is never copied."""

from __future__ import annotations

import copy
import datetime as dt
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.batch import Batch
from penstock.core.copying import copied, copied_all, copied_batch
from penstock.core.row import Row, RowKind


class Colour(Enum):
    RED = 1


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Plain:
    number: int
    items: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Fixed:
    number: int
    inside: Any = None


@dataclass(slots=True)
class Slotted:
    number: int
    items: list[int]


@dataclass(frozen=True, slots=True)
class FixedSlotted:
    number: int
    items: list[int]


class Ordinary:
    def __init__(self) -> None:
        self.items = [1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ordinary) and other.items == self.items

    def __repr__(self) -> str:
        return f"Ordinary({self.items})"

    __hash__ = None  # type: ignore[assignment]


class OwnWay:
    """Says itself how it is copied."""

    def __init__(self, copies: int = 0) -> None:
        self.copies = copies

    def __deepcopy__(self, memo: Any) -> OwnWay:
        return OwnWay(self.copies + 1)


UNCHANGING = [
    *(1, 1.5, True, None, "text", b"bytes", 1j, frozenset({1}), range(3)),
    *(
        Decimal("1.5"),
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        dt.date(2026, 1, 1),
        dt.timedelta(1),
        UUID(int=1),
    ),
    *(Colour.RED, np.int64(3), np.float64(0.5), pa.scalar(1), Plain, len, (1, "a", (2, None))),
    *(Pair(1, "a"), Fixed(1), Fixed(1, (2, "b")), Fixed(1, Fixed(2))),
]


@pytest.mark.parametrize("value", UNCHANGING, ids=repr)
def test_what_cannot_change_is_not_copied(value: Any) -> None:
    assert copied(value) is value
    assert copied((value, value))[0] is value


def row(*values: Any) -> Row:
    made = Row.of_kind(RowKind.DELETE, *values)
    made.set_field_names([f"n{i}" for i in range(len(values))])
    return made


CHANGING = [
    *([1, 2], [[1], [2]], {"a": 1}, {"a": {"b": [1]}}, {1, 2}, bytearray(b"x"), (1, [2]), ([1], ([2],))),
    *(row(1, "a"), row(1, [2]), Row(1, Row([3])), Pair([1], 2), Plain(1, [2]), Fixed(1, [2])),
    *(Slotted(1, [2]), FixedSlotted(1, [2]), Ordinary(), OrderedDict(a=[1]), Counter("aab")),
    *(defaultdict(list, a=[1]), deque([[1]]), {(1, 2): Plain(3)}),
]


def shared(left: Any, right: Any) -> bool:
    """Whether a change of one could be seen in the other: compares the bytes after changing all lists."""
    before = repr(right)
    _change(left)
    return repr(right) != before


def _change(value: Any) -> None:
    if isinstance(value, list | deque):
        for item in value:
            _change(item)
        value.append("changed")
    elif isinstance(value, dict):
        for item in value.values():
            _change(item)
        value["changed"] = 1
    elif isinstance(value, set):
        value.add("changed")
    elif isinstance(value, bytearray):
        value.extend(b"changed")
    elif isinstance(value, tuple | Row):
        for item in value:
            _change(item)
        if isinstance(value, Row):
            value[0] = "changed"
    elif isinstance(value, Plain | Fixed | Slotted | FixedSlotted | Ordinary):
        for name in ("items", "inside"):
            _change(getattr(value, name, None))
        if not isinstance(value, Fixed | FixedSlotted | Ordinary):
            value.number = -1


@pytest.mark.parametrize("value", CHANGING, ids=repr)
def test_what_can_change_is_copied_whole(value: Any) -> None:
    value = copy.deepcopy(value)
    fresh = copied(value)
    assert type(fresh) is type(value) and fresh == value and repr(fresh) == repr(value)
    assert not shared(fresh, value)


def test_arrays_are_copied() -> None:
    numbers, objects = np.arange(3), np.array([[1], None], dtype=object)
    fresh, others = copied(numbers), copied(objects)
    fresh[0] = 9
    others[0].append(2)
    assert numbers[0] == 0 and objects[0] == [1]


def test_a_row_that_is_changed_later_keeps_its_names_and_kind() -> None:
    fresh = copied(row(1, "a"))
    assert fresh.field_names() == ("n0", "n1") and fresh.get_row_kind() is RowKind.DELETE


def test_classes_with_ways_of_their_own_are_asked() -> None:
    assert copied(OwnWay()).copies == 1


def test_a_value_that_contains_itself() -> None:
    value: list[Any] = []
    value.append(value)
    fresh = copied({"loop": value})["loop"]
    assert fresh is not value and fresh[0] is fresh


def test_what_cannot_be_copied_is_shared_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn:
        def __deepcopy__(self, memo: Any) -> Stubborn:
            raise TypeError("not me")

    lock, stubborn = threading.Lock(), Stubborn()
    value = {"lock": lock, "stubborn": stubborn, "items": [1]}
    first, second = copied(value), copied(value)
    assert first["lock"] is lock and second["stubborn"] is stubborn
    assert first["items"] is not value["items"]
    told = [record.getMessage() for record in caplog.records if "Stubborn" in record.getMessage()]
    assert len(told) == 1 and "not me" in told[0] and "__deepcopy__" in told[0]


def test_many_values_at_once() -> None:
    numbers, tuples, mixed = [1, 2], [(1, "a"), (2, None)], [1, [2], (3,), ([4],)]
    assert copied_all(numbers) is numbers and copied_all(tuples) is tuples
    fresh = copied_all(mixed)
    assert fresh == mixed and not shared(fresh[1:2], mixed[1:2]) and fresh[2] is mixed[2]


def test_batches() -> None:
    columns = Batch.of_columns(pa.RecordBatch.from_pydict({"a": [1]}))
    assert copied_batch(columns) is columns
    rows = Batch.of_rows([[1], [2]], [5, 6], ["k", "l"])
    fresh = copied_batch(rows)
    assert fresh.rows == [[1], [2]] and fresh.time_list() == [5, 6] and fresh.key_list() == ["k", "l"]
    assert not shared(fresh.rows, rows.rows)


def nested(depth: int, inmost: Any) -> Any:
    for _ in range(depth):
        inmost = [inmost]
    return inmost


def knot(first: Any) -> Any:
    tied: dict[str, Any] = {"first": first}
    tied["itself"] = tied
    return tied


@pytest.mark.parametrize(
    "odd",
    [
        nested(5000, 0),
        knot(threading.Lock()),
        np.array([threading.Lock()], dtype=object),
        defaultdict(list, {0: [threading.Lock()]}),
        [nested(depth, defaultdict(list)) for depth in range(300, 500)],
    ],
    ids=["deep", "knot", "array", "dict", "nearly too deep"],
)
def test_one_value_that_cannot_be_copied_does_not_make_the_others_shared(odd: Any) -> None:
    for part in odd if isinstance(odd, list) else (odd,):
        copied(part)
    copied(odd)
    for value in ([[1]], {"a": [1]}, np.zeros(2), defaultdict(list, {1: [2]})):
        assert copied(value) is not value


@dataclass(slots=True)
class Late:
    number: int
    items: list[int] = field(init=False)


def test_a_field_that_is_not_set_yet() -> None:
    fresh = copied(Late(1))
    assert fresh.number == 1 and not hasattr(fresh, "items")


class Remembering(NamedTuple("Base", [("left", Any)])):
    pass


@pytest.mark.parametrize("left", [1, [1]])
def test_what_a_named_tuple_has_beside_its_fields(left: Any) -> None:
    value = Remembering(left)
    value.seen = [1]  # type: ignore[attr-defined]
    fresh = copied(value)
    fresh.seen.append(2)
    assert value.seen == [1] and fresh == value  # type: ignore[attr-defined]


def test_objects_without_attributes() -> None:
    class Empty:
        __slots__ = ()

    assert type(copied(Empty())) is Empty
    assert type(copied(object())) is object


def test_what_lets_go_of_something_when_it_dies_is_not_taken_apart() -> None:
    closed: list[int] = []

    class Handle:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def __del__(self) -> None:
            closed.append(1)

    handle = Handle()
    assert copied([handle])[0] is handle
    assert not closed, "a copy would have closed what both hold"
