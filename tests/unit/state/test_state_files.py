"""State as bytes and back: every shape and type, any key-group range, and damaged files."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import CorruptSnapshotError
from penstock.core.ids import SubtaskIndex
from penstock.core.keygroups import hash_value, key_group_range
from penstock.core.row import Row
from penstock.state.backend import EntryShape
from penstock.state.files import CHUNK, StateBlocks, write_blocks
from penstock.state.heap.backend import HeapTable

GROUPS = 16
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
KEYS = st.one_of(st.integers(), TEXT, st.binary(max_size=5), st.tuples(st.integers(), TEXT), st.booleans())
VALUES = st.one_of(
    st.integers(),
    st.integers(2**63, 2**70),
    st.floats(allow_nan=False),
    TEXT,
    st.binary(max_size=5),
    st.booleans(),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(TEXT, st.integers(), max_size=2),
    st.tuples(st.integers(), st.floats(allow_nan=False)),
    st.builds(lambda n: Row(n=n), st.integers()),
)
NAMESPACES = st.one_of(st.none(), st.integers(0, 3), st.tuples(st.integers(), st.integers()))


def entries_of(shape: EntryShape) -> st.SearchStrategy[Any]:
    if shape is EntryShape.KEY:
        return KEYS
    if shape is EntryShape.NAMESPACED:
        return st.tuples(KEYS, NAMESPACES)
    return st.tuples(st.integers(-(2**63), 2**63 - 1), KEYS, NAMESPACES)


def write(tables: list[HeapTable]) -> tuple[bytes, bool]:
    blocks = list(write_blocks([table.freeze() for table in tables], GROUPS))
    return b"".join(block for block, _ in blocks), any(pickled for _, pickled in blocks)


def read(data: bytes, first: int = 0, last: int = GROUPS - 1) -> dict[str, dict[Any, Any]]:
    found: dict[str, dict[Any, Any]] = {}
    for name, _, entries, values, _ in StateBlocks(data, first, last).tables():
        content = found.setdefault(name, {})
        for entry, value in zip(entries, values, strict=True):
            assert entry not in content
            content[entry] = value
    return found


@pytest.mark.parametrize("shape", EntryShape)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), parallelism=st.integers(1, GROUPS))
def test_ranges_together_give_everything_and_nothing_twice(
    shape: EntryShape, data: st.DataObject, parallelism: int
) -> None:
    content = data.draw(st.dictionaries(entries_of(shape), VALUES, max_size=12))
    table = HeapTable("state", shape)
    for entry, value in content.items():
        table.put(entry, value)
    raw, pickled = write([table])
    whole: dict[Any, Any] = {}
    for index in range(parallelism):
        first, last = key_group_range(SubtaskIndex(index), parallelism, GROUPS)
        part = read(raw, first, last).get("state", {})
        assert not whole.keys() & part.keys()
        for entry in part:
            assert first <= hash_value(shape.key_of(entry)) % GROUPS <= last
        whole.update(part)
    assert whole == content
    for entry, value in whole.items():
        assert type(value) is type(content[entry])
    assert {block.name for block in StateBlocks(raw, 0, GROUPS - 1).tables()} == (
        {"state"} if content else set()
    )
    assert pickled or all(type(value) in (int, float, str, bytes, bool) for value in content.values())


def test_plain_types_are_not_pickled_and_others_are() -> None:
    plain, opaque = HeapTable("plain"), HeapTable("opaque")
    for n in range(10):
        plain.put(f"k{n}", n)
        opaque.put(n, [n])
    data, pickled = write([plain])
    assert not pickled
    assert read(data)["plain"] == {f"k{n}": n for n in range(10)}
    data, pickled = write([opaque])
    assert pickled and read(data) == {"opaque": {n: [n] for n in range(10)}}


def test_mixed_and_large_values_keep_their_types() -> None:
    table = HeapTable("mixed")
    values = {1: True, 2: 1, 3: 1.0, 4: "1", 5: b"1", 6: 2**80, 7: None, 8: "\ud800"}
    for key, value in values.items():
        table.put(key, value)
    found = read(write([table])[0])["mixed"]
    assert found == values and [type(found[key]) for key in values] == [type(v) for v in values.values()]


def test_large_tables_are_cut_into_blocks() -> None:
    table = HeapTable("large")
    for n in range(2 * CHUNK + 5):
        table.put(n, str(n))
    blocks = list(write_blocks([table.freeze()], GROUPS))
    assert len(blocks) == 3
    assert read(b"".join(block for block, _ in blocks))["large"] == {n: str(n) for n in range(2 * CHUNK + 5)}


def test_nothing_is_nothing() -> None:
    assert write([HeapTable("empty")]) == (b"", False)
    assert read(b"") == {}


def sample() -> bytes:
    plain, opaque = HeapTable("plain"), HeapTable("timers", EntryShape.TIMER)
    for n in range(50):
        plain.put(n, float(n))
        opaque.put((n, str(n), None), True)
    return write([plain, opaque])[0]


def try_to_read(data: bytes) -> None:
    """Reads or refuses; unpickling may also fail in its own ways, behind a checksum."""
    try:
        list(StateBlocks(data, 0, GROUPS - 1).tables())
        list(StateBlocks(data, 0, GROUPS - 1).chunk_batches())
    except CorruptSnapshotError:
        pass


def test_a_truncated_file_is_refused() -> None:
    data = sample()
    boundaries = {0, len(data)}
    for end in range(0, len(data), 7):
        if end in boundaries:
            continue
        try:
            found = read(data[:end])
        except CorruptSnapshotError:
            continue
        assert found == {} or set(found) == {"plain"}


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_with_one_error(data: bytes) -> None:
    try_to_read(data)


def test_damaged_files_are_refused_with_one_error() -> None:
    rng = random.Random(5)
    table = HeapTable("plain")
    for n in range(40):
        table.put(n, float(n))
    original = write([table])[0]
    for _ in range(400):
        data = bytearray(original)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try_to_read(bytes(data))


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b'{"table":"t"}',
        b'{"table":"t","shape":"ODD","rows":1}',
        b'{"table":"t","shape":"KEY","rows":1,"arrow":"x"}',
        b'{"table":"t","shape":"KEY","rows":1,"arrow":-5}',
        b'{"chunks":5}',
        b'{"chunks":"c","rows":3}',
        b"[" * 3000,
    ],
)
def test_headers_that_make_no_sense_are_refused(header: bytes) -> None:
    table = HeapTable("t")
    table.put(1, 1)
    block = write([table])[0]
    head_length = int.from_bytes(block[:4], "little")
    body = block[4 + head_length :]
    try_to_read(len(header).to_bytes(4, "little") + header + body)


def test_pickled_columns_that_do_not_fit_are_refused() -> None:
    table = HeapTable("t")
    table.put(1, [1])
    table.put(2, [2])
    block = write([table])[0]
    good = pickle.dumps({"value": [[1], [2]]}, protocol=5)
    assert block.count(good) == 1
    for bad in ({}, {"value": [[1]]}, [1], {"value": 3}):
        other = pickle.dumps(bad, protocol=5)
        body_at = 4 + int.from_bytes(block[:4], "little")
        length = int.from_bytes(block[body_at : body_at + 8], "little") - len(good) + len(other)
        changed = block[:body_at] + length.to_bytes(8, "little") + block[body_at + 8 :].replace(good, other)
        with pytest.raises(CorruptSnapshotError):
            read(changed)
