"""Redis as source and sink, against a real server."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.redis import source as stream_source
from penstock.connectors.redis.client import RedisConnection
from penstock.connectors.redis.sink import RedisSink
from penstock.connectors.redis.source import RedisStreamSource, _standing, order
from penstock.connectors.sink import Sink
from penstock.connectors.source import EndOfSplit, Source, SplitReader
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, ConnectorError, PositionGoneError
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.conformance.sink_suite import SinkConformance
from penstock.testing.conformance.source_suite import SourceConformance
from penstock.testing.local import local_cluster
from penstock.testing.servers import RedisServer
from tests.patience import PATIENCE_S
from tests.servers import skip_without


class _Served:
    """Suites call ``make_source`` and ``make_sink`` without fixtures."""

    @pytest.fixture(autouse=True)
    def _serve(self, place: RedisConnection, name: str) -> None:
        self.place, self.name = place, name


class TestStreamSource(_Served, SourceConformance):
    def make_source(self, directory: Path) -> Source:
        opened = self.place.open()
        for stream, count in (("a", 25), ("b", 3)):
            for i in range(count):
                opened.xadd(f"{self.name}-{stream}", {"i": i}, id=f"{1000 + i // 3}-{i % 3 + 1}")
        opened.close()
        return RedisStreamSource(self.place, [f"{self.name}-a", f"{self.name}-b"], bounded=True)

    def expected(self) -> list[Any]:
        return [{"i": str(i)} for i in range(25)] + [{"i": str(i)} for i in range(3)]


class TestStreamSink(_Served, SinkConformance):
    def make_sink(self, directory: Path) -> Sink:
        return RedisSink.stream(self.place, self.name, lambda i: {"i": i})

    def visible(self, sink: Sink, directory: Path) -> list[Any]:
        opened = self.place.open()
        found = [fields[b"i"] for _, fields in opened.xrange(self.name)]
        opened.close()
        return found

    def test_leftovers_are_removed(self, tmp_path: Path) -> None:
        opened = self.place.open()
        before = set(opened.keys("penstock:*"))
        super().test_leftovers_are_removed(tmp_path)
        assert [key for key in set(opened.keys("penstock:*")) - before if not key.endswith(b":done")] == []
        opened.close()


def reader_of(source: RedisStreamSource, position: Any = None) -> SplitReader:
    (split,) = source.create_enumerator(1).discover()
    return source.open_split(split, position, ManualClock())


def test_event_times_are_in_the_ids(place: RedisConnection, client: Any, name: str) -> None:
    client.xadd(name, {"a": 1}, id="5000-7")
    batch = reader_of(RedisStreamSource(place, name)).poll(10)
    assert batch is not None and batch.to_rows() == [{"a": "1"}] and batch.time_list() == [5000]


def test_bytes_that_are_no_text(place: RedisConnection, client: Any, name: str) -> None:
    client.xadd(name, {"a": b"\xff"}, id="5-0")
    with pytest.raises(ConnectorError, match="binary=True"):
        reader_of(RedisStreamSource(place, name)).poll(10)
    batch = reader_of(RedisStreamSource(place, name, binary=True)).poll(10)
    assert batch is not None and batch.to_rows() == [{b"a": b"\xff"}]


def test_unbounded_and_latest(place: RedisConnection, client: Any, name: str) -> None:
    """A stream that is not there yet is waited for; ``latest`` leaves out what is there."""
    early = reader_of(RedisStreamSource(place, name))
    assert early.poll(10) is None
    client.xadd(name, {"a": 1})
    late = reader_of(RedisStreamSource(place, name, start="latest"))
    client.xadd(name, {"a": 2})
    for reader, expected in ((early, ["1", "2"]), (late, ["2"])):
        batch = reader.poll(10)
        assert batch is not None and [row["a"] for row in batch.to_rows()] == expected
        assert reader.poll(10) is None


def test_a_trimmed_stream_is_noticed(place: RedisConnection, client: Any, name: str) -> None:
    for i in range(10):
        client.xadd(name, {"i": i})
    source = RedisStreamSource(place, name)
    reader = reader_of(source)
    assert len(reader.poll(4) or ()) == 4
    position = reader.position()
    client.xtrim(name, minid=client.xrange(name)[4][0], approximate=False)
    assert len(reader_of(source, position).poll(3) or ()) == 3, "exactly what was read is gone"
    client.xtrim(name, maxlen=2, approximate=False)
    with pytest.raises(ConnectorError, match="4 entries behind .* are gone"):
        reader_of(source, position).poll(3)
    with pytest.raises(ConnectorError, match="are gone"):
        reader.poll(3)
    lenient = RedisStreamSource(place, name, on_trimmed="earliest")
    assert [row["i"] for row in (reader_of(lenient, position).poll(9) or []).to_rows()] == ["8", "9"]  # type: ignore[union-attr]


@pytest.mark.parametrize("again", [0, 3])
def test_a_stream_made_anew_is_noticed(place: RedisConnection, client: Any, name: str, again: int) -> None:
    """It would be read from the old place on, and what went with the old one be missed without a word."""
    for i in range(10):
        client.xadd(name, {"i": i})
    reader = reader_of(RedisStreamSource(place, name))
    assert len(reader.poll(4) or ()) == 4
    client.delete(name)
    for i in range(again):
        client.xadd(name, {"i": f"new {i}"}, id=f"{i + 1}-0")
    with pytest.raises(PositionGoneError, match=f"its entry number 4, and only {again} were ever added"):
        reader.poll(10)
    lenient = reader_of(RedisStreamSource(place, name, on_trimmed="earliest"), reader.position())
    batch = lenient.poll(10)
    found = [] if batch is None else [row["i"] for row in batch.to_rows()]
    assert found == [f"new {i}" for i in range(again)]
    assert lenient.poll(10) is None and lenient.position()[1] == again


def test_a_server_that_begins_to_count_is_no_stream_made_anew(
    place: RedisConnection, client: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis 6 does not count; upgraded to 7 it says that only the entries were ever added that are left."""
    for i in range(1, 11):
        client.xadd(name, {"i": i}, id=f"{i}-0")
    source = RedisStreamSource(place, name)
    with monkeypatch.context() as patched:
        patched.setattr(stream_source, "_standing", lambda info: replace(_standing(info), added=None))
        reader = reader_of(source)
        assert len(reader.poll(8) or ()) == 8
    client.xtrim(name, maxlen=3, approximate=False)
    client.execute_command("XSETID", name, "10-0", "ENTRIESADDED", 3, "MAXDELETEDID", "0-0")
    restored = reader_of(source, reader.position())
    assert len(restored.poll(8) or ()) == 2 and restored.position() == ("10-0", 3)
    client.delete(name)
    with pytest.raises(PositionGoneError, match="its entry number 3"):
        restored.poll(8)


def test_entries_before_the_given_start_may_go(place: RedisConnection, client: Any, name: str) -> None:
    for i in range(1, 21):
        client.xadd(name, {"i": i}, id=f"{i}-0")
    reader = reader_of(RedisStreamSource(place, name, start="10-0"))
    assert reader.position() == ("10-0", None)
    client.xtrim(name, minid="11-0", approximate=False)
    first = reader.poll(4)
    assert first is not None and [row["i"] for row in first.to_rows()] == ["11", "12", "13", "14"]
    rest = reader.poll(100)
    assert rest is not None and len(rest) == 6 and reader.position() == ("20-0", 20)
    client.xadd(name, {"i": 21}, id="21-0")
    client.xtrim(name, minid="22-0", approximate=False)
    with pytest.raises(ConnectorError, match="1 entries behind 20-0"):
        reader.poll(100)
    reader.close()


def test_a_stream_that_was_cut_before_the_job_began_is_fine(
    place: RedisConnection, client: Any, name: str
) -> None:
    for i in range(10):
        client.xadd(name, {"i": i}, maxlen=3, approximate=False)
    reader = reader_of(RedisStreamSource(place, name, bounded=True))
    batch = reader.poll(10)
    assert batch is not None and [row["i"] for row in batch.to_rows()] == ["7", "8", "9"]
    with pytest.raises(EndOfSplit):
        reader.poll(10)


def test_passwords_are_not_shown(redis_server: Any) -> None:
    hidden = RedisConnection(redis_server.host, redis_server.port, username="penstock", password="hush-hush")
    sink = RedisSink.stream(hidden, "s", lambda i: {"i": i})
    with pytest.raises(ConnectorError) as wrong:
        sink.check()
    source = RedisStreamSource(hidden, "s")
    assert "hush" not in f"{wrong.value!r} {wrong.value} {hidden!r} {sink!r} {source!r}"
    assert cloudpickle.loads(cloudpickle.dumps(hidden)).password == "hush-hush"


def test_nobody_there() -> None:
    with pytest.raises(ConnectorError, match="Redis at 127.0.0.1:1: "):
        RedisConnection("127.0.0.1", 1).open()
    with pytest.raises(ConfigError, match="not a URL"):
        RedisConnection("redis://localhost")
    with pytest.raises(ConfigError, match="1526919030474-0"):
        order("yesterday")


def test_a_killed_server(tmp_path: Path) -> None:
    """From a stream to a stream, while the server is killed and started again: every entry once, in order."""
    skip_without(RedisServer)
    count = 3000
    with RedisServer() as server, local_cluster(slots=2) as cluster:
        place = RedisConnection(server.host, server.port)
        opened = place.open()
        for i in range(count):
            opened.xadd("in", {"i": i})
        env = StreamExecutionEnvironment.get_execution_environment(_patient())
        gate = tmp_path / "gate"
        source = _Slow(place, "in", bounded=True)
        source.gate = gate
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "in").uid("in")
        stream.sink_to(RedisSink.stream(place, "out", lambda row: {"i": int(row["i"]) * 2})).uid("out")
        job = env.execute_async()
        _until(lambda: opened.xlen("out") > 0)
        server.kill()
        gate.touch()
        _until(lambda: cluster.jobs[0].driver.restarts > 0)
        server.restart()
        job.get_job_execution_result().result(PATIENCE_S)
        again = place.open()
        out = [int(fields[b"i"]) for _, fields in again.xrange("out")]
        restarts = cluster.jobs[0].driver.restarts
    assert out == [i * 2 for i in range(count)]
    assert restarts > 0


class _Slow(RedisStreamSource):
    """A few entries at a time, and half of them only once the gate is open: the server is dead by then."""

    gate: Path

    def open_split(self, split: Any, position: Any, clock: Any) -> SplitReader:
        reader = super().open_split(split, position, clock)
        poll = reader.poll

        seen = 0

        def few(max_rows: int) -> Any:
            nonlocal seen
            if seen >= 1500 and not self.gate.exists():
                return None
            batch = poll(min(max_rows, 10))
            seen += 0 if batch is None else len(batch)
            return batch

        reader.poll = few  # type: ignore[method-assign]
        return reader


def _patient() -> Configuration:
    config = Configuration()
    config.set_string("execution.checkpointing.interval", "50 ms")
    config.set_string("restart-strategy.type", "fixed-delay")
    config.set_string("restart-strategy.fixed-delay.attempts", "1000")
    config.set_string("restart-strategy.fixed-delay.delay", "100 ms")
    return config


def _until(true: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
