"""The bytes of a log: torn writes, damage, and bytes that were never ours."""

import os
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.log import CorruptLogError, Log, Producer
from penstock.connectors.log.frame import FIXED_SIZE, FrameHeader, parse_header
from penstock.core.errors import ConnectorError


def _values(topic, partition=0):
    reader = topic.reader(partition)
    try:
        return reader.read(reader.start_offset(), 10_000).column("value").to_pylist()
    finally:
        reader.close()


def _append(topic, *values):
    with Producer(topic) as producer:
        producer.send_many(list(values))


def _segment(topic):
    return topic.partition_path(0) / f"{0:020d}.log"


def _two_frames(path):
    topic = Log(path).create_topic("t")
    _append(topic, b"one", b"two")
    first = _segment(topic).stat().st_size
    _append(topic, b"three")
    return topic, first, _segment(topic).read_bytes()


@pytest.mark.parametrize("block", range(8))
def test_a_write_torn_at_any_byte_is_not_there_yet_and_is_repaired(tmp_path, block):
    topic, first, whole = _two_frames(tmp_path)
    for cut in range(first + block, len(whole), 8):
        _segment(topic).write_bytes(whole[:cut])
        reader = topic.reader(0)
        assert reader.read(0, 100).column("value").to_pylist() == [b"one", b"two"]
        assert reader.end_offset() == 2
        assert reader.offset_for_timestamp(2**62) == 2
        _append(topic, b"again")
        assert reader.read(2, 100).column("value").to_pylist() == [b"again"]
        assert reader.end_offset() == 3
        reader.close()


def test_a_flipped_bit_in_the_last_frame_hides_it_and_is_cut_off(tmp_path):
    topic, first, whole = _two_frames(tmp_path)
    for position in range(first, len(whole), 3):
        broken = bytearray(whole)
        broken[position] ^= 0x10
        _segment(topic).write_bytes(broken)
        assert _values(topic) == [b"one", b"two"]
        _append(topic, b"new")
        assert _values(topic) == [b"one", b"two", b"new"]


@pytest.mark.parametrize("position", [0, 5, 9, 14, 20, FIXED_SIZE + 3, 200])
def test_damage_before_a_good_frame_is_an_error_and_nothing_is_cut_off(tmp_path, position):
    topic, _, whole = _two_frames(tmp_path)
    broken = bytearray(whole)
    broken[position] ^= 0x10
    _segment(topic).write_bytes(broken)
    with pytest.raises(CorruptLogError, match=r"0\.log is damaged at byte 0"):
        _values(topic)
    with pytest.raises(CorruptLogError, match="damaged at byte 0"):
        _append(topic, b"new")
    assert _segment(topic).read_bytes() == bytes(broken)


def test_a_torn_tail_in_a_sealed_segment_is_damage(tmp_path):
    topic = Log(tmp_path).create_topic("t", segment_bytes=1)
    _append(topic, b"one")
    _append(topic, b"two")
    with _segment(topic).open("ab") as file:
        file.write(b"junk")
    with pytest.raises(CorruptLogError, match="damaged at byte"):
        _values(topic)


def test_a_frame_at_the_wrong_offset_is_damage(tmp_path):
    topic, first, whole = _two_frames(tmp_path)
    _segment(topic).write_bytes(whole + whole[first:])
    with pytest.raises(CorruptLogError):
        _values(topic)


def test_an_absurd_length_is_not_believed(tmp_path):
    topic, first, whole = _two_frames(tmp_path)
    header = FrameHeader(2, 1, 0, 0, payload_length=2**62, payload_crc=0).encode()
    _segment(topic).write_bytes(whole[:first] + header + b"x" * 100)
    assert _values(topic) == [b"one", b"two"]
    header = FrameHeader(2, 2**32 - 1, 0, 0, payload_length=0, payload_crc=0).encode()
    _segment(topic).write_bytes(whole[:first] + header)
    with pytest.raises(CorruptLogError, match="another number of records"):
        _values(topic)


def test_a_newer_format_is_refused_by_name(tmp_path):
    topic, _, whole = _two_frames(tmp_path)
    raw = bytearray(whole)
    raw[4] = 9
    fixed = FrameHeader(0, 0, 0, 0, 0, 0).encode()
    assert len(fixed) == FIXED_SIZE
    crc = zlib.crc32(raw[12:FIXED_SIZE], zlib.crc32(raw[:8]))
    struct.pack_into("<I", raw, 8, crc)
    _segment(topic).write_bytes(raw)
    with pytest.raises(ConnectorError, match="format version 9"):
        _values(topic)


def test_headers_round_trip_with_long_names():
    header = FrameHeader(7, 3, -5, 2**62, 64, 99, "job/ünï/3@run", 12)
    assert parse_header(header.encode()) == header
    assert len(header.encode()) % 8 == 0
    with pytest.raises(ConnectorError, match="shorter job name"):
        FrameHeader(0, 0, 0, 0, 0, 0, "x" * 70_000).encode()


_PIECES = st.one_of(
    st.binary(max_size=80),
    st.sampled_from([b"PSLF", b"PSLF\x01\x00", b"\0" * 64, FrameHeader(2, 1, 0, 0, 2**60, 0).encode()]),
    st.builds(
        lambda base, count, length, crc: FrameHeader(base, count, 0, 0, length, crc).encode(),
        st.integers(0, 5),
        st.integers(0, 2**32 - 1),
        st.sampled_from([0, 8, 64, 2**63]),
        st.sampled_from([0, 1]),
    ),
)


@pytest.fixture(scope="module")
def two_frames(tmp_path_factory):
    topic, _, whole = _two_frames(tmp_path_factory.mktemp("log"))
    return topic, whole


@settings(max_examples=80, deadline=None)
@given(prefix=st.booleans(), pieces=st.lists(_PIECES, max_size=8))
def test_arbitrary_bytes_end_cleanly_or_are_refused(two_frames, prefix, pieces):
    topic, whole = two_frames
    _segment(topic).write_bytes((whole if prefix else b"") + b"".join(pieces))
    for attempt in (lambda: _values(topic), lambda: _append(topic, b"new"), lambda: _values(topic)):
        try:
            found = attempt()
        except ConnectorError:
            return
        assert not prefix or found is None or found[:3] == [b"one", b"two", b"three"]
    assert _values(topic)[-1] == b"new"


def test_many_false_starts_are_searched_in_linear_time(tmp_path):
    topic, _, whole = _two_frames(tmp_path)
    _segment(topic).write_bytes(whole + b"PSLF" * 50_000 + os.urandom(1000))
    assert _values(topic) == [b"one", b"two", b"three"]
