"""Bytes in a topic: damaged segments, and values that are nearly JSON.

Segments of whole frames and false starts are in ``test_log_frames``; here single bytes go wrong, also
inside payloads whose checksum was made right again.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fuzz_tools import FUZZ, bounded, mutated
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.log.errors import CorruptLogError, DecodeError
from penstock.connectors.log.frame import (
    FrameHeader,
    decode_payload,
    describe_batches,
    parse_header,
    record_batch,
)
from penstock.connectors.log.segment import SegmentFile, segment_path
from penstock.core.errors import ConnectorError
from penstock.formats.json_values import Json

BATCHES = [
    record_batch(pa.array([1, 2]), pa.array([b"k", None], pa.binary()), pa.array([b"one", b"two"])),
    record_batch(pa.array([3]), pa.array([b""], pa.binary()), pa.array([b"three"])),
]
PAYLOADS = [batch.serialize() for batch in BATCHES]
PAYLOAD = b"".join(message.to_pybytes() for message in PAYLOADS)
HEADER = describe_batches(BATCHES, PAYLOADS)
FRAME = HEADER.encode() + PAYLOAD
SECOND = replace(HEADER, base_offset=3, producer="job/sink-é", epoch=4).encode() + PAYLOAD


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("partition")


@FUZZ
@given(data=mutated(FRAME, FRAME + SECOND, FRAME + SECOND + FRAME))
def test_a_damaged_segment_gives_whole_frames_or_a_refusal(directory: Path, data: bytes) -> None:
    segment_path(directory, 0).write_bytes(data)
    segment = SegmentFile(directory, 0)
    try:
        with bounded():
            end = 0
            for frame in segment.frames(0, payload=True):
                values = [row["value"] for batch in segment.decode(frame) for row in batch.to_pylist()]
                assert values == [b"one", b"two", b"three"]
                end = frame.end
            assert [f.end for f in segment.frames(0, payload=False)][-1:] >= ([end] if end else [])
            segment.is_cut_short(end)
            segment.is_damaged(end, sealed=False)
    except ConnectorError:
        pass
    finally:
        segment.close()


@FUZZ
@given(mutated(PAYLOAD), st.integers(0, 5))
def test_a_strange_payload_with_a_right_checksum_is_batches_or_refused(payload: bytes, records: int) -> None:
    header = replace(HEADER, payload_length=len(payload), payload_crc=zlib.crc32(payload), records=records)
    with bounded():
        try:
            batches = decode_payload(header, payload, "somewhere")
        except CorruptLogError:
            return
        for batch in batches:
            batch.to_pylist()


@FUZZ
@given(mutated(FRAME[: HEADER.header_size], SECOND[:96]))
def test_a_header_is_whole_or_none(raw: bytes) -> None:
    with bounded():
        try:
            header = parse_header(raw)
        except ConnectorError:
            return
        assert header is None or isinstance(header, FrameHeader)


# --- JSON values --------------------------------------------------------------------------------

SCHEMA = pa.schema([("s", pa.string()), ("n", pa.int64()), ("f", pa.float64()), ("l", pa.list_(pa.int64()))])
GOOD = b'{"s": "t\\u00e9xt", "n": 5, "f": -1.5e3, "l": [1, 2], "other": {"x": [null, true]}}'
DEEP = [
    b"[" * 20_000,
    b'{"s":' * 20_000 + b"1" + b"}" * 20_000,
    b'{"other":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
]
VALUES = st.lists(
    st.one_of(
        st.binary(max_size=20),
        mutated(GOOD, b"{}", b'{"n": 1e400}', b'{"n": 123456789012345678901234567890}', b"NaN"),
        st.text(max_size=10).map(lambda text: text.encode("utf-8", "surrogatepass")),
    ),
    min_size=1,
    max_size=4,
)


def decode(values: list[bytes], schema: pa.Schema | None) -> Any:
    """The records, or ``None`` if a value was refused, by its place."""
    with bounded():
        try:
            found = Json(schema).decode(pa.array(values, pa.binary()))
        except DecodeError as error:
            assert 0 <= error.index < len(values)
            return None
    assert len(found) == len(values)
    return found


@FUZZ
@given(VALUES)
def test_values_without_a_schema_are_objects_or_refused(values: list[bytes]) -> None:
    found = decode(values, None)
    assert found is None or len(found) == len(values)


@FUZZ
@given(VALUES)
def test_values_with_a_schema_are_columns_or_refused(values: list[bytes]) -> None:
    found = decode(values, SCHEMA)
    if found is not None:
        found.validate(full=True)
        assert found.schema.equals(SCHEMA)
        one_by_one = [decode([value], SCHEMA) for value in values]
        assert [batch.to_pylist()[0] for batch in one_by_one] == found.to_pylist()


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["objects", "columns"])
@pytest.mark.parametrize("value", DEEP, ids=range(len(DEEP)))
def test_values_nested_beyond_measure_are_refused(value: bytes, schema: pa.Schema | None) -> None:
    found = decode([GOOD, value], schema)
    assert found is None or len(found) == 2
