"""The Kinesis sink: batches, limits of AWS, records that are refused and sent again."""

from __future__ import annotations

import pytest

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.kinesis.sink import KinesisSink, KinesisSinkSettings, any_key
from penstock.connectors.sink import WriterContext
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, ConnectorError
from tests.unit.connectors.kinesis_double import Access, Stream

CLOCK = ManualClock(1_700_000_000_000)


def writer_of(stream, keys=None, **settings):
    given = KinesisSinkSettings(stream.name, SimpleStringSchema(), Access(), keys, **settings)
    context = WriterContext("job", "out", 1, 2, 1, None, (), True, CLOCK, lambda message: None)
    return KinesisSink(given).create_writer(context)


def rows(*values):
    return Batch.of_rows(list(values))


def test_everything_is_there_at_the_barrier_in_calls_that_aws_takes():
    stream = Stream("many")
    writer = writer_of(stream)
    writer.write(rows(*(f"r{n}" for n in range(1203))))
    assert stream.calls == [500, 500]
    writer.flush(False)
    assert stream.calls == [500, 500, 203]
    assert stream.values() == [f"r{n}" for n in range(1203)]
    writer.flush(True)
    assert stream.calls == [500, 500, 203], "there is nothing to send"


def test_large_records_make_small_calls():
    stream = Stream("large")
    writer = writer_of(stream, lambda record: record[0])
    writer.write(rows(*(letter * 1_000_000 for letter in "abcdefg")))
    writer.flush(False)
    assert stream.calls == [5, 2]
    with pytest.raises(ConnectorError, match="1048577 bytes.*takes 1048576"):
        writer.write(rows("k" * 1024 * 1024))


def test_what_is_refused_is_sent_again_before_what_is_newer():
    stream = Stream("refusing")
    stream.failing = [{1, 2}, {0, 1}, {1}]
    writer = writer_of(stream, most_records=4)
    writer.write(rows(*"abcdefgh"))
    writer.flush(False)
    assert stream.values() == list("adbcefgh")
    assert stream.calls == [4, 2, 2, 1, 4]


def test_a_refused_record_can_fail_the_job():
    stream = Stream("strict")
    stream.failing = [{0}]
    writer = writer_of(stream, fail_on_error=True)
    writer.write(rows("a"))
    with pytest.raises(ConnectorError, match="'strict' refuses 1 records: Provisioned"):
        writer.flush(False)


def test_a_stream_that_takes_nothing_fails_the_job_in_the_end():
    stream = Stream("full")
    stream.failing = [{0}] * 5
    writer = writer_of(stream, patience_ms=-1)
    writer.write(rows("a"))
    with pytest.raises(ConnectorError, match="has taken no record.*more shards"):
        writer.flush(False)


def test_a_record_does_not_wait_for_others_for_ever():
    stream = Stream("lonely")
    writer = writer_of(stream, longest_ms=300)
    assert writer.next_flush_ms() is None
    writer.write(rows("a"))
    assert writer.next_flush_ms() == CLOCK.now_ms() + 300
    writer.on_time(CLOCK.now_ms() + 300)
    assert stream.values() == ["a"] and writer.next_flush_ms() is None


def test_keys_choose_the_shard():
    stream = Stream("keyed", shards=4)
    writer = writer_of(stream, lambda record: record[0])
    writer.write(rows(*(f"{letter}{n}" for n in range(3) for letter in "abcdef")))
    writer.flush(False)
    for shard in stream.shards.values():
        values = [record[2].decode() for record in shard["records"]]
        for letter in {value[0] for value in values}:
            assert [value for value in values if value[0] == letter] == [f"{letter}{n}" for n in range(3)]
    assert any_key("a") != any_key("a")
    for wrong in ("", "x" * 257, 7):
        with pytest.raises(ConnectorError, match="partition key"):
            writer_of(stream, lambda record, wrong=wrong: wrong).write(rows("a"))


@pytest.mark.parametrize(
    "wrong", [{"most_records": 501}, {"most_bytes": 6_000_000}, {"most_record_bytes": 0}, {"longest_ms": 0}]
)
def test_limits_beyond_those_of_aws_are_refused(wrong):
    with pytest.raises(ConfigError):
        writer_of(Stream("limits"), **wrong)
