"""Blocks of different kinds under one name, large states, and pieces of another backend."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.core.errors import SnapshotError
from penstock.core.handles import KeyedHandle
from penstock.state_processor import SavepointWriter, open_snapshot
from penstock.state_processor.blocks import OPENERS, blocks, outlines


def written(tmp_path, rows, parallelism=1):
    writer = SavepointWriter.new().with_operator("op", {"s": rows}, parallelism=parallelism)
    return writer.write(str(tmp_path / "savepoint"))


def test_blocks_of_different_types_are_read_as_one(tmp_path):
    """The first 4096 values are whole numbers, the next floats: two blocks of different types."""
    rows = [(n, n) for n in range(4096)] + [(n, n + 0.5) for n in range(4096, 5000)]
    found = open_snapshot(written(tmp_path, rows)).read("op", "s")
    assert found.schema.field("value").type == pa.float64() and found.num_rows == 5000
    assert found["value"][4999].as_py() == 4999.5


def test_blocks_without_a_common_type_are_json(tmp_path):
    rows = [(n, n) for n in range(4096)] + [(n, f"text {n}") for n in range(4096, 5000)]
    found = open_snapshot(written(tmp_path, rows)).read("op", "s")
    assert found["value"][0].as_py() == "0" and found["value"][4999].as_py() == '"text 4999"'


def test_a_later_pickled_block_that_does_not_fit_its_sample(tmp_path):
    """The sample is the first block; when another one disagrees, all of the column is JSON."""
    rows = [(n, [n]) for n in range(4096)] + [(n, ["text"]) for n in range(4096, 5000)]
    where = written(tmp_path, rows)
    assert open_snapshot(where, trusted=True).scan("op", "s").schema.field("value").type == pa.list_(
        pa.int64()
    )
    found = open_snapshot(where, trusted=True).read("op", "s")
    assert found["value"][1].as_py() == "[1]" and found["value"][4999].as_py() == '["text"]'


def test_a_value_that_is_pickled_in_some_blocks_only(tmp_path):
    rows = [(n, n) for n in range(4096)] + [(n, 2**70) for n in range(4096, 4100)]
    where = written(tmp_path, rows)
    with pytest.raises(SnapshotError, match="pickled"):
        open_snapshot(where).read("op", "s")
    assert open_snapshot(where, trusted=True).read("op", "s")["value"][4097].as_py() == str(2**70)


def test_heads_say_what_reading_finds(tmp_path):
    rows = [((n, "x" * n), {"a": n}) for n in range(300)]
    where = written(tmp_path, rows, parallelism=3)
    snapshot = open_snapshot(where)
    for found in snapshot.survey(snapshot.operator("op")):
        read = [block.outline for block in blocks(snapshot.store, found.handle)]
        seen = list(outlines(snapshot.store, found.handle))
        assert [(o.name, o.rows, o.typed, o.pickled) for o in read] == [
            (o.name, o.rows, o.typed, o.pickled) for o in seen
        ]
        assert sum(o.length for o in seen) == found.handle.blob.length
    assert open_snapshot(where, trusted=True).keys("op").num_rows == 300


def test_a_header_longer_than_a_peek(tmp_path):
    long = "s" * 50_000
    where = SavepointWriter.new().with_operator("op", {long: [(1, 2)]}).write(str(tmp_path / "s"))
    assert open_snapshot(where).states("op")["state"].to_pylist() == [long]


def test_pieces_of_another_kind_are_plugged_in(tmp_path, monkeypatch):
    where = written(tmp_path, [("a", 1)])
    snapshot = open_snapshot(where)
    (found,) = snapshot.survey(snapshot.operator("op"))

    class Foreign:
        backend = "foreign"

    with pytest.raises(SnapshotError, match="own files of foreign"):
        list(outlines(snapshot.store, Foreign()))
    monkeypatch.setitem(OPENERS, Foreign, lambda store, handle: OPENERS[KeyedHandle](store, found.handle))
    assert [outline.name for outline in outlines(snapshot.store, Foreign())] == ["s"]
