"""What the Redis sink stages, and how that is committed, against a real server."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.connectors.redis.client import RedisConnection
from penstock.connectors.redis.sink import (
    RedisSink,
    StagedCommands,
    _RedisCommitter,
    entries,
    hashes,
    sink_prefix,
    strings,
)
from penstock.connectors.sink import CommitOutcome, WriterContext
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.local import local_cluster


def test_commands() -> None:
    assert strings("k", "v")({"k": "a", "v": 1}) == [(b"SET", b"a", b"1")]
    assert strings("k", "v", 50)({"k": "a", "v": 1}) == [(b"SET", b"a", b"1", b"PX", b"50")]
    assert strings(lambda r: r, lambda r: None)("a") == [(b"DEL", b"a")]
    assert hashes("k", lambda r: r["f"])({"k": 1, "f": {"x": 1.5, "y": None}}) == [
        (b"HSET", b"1", b"x", b"1.5"),
        (b"HDEL", b"1", b"y"),
    ]
    assert hashes("k", lambda r: None)({"k": 1}) == [(b"DEL", b"1")]
    assert entries("s", lambda r: {"x": r}, 9)(b"\0") == [
        (b"XADD", b"s", b"MAXLEN", b"~", b"9", b"*", b"x", b"\0")
    ]
    with pytest.raises(ConnectorError, match="make text of it"):
        strings(lambda r: "k", lambda r: r)(object())


def test_idempotent_writes_and_deletes(place: RedisConnection, client: Any, name: str) -> None:
    changes = [(f"{name}-{i % 7}", None if i % 7 == 3 else i) for i in range(5000)]
    with local_cluster(slots=2):
        env = StreamExecutionEnvironment.get_execution_environment()
        stream = env.from_collection(changes).key_by(lambda change: change[0]).map(lambda change: change)
        stream.sink_to(RedisSink.strings(place, lambda c: c[0], lambda c: c[1]))
        env.execute()
    last = dict(changes)
    assert {key: client.get(key) for key in last} == {
        key: None if value is None else str(value).encode() for key, value in last.items()
    }


def test_a_refused_command_does_not_double_those_before_it(
    place: RedisConnection, client: Any, name: str
) -> None:
    """The commit goes on where it stopped once the cause is gone."""
    words = [b"3", b"INCRBY", name.encode(), b"5", b"4", b"HSET", f"{name}-h".encode(), b"a", b"1"]
    client.rpush(f"{name}-staged", *words[:8], words[8])
    client.set(f"{name}-h", "no hash")
    committer = _RedisCommitter(place)
    staged = StagedCommands(f"{name}-staged", len(words), 2)
    for _ in range(2):
        with pytest.raises(ConnectorError, match="WRONGTYPE"):
            committer.commit([staged])
    client.delete(f"{name}-h")
    committer.commit([staged])
    committer.commit([staged])
    assert client.get(name) == b"5" and client.hgetall(f"{name}-h") == {b"a": b"1"}


def test_a_refused_command_is_shown_and_can_be_left_out(
    place: RedisConnection, client: Any, name: str
) -> None:
    staged = StagedCommands(f"{name}-staged", 13, 3)
    words = [b"HSET", f"{name}-h".encode(), b"a", b"1"]
    client.rpush(
        staged.key, b"2", b"INCR", name.encode(), b"4", *words, b"2", b"INCR", name.encode(), b"1", b"PING"
    )
    client.set(f"{name}-h", "no hash")
    with pytest.raises(ConnectorError, match=f"WRONGTYPE.*The command: HSET {name}-h a 1") as refused:
        _RedisCommitter(place).commit([staged])
    client.execute_command(*str(refused.value).partition("leave the command out: ")[2].split())
    assert _RedisCommitter(place).commit([staged]) == [CommitOutcome.COMMITTED]
    assert client.get(name) == b"2" and client.get(f"{name}-h") == b"no hash"


def test_long_lists_are_committed_in_order(place: RedisConnection, client: Any, name: str) -> None:
    changes = list(range(30_000))
    with local_cluster(slots=1):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection(changes).sink_to(RedisSink.stream(place, name, lambda i: {"i": i}))
        env.execute()
    assert [int(fields[b"i"]) for _, fields in client.xrange(name)] == changes


def test_wide_hashes_are_committed_once(place: RedisConnection, client: Any, name: str) -> None:
    """A command with too many words would end the script, without a mark behind what it had done."""
    wide = {f"f{i}": i for i in range(10_000)}
    sink = RedisSink(
        place, lambda _: [(b"INCR", name.encode()), *hashes("k", lambda r: wide)({"k": f"{name}-h"})], True
    )
    context = WriterContext("job", name, 0, 1, 1, None, (), True, ManualClock(), lambda _: None)
    writer = sink.create_writer(context)
    writer.write(Batch.of_rows([1]))
    prepared = writer.prepare_commit(Epoch(1))
    writer.close()
    for _ in range(2):
        _RedisCommitter(place).commit(prepared)
    assert client.get(name) == b"1" and client.hlen(f"{name}-h") == len(wide)
    writer = RedisSink.stream(place, name, lambda _: wide).create_writer(context)
    with pytest.raises(ConnectorError, match="20003 words"):
        writer.write(Batch.of_rows([1]))
    writer.close()


def test_a_lost_list_is_no_success(place: RedisConnection, client: Any, name: str) -> None:
    lost = [StagedCommands(f"ends-{name}", 5, 2)]
    with pytest.raises(ConnectorError, match="forgets what it confirmed") as refused:
        _RedisCommitter(place).commit(lost)
    way_out = str(refused.value).partition("that they are there): ")[2]
    client.execute_command(*way_out.split())
    assert _RedisCommitter(place).commit(lost) == [CommitOutcome.ALREADY_COMMITTED]


def test_what_a_failed_run_staged_is_withdrawn(place: RedisConnection, client: Any, name: str) -> None:
    sink = RedisSink.stream(place, name, lambda value: {"v": value})
    for generation, sink_id in ((3, name), (4, name), (5, name), (3, f"{name}-other")):
        context = WriterContext(
            "job", sink_id, 1, 2, generation, None, (), True, ManualClock(), lambda _: None
        )
        writer = sink.create_writer(context)
        writer.write(Batch.of_rows([1]))
        assert writer.prepare_commit(Epoch(1))
        writer.close()

    def lists(sink_id: str) -> int:
        return len(list(client.scan_iter(match=f"{sink_prefix('job', sink_id)}:*")))

    committer = sink.create_committer()
    assert committer is not None and (lists(name), lists(f"{name}-other")) == (3, 1)
    committer.withdraw("job", name, 4)
    committer.close()
    assert (lists(name), lists(f"{name}-other")) == (1, 1), "those of a later run, and of another sink"
