"""Bytes of the data format after small accidents: another value, or a clean refusal, and nothing is run."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from fuzz_tools import FUZZ, bounded, mutated
from hypothesis import given

from penstock.connectors.source import Split
from penstock.core.errors import SnapshotError
from penstock.core.pickling import dumps
from penstock.core.plain_data import Codec
from penstock.core.row import Row
from penstock.core.signals import SnapshotKind
from penstock.core.unpickling import loads_stored
from penstock.operators.window.windows import TimeWindow
from tests.plain_values import VALUES, same

PLAIN, GUARDED = Codec(), Codec(dumps, loads_stored)
VALUE: Any = {
    "numbers": [1, 2.5, True, None, 2**70],
    "texts": ("a", b"b", "c" * 40),
    "many": [*range(40)],
    "words": [str(n) for n in range(40)],
    "table": [(n, "x") for n in range(40)],
    "ours": [Split("0", {"a": 1}), TimeWindow(0, 5), SnapshotKind.CHECKPOINT],
    "row": Row(a=1, b=[Row(2)]),
    "times": [dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.time(1), dt.timedelta(1)],
    "more": [{1, 2}, frozenset((3,)), Decimal("1.5"), {n: n for n in range(20)}],
}
VALID = PLAIN.encode(VALUE)


@FUZZ
@given(mutated(VALID, *map(PLAIN.encode, VALUE.values())))
def test_damaged_data_is_refused_or_is_other_data(data: bytes) -> None:
    with bounded():
        try:
            found = PLAIN.decode(data)
        except SnapshotError as error:
            assert len(str(error)) < 2000
        else:
            assert same(PLAIN.decode(PLAIN.encode(found)), found)


@FUZZ
@given(VALUES)
def test_values_survive_one_way_and_the_other(value: Any) -> None:
    data = PLAIN.encode(value)
    assert GUARDED.encode(value) == data
    assert same(PLAIN.decode(data), value)


def test_depth_and_length_that_are_only_claimed_cost_nothing() -> None:
    deep = b""
    for _ in range(20_000):
        deep = b"\x01l" + len(deep).to_bytes(4, "little") + deep if len(deep) < 2**16 else deep
    for data in (
        b"l\x00i\xff\xff\xff\xff" + b"\0" * 64,
        b"l\x00n\xff\xff\xff\xff",
        b"l\x00S\xff\xff\xff\xff",
        b"l\x00T\x05\0\0\0",
        b"m\x00\xff\xff\xff\xff",
        b"l" + deep,
        b"R\xff\xff",
        b"D\x02\x00[]",
        b"I" + b"\xff" * 100_000,
    ):
        with bounded():
            try:
                PLAIN.decode(data)
            except SnapshotError:
                continue
        assert data[:1] == b"I", data[:20]
