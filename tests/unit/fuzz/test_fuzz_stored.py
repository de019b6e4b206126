"""Bytes in files: manifests, journal entries, state blocks. The answer is right or the refusal is clean.

Random bytes and wrong values are tested beside each format; here valid files suffer small accidents, also
ones that were signed again, so that the checks behind the checksum are reached.  Blocks with pickled
columns are left out: state files are only read behind the checksum in their manifest.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from fuzz_tools import FUZZ, bounded, mutated
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import CorruptSnapshotError, FormatVersionError
from penstock.core.handles import Blob, Committable, KeyedHandle, OperatorSnapshot, digest
from penstock.core.ids import Epoch, Generation, OperatorId, SubtaskIndex, VertexId
from penstock.core.signals import SnapshotKind
from penstock.snapshot import journal
from penstock.snapshot.decode import from_json
from penstock.snapshot.journal import Fence, Published, Seq, Unreadable
from penstock.snapshot.manifest import Manifest, OperatorEntry, SubtaskEntry, sign
from penstock.state.backend import EntryShape, Table
from penstock.state.chunks import KEY_GROUP
from penstock.state.files import StateBlocks, write_blocks
from penstock.state.heap.backend import HeapTable

INLINE = Blob(5, digest(b"bytes"), inline=b"bytes")
STORED = Blob(7, digest(b"another"), "chk-3/v-0-1.state", 12)
STATE = OperatorSnapshot(OperatorId("op"), (KeyedHandle(STORED, (0, 63), True),), INLINE)
ENTRY = OperatorEntry(
    OperatorId("op"), "uid", "count", VertexId("v"), 2, 128, (SubtaskEntry(SubtaskIndex(0), STATE, False),)
)
MANIFEST = Manifest(
    job_id="job",
    job_name="name",
    epoch=Epoch(3),
    generation=Generation(1),
    kind=SnapshotKind.CHECKPOINT,
    created_ms=5,
    operators=(ENTRY,),
    enumerators={OperatorId("src"): INLINE},
    committables=(Committable(OperatorId("sink"), Epoch(3), SubtaskIndex(0), b"x"),),
    penstock_version="0.1.0",
    spark_version=None,
)
RAW = MANIFEST.to_json()


@FUZZ
@given(mutated(RAW))
def test_damaged_manifests_are_refused(raw: bytes) -> None:
    with bounded():
        try:
            assert from_json(raw) == MANIFEST
        except (CorruptSnapshotError, FormatVersionError):
            pass


@FUZZ
@given(mutated(RAW))
def test_manifests_signed_after_the_accident_hang_together_or_are_refused(raw: bytes) -> None:
    with bounded():
        try:
            document = json.loads(raw)
            signed = sign(document)
        except (ValueError, AttributeError, TypeError, RecursionError):
            return
        try:
            found = from_json(signed)
        except (CorruptSnapshotError, FormatVersionError):
            return
        assert from_json(found.to_json()) == found


ENTRIES: list[Fence | Published] = [
    Fence(Seq(7), Generation(2), "me", digest(b"before")),
    Published(Seq(7), Generation(2), Epoch(9), "chk-9/manifest.json", digest(b"m"), 100, None),
]


@FUZZ
@given(mutated(*map(journal.encode, ENTRIES)))
def test_damaged_journal_entries_are_unreadable_or_whole(raw: bytes) -> None:
    with bounded():
        try:
            found = journal.decode(Seq(7), raw)
        except FormatVersionError:
            return
        assert found.seq == 7
        if isinstance(found, Unreadable):
            assert found.checksum == digest(raw)
        else:
            assert journal.decode(Seq(7), journal.encode(found)) == found


def blocks_of(*tables: Table) -> bytes:
    return b"".join(block for block, _ in write_blocks([table.freeze() for table in tables], 128))


def filled(shape: EntryShape, entries: dict[Any, Any]) -> Table:
    table = HeapTable("t", shape)
    for entry, value in entries.items():
        table.put(entry, value)
    return table


NUMBERS = blocks_of(filled(EntryShape.KEY, {n: float(n) for n in range(20)}))
WORDS = blocks_of(filled(EntryShape.NAMESPACED, {(f"k{n}", n): f"value {n}" for n in range(9)}))
TIMERS = blocks_of(filled(EntryShape.TIMER, {(n, f"k{n}", "w"): True for n in range(9)}))


def chunk_block() -> bytes:
    batch = pa.record_batch({KEY_GROUP: pa.array([1, 2, 90], pa.int32()), "k": ["a", "b", "c"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body = sink.getvalue().to_pybytes()
    head = json.dumps({"chunks": "c", "rows": 3}).encode()
    return len(head).to_bytes(4, "little") + head + len(body).to_bytes(8, "little") + body


CHUNKS = chunk_block()


@FUZZ
@given(mutated(NUMBERS, WORDS, TIMERS, CHUNKS, NUMBERS + CHUNKS), st.integers(0, 127), st.integers(0, 127))
def test_damaged_state_blocks_are_refused_or_tables(data: bytes, first: int, last: int) -> None:
    if b"pickled" in data:
        return
    with bounded():
        try:
            for name, shape, entries, values, _ in StateBlocks(data, first, last).tables():
                assert isinstance(name, str) and isinstance(shape, EntryShape)
                assert len(entries) == len(values)
        except CorruptSnapshotError:
            pass
        try:
            for name, batch in StateBlocks(data, first, last).chunk_batches():
                assert isinstance(name, str)
                groups = np.asarray(batch.column(KEY_GROUP).to_numpy(zero_copy_only=False))
                assert ((groups >= first) & (groups <= last)).all()
        except CorruptSnapshotError:
            pass
