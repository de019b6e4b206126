"""The Kinesis source: positions, shards that split and merge, retention, limits."""

from __future__ import annotations

import hashlib

import pytest

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.kinesis.places import TRIM_HORIZON, Place, at_time, unpacked
from penstock.connectors.kinesis.shards import LATEST
from penstock.connectors.kinesis.source import KinesisSettings, KinesisSource
from penstock.connectors.source import EndOfSplit, OnTruncated
from penstock.core.clock import ManualClock
from penstock.core.errors import ConnectorError, PositionGoneError
from penstock.formats.bad_records import ErrorPolicy
from penstock.testing.conformance import SourceConformance
from tests.patience import PATIENCE_S
from tests.unit.connectors.kinesis_double import HOUR_MS, Access, Stream, forget

SHARD = "shardId-000000000000"


def source_of(stream, clock=None, start=Place(TRIM_HORIZON), **settings):
    given = KinesisSettings([stream.name], SimpleStringSchema(), Access(), start, **settings)
    return KinesisSource(given, clock or ManualClock(stream.now))


def polled(reader, clock, rows=100):
    """What one fetch brings."""
    clock.advance(20_000)
    assert reader.poll(rows) is None, "a fetch was begun"
    reader._under_way.exception(PATIENCE_S)
    batch = reader.poll(rows)
    return [] if batch is None else batch.to_rows()


class TestConformance(SourceConformance):
    def make_source(self, directory):
        self.stream = Stream("conforming", shards=2)
        for index, name in enumerate(self.stream.shards):
            self.stream.put(name, *(f"{index}-{n}" for n in range(20)))
        return source_of(self.stream, bounded=True, interval_ms=0, most_records=7)

    def expected(self):
        return [f"{index}-{n}" for index in (0, 1) for n in range(20)]


def test_records_carry_the_time_of_their_arrival():
    stream = Stream("times")
    stream.put(SHARD, "a", "b")
    clock = ManualClock(stream.now)
    [split] = source_of(stream).create_enumerator(1).discover()
    reader = source_of(stream).open_split(split, None, clock)
    clock.advance(1)
    reader.poll(1)
    reader._under_way.result(PATIENCE_S)
    batch = reader.poll(10)
    assert (batch.to_rows(), batch.time_list()) == (["a", "b"], [stream.now - 1, stream.now])


def test_children_are_dealt_when_their_parents_are_read():
    stream = Stream("family", shards=2)
    first, second = stream.shards
    left, right = stream.add_shard(first), stream.add_shard(first)
    merged = stream.add_shard(right, second)
    clock = ManualClock(stream.now)
    enumerator = source_of(stream, clock).create_enumerator(2)

    def dealt():
        found = list(enumerator.discover())
        return {split.info[1]: split.id for split in found}

    ids = dealt()
    assert set(ids) == {first, second} and enumerator.expects_splits()
    assert dealt() == {}
    enumerator.on_finished([ids[first]])
    ids |= dealt()
    assert set(ids) == {first, second, left, right}
    restored = source_of(stream, clock).create_enumerator(3)
    restored.restore(enumerator.snapshot())
    restored.on_finished([ids[first], ids[second]])  # the engine tells them all again
    enumerator = restored
    assert dealt() == {}, "its other parent is not read"
    enumerator.on_finished([ids[right]])
    assert set(dealt()) == {merged} and not enumerator.expects_splits()


def test_a_split_found_while_running_is_read_from_its_beginning():
    stream = Stream("growing")
    stream.put(SHARD, "old")
    clock = ManualClock(stream.now + 1)
    source = source_of(stream, clock, Place(LATEST))
    enumerator = source.create_enumerator(1)
    [split] = enumerator.discover()
    reader = source.open_split(split, None, clock)
    assert polled(reader, clock) == []
    stream.now = clock.now_ms()
    stream.put(SHARD, "last")
    child = stream.add_shard(SHARD)
    stream.put(child, "first")
    assert polled(reader, clock) == ["last"]
    with pytest.raises(EndOfSplit):
        reader.poll(1)
    enumerator.on_finished([split.id])
    [split] = enumerator.discover()
    assert polled(source.open_split(split, None, clock), clock) == ["first"]


def test_closed_shards_are_passed_over_when_only_what_is_new_is_wanted():
    stream = Stream("late", shards=1)
    child = stream.add_shard(SHARD)
    found = list(source_of(stream, start=Place(LATEST)).create_enumerator(1).discover())
    assert [split.info[1] for split in found] == [child]


def test_a_source_begins_at_a_time():
    stream = Stream("since")
    stream.put(SHARD, "a", "b", "c")
    clock = ManualClock(stream.now)
    source = source_of(stream, start=at_time(stream.now - 1))
    [split] = source.create_enumerator(1).discover()
    assert polled(source.open_split(split, None, clock), clock) == ["b", "c"]


@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "ExpiredIteratorException"])
def test_limits_and_old_iterators_only_cost_time(code):
    stream = Stream("slow")
    stream.put(SHARD, "a")
    clock = ManualClock(stream.now)
    source = source_of(stream)
    [split] = source.create_enumerator(1).discover()
    reader = source.open_split(split, None, clock)
    assert polled(reader, clock) == ["a"]
    stream.put(SHARD, "b")
    stream.trouble += [code] * 3
    stream.generation += 1
    got = [polled(reader, clock) for _ in range(5)]
    assert [record for records in got for record in records] == ["b"]


def test_other_errors_fail_the_job_and_name_the_shard():
    stream = Stream("broken")
    clock = ManualClock(stream.now)
    source = source_of(stream)
    [split] = source.create_enumerator(1).discover()
    reader = source.open_split(split, None, clock)
    stream.trouble = ["AccessDeniedException"]
    with pytest.raises(ConnectorError, match=f"'broken' shard {SHARD}.*AccessDenied"):
        polled(reader, clock)


def read_some(stream, clock, **settings):
    """A source, its split, and the position behind what is there now."""
    source = source_of(stream, clock, **settings)
    [split] = source.create_enumerator(1).discover()
    reader = source.open_split(split, None, clock)
    polled(reader, clock)
    return source, split, reader.position()


def later(stream, clock, hours):
    stream.now = max(stream.now, clock.now_ms()) + hours * HOUR_MS
    clock.advance(stream.now - clock.now_ms())


def test_records_that_retention_took_before_they_were_read_fail_the_job():
    stream = Stream("forgetful")
    stream.put(SHARD, "a")
    clock = ManualClock(stream.now)
    source, split, position = read_some(stream, clock)
    later(stream, clock, 1)
    stream.put(SHARD, "lost")
    later(stream, clock, 48)
    stream.put(SHARD, "left")
    stream.trim()
    with pytest.raises(PositionGoneError, match="keeps records for 24 hours"):
        polled(source.open_split(split, position, clock), clock)
    willing = source_of(stream, clock, on_truncated=OnTruncated.EARLIEST)
    assert polled(willing.open_split(split, position, clock), clock) == ["left"]


def test_a_quiet_shard_is_no_loss():
    """Its last record is gone as well, but the job was there all the time and saw that nothing came."""
    stream = Stream("quiet")
    stream.put(SHARD, "a")
    clock = ManualClock(stream.now)
    source, split, position = read_some(stream, clock)
    reader = source.open_split(split, position, clock)
    for _ in range(5):
        later(stream, clock, 20)
        stream.trim()
        assert polled(reader, clock) == []
    later(stream, clock, 20)
    stream.put(SHARD, "b")
    stream.trim()
    assert polled(source.open_split(split, reader.position(), clock), clock) == ["b"]


def test_a_job_that_was_down_long_goes_on_if_its_last_record_is_still_there():
    stream = Stream("kept")
    stream.put(SHARD, "a")
    clock = ManualClock(stream.now)
    source, split, position = read_some(stream, clock)
    later(stream, clock, 48)
    stream.put(SHARD, "b")
    assert polled(source.open_split(split, position, clock), clock) == ["b"]


def test_a_stream_made_anew_is_another_stream():
    stream = Stream("phoenix")
    stream.put(SHARD, "a")
    clock = ManualClock(stream.now)
    source = source_of(stream, clock)
    enumerator = source.create_enumerator(1)
    [split] = enumerator.discover()
    reader = source.open_split(split, None, clock)
    polled(reader, clock)
    forget("phoenix")
    with pytest.raises(PositionGoneError, match="does not exist any more"):
        polled(reader, clock)
    again = Stream("phoenix", now=clock.now_ms() + 500)
    again.put(SHARD, "new")
    restored = source_of(again, clock).create_enumerator(1)
    restored.restore(enumerator.snapshot())
    with pytest.raises(PositionGoneError, match="made anew"):
        restored.discover()
    willing = source_of(again, clock, on_truncated=OnTruncated.EARLIEST)
    going_on = willing.create_enumerator(1)
    going_on.restore(enumerator.snapshot())
    [fresh] = going_on.discover()
    assert fresh.id != split.id
    with pytest.raises(EndOfSplit):
        willing.open_split(split, reader.position(), clock).poll(1)
    assert polled(willing.open_split(fresh, None, clock), clock) == ["new"]


def packed(*values):
    """As the Kinesis Producer Library packs records, with one key for all; see its format."""
    message = b"\x0a\x01k"
    for value in values:
        record = b"\x08\x00\x1a" + bytes([len(value)]) + value.encode()
        message += b"\x1a" + bytes([len(record)]) + record
    return b"\xf3\x89\x9a\xc2" + message + hashlib.md5(message).digest()


class TestPackedConformance(SourceConformance):
    """Positions within what is packed, too."""

    def make_source(self, directory):
        stream = Stream("packing")
        stream.put(SHARD, "first", packed("a", "b", "c"), "between", packed("d"), packed("e", "f"), "last")
        return source_of(stream, bounded=True, interval_ms=0, most_records=2)

    def expected(self):
        return ["first", "a", "b", "c", "between", "d", "e", "f", "last"]


@pytest.mark.parametrize("wrong", [packed("a")[:-1] + b"x", packed("a")[:4], packed("a")[:20], b"\xf3\x89"])
def test_what_only_looks_packed_is_left_alone(wrong):
    assert unpacked(wrong) == [wrong]
    cut_off = b"\x1a\x7f"
    with_its_sum = b"\xf3\x89\x9a\xc2" + cut_off + hashlib.md5(cut_off).digest()
    assert unpacked(with_its_sum) == [with_its_sum]


def test_bad_records_are_diverted():
    stream = Stream("bad")
    stream.put(SHARD, "fine", "also")
    number, at, _ = stream.shards[SHARD]["records"][0]
    stream.shards[SHARD]["records"][0] = (number, at, b"\xff")
    clock = ManualClock(stream.now)
    source = source_of(stream, policy=ErrorPolicy.of("divert", "bad"))
    [split] = source.create_enumerator(1).discover()
    reader = source.open_split(split, None, clock)
    assert polled(reader, clock) == ["also"]
    [bad] = reader.take_diverted()
    assert (bad.source, bad.position, bad.raw) == ("bad", number, b"\xff")
