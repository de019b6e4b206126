"""How many records of the embedded log wait for a source, as its metrics show it."""

from penstock.connectors.log import Log, LogOffsets, LogSource, Producer, Text
from penstock.connectors.log import reader as log_reader
from penstock.core.clock import ManualClock


def opened(source):
    (split,) = source.create_enumerator(1).discover()
    return source.open_split(split, None, ManualClock(0))


def send(topic, *values):
    with Producer(topic) as producer:
        for value in values:
            producer.send_many([value])


def test_pending_is_what_was_not_read(tmp_path):
    topic = Log(tmp_path).create_topic("t", segment_bytes=300)
    reader = opened(LogSource(tmp_path, "t", Text()))
    assert reader.pending() == 0
    send(topic, *[b"%d" % n for n in range(50)])
    assert reader.pending() == 50
    read = len(reader.poll(7)) + len(reader.poll(7))
    assert reader.pending() == 50 - read
    while reader.poll(100) is not None:
        pass
    assert reader.pending() == 0
    reader.close()


def test_a_bounded_read_has_no_more_than_it_will_read(tmp_path):
    topic = Log(tmp_path).create_topic("t")
    send(topic, b"a", b"b")
    reader = opened(LogSource(tmp_path, "t", Text(), end=LogOffsets.latest()))
    send(topic, b"c", b"d")
    assert reader.pending() == 2
    reader.close()


def test_a_long_way_to_the_end_is_gone_in_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(log_reader, "_LOOKED_AT", 10)
    topic = Log(tmp_path).create_topic("t")
    send(topic, *[b"x"] * 25)
    reader = opened(LogSource(tmp_path, "t", Text()))
    assert [reader.pending() for _ in range(3)] == [None, None, 25]
    reader.close()


def test_a_partition_that_is_gone_is_no_failure_of_the_metric(tmp_path):
    Log(tmp_path).create_topic("t")
    look = log_reader.TailLook(tmp_path / "t" / "7")
    assert look.end_offset() is None
    look.close()
