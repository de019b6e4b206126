"""Values at the edges, next to what PyFlink 2.3.0 gave for the same little programs (Java 17)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from compat_rig import results, stream

from penstock.common import Row, Types
from penstock.common.serialization import RowFieldExtractorSchema
from penstock.core import keys
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.formats.json import JsonRowSerializationSchema
from penstock.datastream.state import MapStateDescriptor
from penstock.state.operator_state import OperatorStateStore
from penstock.testing.local import local_cluster


@pytest.fixture
def cluster() -> Iterator[None]:
    with local_cluster(slots=1):
        yield


# --- serialization schemas ----------------------------------------------------------------------


@pytest.mark.parametrize("given", [b"user-1", bytearray(b"user-1"), memoryview(b"user-1"), "user-1"])
def test_an_extracted_field_of_bytes_is_these_bytes(given: Any) -> None:
    """PyFlink: ``b'user-1'`` for bytes, ``b''`` for None, an error for text, which we take."""
    assert RowFieldExtractorSchema(0).serialize(Row(given, 5)) == b"user-1"


def json_of(names: list[str], types: list[Any]) -> JsonRowSerializationSchema:
    return JsonRowSerializationSchema.builder().with_type_info(Types.ROW_NAMED(names, types)).build()


def test_a_json_schema_takes_the_first_fields_of_a_longer_row() -> None:
    """PyFlink: ``{"id":"k"}`` and ``{"r":{"id":"k"}}``; the usual way to the key of a Kafka record."""
    key = json_of(["id"], [Types.STRING()])
    assert key.serialize(Row("k", 5, "z")) == key.serialize(("k",)) == b'{"id":"k"}'
    inner = Types.ROW_NAMED(["id"], [Types.STRING()])
    assert json_of(["r"], [inner]).serialize(Row(Row("k", 5))) == b'{"r":{"id":"k"}}'


def test_a_json_schema_of_more_fields_than_the_row_says_which() -> None:
    """PyFlink: ArrayIndexOutOfBoundsException: Index 1 out of bounds for length 1."""
    with pytest.raises(ValueError, match=r"1 values for 2 fields \(id, n\): <Row\('k'\)>"):
        json_of(["id", "n"], [Types.STRING(), Types.INT()]).serialize(Row("k"))


# --- state --------------------------------------------------------------------------------------


class PutAll(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.map = runtime_context.get_map_state(MapStateDescriptor("m", Types.STRING(), Types.INT()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.map.put_all(value[1])
        yield sorted(self.map.items())


PAIRS = [("a", 1), ("b", 2)]


@pytest.mark.parametrize("given", [PAIRS, dict(PAIRS), tuple(PAIRS), [["a", 1], ["b", 2]]], ids=repr)
def test_a_map_state_takes_pairs_as_well(cluster: None, given: Any) -> None:
    """PyFlink: ``[('a', 1), ('b', 2)]``, for a list of pairs as for an iterator of them."""
    ds = stream([("k", given)]).key_by(lambda value: value[0]).process(PutAll())
    assert results(ds) == [PAIRS]


def test_a_broadcast_state_takes_pairs_as_well() -> None:
    state = OperatorStateStore().get_broadcast_state(MapStateDescriptor("m"))
    state.put_all(iter(PAIRS))
    assert dict(state.items()) == dict(PAIRS)


# --- list keys ----------------------------------------------------------------------------------


class Keys(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        yield ctx.get_current_key()


def test_a_list_is_a_key_as_the_tuple_of_its_elements_and_said_once(
    cluster: None, caplog: pytest.LogCaptureFixture
) -> None:
    """PyFlink: the same sums; the key that a function sees is the list there."""
    keys._form_of.cache_clear()
    words = stream([("a", 1), ("b", 5), ("a", 2)])
    with caplog.at_level(logging.WARNING, "penstock"):
        sums = words.key_by(lambda value: [value[0], [1]]).reduce(lambda a, b: (a[0], a[1] + b[1]))
        assert results(sums) == [("a", 1), ("b", 5), ("a", 3)]
        assert results(words.key_by(lambda value: [value[0], [1]]).process(Keys()))[0] == ("a", (1,))
    assert caplog.text.count("is taken for the tuple of its elements") == 1


def test_lists_tuples_and_columns_of_lists_are_the_same_keys() -> None:
    assert keys.canonical_keys([[1, None], (1, None), Row([1], "x")]) == [
        (1, None),
        (1, None),
        Row((1,), "x"),
    ]
    column = pa.array([[1, 2], [3]])
    assert keys.canonical_keys(column.to_pylist()) == [(1, 2), (3,)]
