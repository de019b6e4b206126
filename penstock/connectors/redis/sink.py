"""Redis as a sink, in two ways.

*Idempotent*: commands are sent in pipelines as records come, all of them by the barrier.  After a failure the
records since the last snapshot are written again.  Commands that set what they set (``SET``, ``HSET``,
``DEL``) leave the same in the end; meanwhile a reader may see a key go back to an earlier value.

*Exactly once*: commands wait in a list on the server, and a script runs a whole list in one step when its
snapshot is published.  The script leaves a mark in the same step and does nothing where it finds one, so a
repeated commit changes nothing.  This is the way for ``XADD``, ``INCRBY`` and everything else that adds.
The server runs nothing else while the script does: a few hundred thousand commands a second.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.connectors.redis.client import RedisConnection
from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, WriterContext, digest_of_sink
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.ids import Epoch
from penstock.core.optional import require

Command = tuple[bytes, ...]
"""A command and its arguments, as Redis gets them."""
LONGEST = 4000
"""Words of a command that Lua can hand over at once are some more than this."""
ToCommands = Callable[[Any], list[Command]]
Part = str | Callable[[Any], Any]
"""A field's name, or a function of the record."""
_PIPELINE = 2000
_MARK_S = 30 * 24 * 3600
"""Marks of commits are kept as long as anybody might start from the snapshot again."""
_SHOWN_WORDS, _SHOWN_BYTES = 4, 40
_LEFTOVER = re.compile(r".*:(?P<generation>\d+):(?P<subtask>\d+):\w+:(?P<epoch>\d+|open)")
_COMMIT = """
local mark, total = redis.call('GET', KEYS[2]), tonumber(ARGV[1])
if mark == 'done' then
  redis.call('DEL', KEYS[1])
  return 0
end
if redis.call('LLEN', KEYS[1]) ~= total then
  return -1
end
local at, from, words = tonumber(mark or 0), 0, {}
while at < total do
  local size = tonumber(words[at - from + 1])
  if size == nil or at - from + 1 + size > #words then
    words, from = redis.call('LRANGE', KEYS[1], at, at + 9999), at
    size = tonumber(words[1])
  end
  local answer = redis.pcall(unpack(words, at - from + 2, at - from + 1 + size))
  if type(answer) == 'table' and answer.err then
    redis.call('SET', KEYS[2], at, 'EX', ARGV[2])
    return redis.error_reply(answer.err)
  end
  at = at + size + 1
end
redis.call('SET', KEYS[2], 'done', 'EX', ARGV[2])
redis.call('DEL', KEYS[1])
return 1
"""
"""A command that Redis refuses stops it there: once the cause is gone, the next commit goes on behind it."""


def part_of(part: Part) -> Callable[[Any], Any]:
    """What takes a part of a record."""
    if callable(part):
        return part
    if isinstance(part, str):
        return lambda record: record[part]
    raise ConfigError(f"give a field's name or a function of the record, not {part!r}")


def encoded(value: Any) -> bytes:
    """A value as Redis stores it."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str | int | float):
        return str(value).encode()
    raise ConnectorError(f"Redis stores bytes, text and numbers, not {value!r}; make text of it first")


def strings(key: Part, value: Part, expire_ms: int | None = None) -> ToCommands:
    """``SET key value``; ``DEL key`` for a value of ``None``."""
    key_of, value_of = part_of(key), part_of(value)
    tail: Command = () if expire_ms is None else (b"PX", str(expire_ms).encode())

    def commands(record: Any) -> list[Command]:
        name, found = encoded(key_of(record)), value_of(record)
        return [(b"DEL", name) if found is None else (b"SET", name, encoded(found), *tail)]

    return commands


def hashes(key: Part, fields: Callable[[Any], Mapping[str, Any] | None]) -> ToCommands:
    """``HSET key field value ...``; a field of ``None`` is removed, fields of ``None`` remove the key."""
    key_of = part_of(key)

    def commands(record: Any) -> list[Command]:
        name, found = encoded(key_of(record)), fields(record)
        if found is None:
            return [(b"DEL", name)]
        there = [encoded(x) for field, value in found.items() if value is not None for x in (field, value)]
        gone = [encoded(field) for field, value in found.items() if value is None]
        return [*_in_pieces(b"HSET", name, there), *_in_pieces(b"HDEL", name, gone)]

    return commands


def _in_pieces(command: bytes, name: bytes, words: list[bytes]) -> list[Command]:
    step = LONGEST // 2
    return [(command, name, *words[start : start + step]) for start in range(0, len(words), step)]


def entries(stream: str, fields: Callable[[Any], Mapping[str, Any]], keep: int | None = None) -> ToCommands:
    """``XADD stream * field value ...``; ``keep`` lets the stream forget all but about so many entries."""
    head: Command = (b"XADD", encoded(stream))
    if keep is not None:
        head += (b"MAXLEN", b"~", str(keep).encode())

    def commands(record: Any) -> list[Command]:
        pairs = [encoded(x) for pair in fields(record).items() for x in pair]
        if not pairs:
            raise ConnectorError(
                f"an entry of the Redis stream {stream!r} needs at least one field: {record!r}"
            )
        return [(*head, b"*", *pairs)]

    return commands


@dataclass(frozen=True, slots=True)
class StagedCommands:
    """The committable: a list on the server."""

    key: str
    length: int
    records: int


class RedisSink(Sink):
    """Writes records as the commands that ``to_commands`` makes of them. See its static methods."""

    def __init__(
        self, connection: RedisConnection, to_commands: ToCommands, exactly_once: bool = False
    ) -> None:
        self._connection = connection
        self._to_commands = to_commands
        self._exactly_once = exactly_once

    @staticmethod
    def strings(
        connection: RedisConnection,
        key: Part,
        value: Part,
        expire_ms: int | None = None,
        exactly_once: bool = False,
    ) -> RedisSink:
        """``SET``; a value of ``None`` deletes the key."""
        return RedisSink(connection, strings(key, value, expire_ms), exactly_once)

    @staticmethod
    def hashes(
        connection: RedisConnection,
        key: Part,
        fields: Callable[[Any], Mapping[str, Any] | None],
        exactly_once: bool = False,
    ) -> RedisSink:
        """``HSET``; a field of ``None`` is removed, ``None`` for all fields deletes the key."""
        return RedisSink(connection, hashes(key, fields), exactly_once)

    @staticmethod
    def stream(
        connection: RedisConnection,
        stream: str,
        fields: Callable[[Any], Mapping[str, Any]],
        keep: int | None = None,
    ) -> RedisSink:
        """``XADD``, exactly once: entries appear when their snapshot is published."""
        return RedisSink(connection, entries(stream, fields, keep), exactly_once=True)

    def check(self) -> None:
        self._connection.open().close()

    def create_writer(self, context: WriterContext) -> SinkWriter:
        if self._exactly_once:
            return _StagingWriter(self._connection, self._to_commands, context)
        return _WritingWriter(self._connection, self._to_commands)

    def create_committer(self) -> Committer | None:
        return _RedisCommitter(self._connection) if self._exactly_once else None


class _WritingWriter(SinkWriter):
    """Sends commands as they come."""

    def __init__(self, connection: RedisConnection, to_commands: ToCommands) -> None:
        self._connection = connection
        self._to_commands = to_commands
        self._client = connection.open()

    def write(self, batch: Batch) -> None:
        commands = [command for record in batch.to_rows() for command in self._to_commands(record)]
        for start in range(0, len(commands), _PIPELINE):
            pipeline = self._client.pipeline(transaction=False)
            for command in commands[start : start + _PIPELINE]:
                pipeline.execute_command(*command)
            with self._connection.errors():
                pipeline.execute()

    def close(self) -> None:
        self._client.close()


class _StagingWriter(SinkWriter):
    """Puts commands into a list: for each its number of words, then the words."""

    def __init__(self, connection: RedisConnection, to_commands: ToCommands, context: WriterContext) -> None:
        self._connection = connection
        self._to_commands = to_commands
        self._client = connection.open()
        prefix = sink_prefix(context.job_name, context.sink_id)
        self._stem = f"{prefix}:{context.generation}:{context.subtask}:{uuid.uuid4().hex}"
        self._words: list[bytes] = []
        self._length = 0
        self._records = 0
        if context.subtask == 0:
            with connection.errors():
                _remove_leftovers(self._client, prefix, context.generation, context.restored_epoch)

    def write(self, batch: Batch) -> None:
        for record in batch.to_rows():
            for command in self._to_commands(record):
                self._words += _with_size(command)
        self._records += len(batch)
        if len(self._words) >= _PIPELINE * 8:
            self._send()

    def _send(self) -> None:
        if self._words:
            with self._connection.errors():
                self._client.rpush(f"{self._stem}:open", *self._words)
            self._length += len(self._words)
            self._words = []

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        self._send()
        if not self._length:
            return []
        key = f"{self._stem}:{epoch}"
        with self._connection.errors():
            self._client.rename(f"{self._stem}:open", key)
        staged = StagedCommands(key, self._length, self._records)
        self._length = self._records = 0
        return [staged]

    def close(self) -> None:
        with suppress(ConnectorError), self._connection.errors():  # the next attempt removes it as well
            self._client.delete(f"{self._stem}:open")
        self._client.close()


class _RedisCommitter(Committer):
    """Runs staged lists, each in one step."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._client = connection.open()
        self._script = self._client.register_script(_COMMIT)

    def commit(self, committables: Sequence[StagedCommands]) -> Sequence[CommitOutcome]:
        return [self._commit(staged) for staged in committables]

    def _commit(self, staged: StagedCommands) -> CommitOutcome:
        with self._connection.errors():
            try:
                done = self._script(keys=[staged.key, f"{staged.key}:done"], args=[staged.length, _MARK_S])
            except require("redis", "redis").exceptions.ResponseError as e:
                raise self._refused(staged, e) from None
        if done == -1:
            raise ConnectorError(
                f"{staged.records} records cannot be committed: their list {staged.key!r} on Redis at "
                f"{self._connection.host}:{self._connection.port} is gone or damaged, and nothing says that "
                "they were written. A server that forgets what it confirmed (no append-only file, or "
                "eviction of keys) cannot be written to exactly once. Or the snapshot is older than "
                f"{_MARK_S // 86_400} days, or a savepoint after which the job went back to an older "
                "checkpoint. To go on without these records (or if you know that they are there): "
                f"SET {staged.key}:done done"
            )
        return CommitOutcome.COMMITTED if done == 1 else CommitOutcome.ALREADY_COMMITTED

    def _refused(self, staged: StagedCommands, error: Exception) -> Exception:
        """The error for a command that Redis refuses, if it is one, with what can be done about it."""
        mark = self._client.get(f"{staged.key}:done") or b""
        size = self._client.lindex(staged.key, int(mark)) if mark.isdigit() else None
        if size is None:
            return error
        at, end = int(mark), int(mark) + 1 + int(size)
        words = self._client.lrange(staged.key, at + 1, min(end - 1, at + _SHOWN_WORDS))
        shown = " ".join(word[:_SHOWN_BYTES].decode(errors="replace") for word in words)
        return ConnectorError(
            f"Redis at {self._connection.host}:{self._connection.port} refuses a command of published "
            f"output: {error}. The command: {shown}. Mend or remove the key that it is for and start the "
            "job again, which goes on with this command; or leave the command out: "
            f"SET {staged.key}:done {end}"
        )

    def withdraw(self, job_name: str, sink_id: str, generation: int) -> None:
        with self._connection.errors():
            _remove_leftovers(self._client, sink_prefix(job_name, sink_id), generation + 1, None)

    def close(self) -> None:
        self._client.close()


def _remove_leftovers(client: Any, prefix: str, generation: int, restored: Epoch | None) -> None:
    """What attempts before ``generation`` staged behind the restored epoch; the caller may be the zombie."""
    for found in client.scan_iter(match=f"{prefix}:*", count=1000):
        name = _LEFTOVER.fullmatch(found.decode())
        if name is None or int(name["generation"]) >= generation:
            continue
        if name["epoch"] == "open" or restored is None or int(name["epoch"]) > restored:
            client.delete(found)


def sink_prefix(job_name: str, sink_id: str) -> str:
    """What the keys of a sink's lists begin with."""
    return f"penstock:{{{digest_of_sink(job_name, sink_id)}}}"


def _with_size(command: Command) -> list[bytes]:
    """The words of a command behind their number.

    Lua refuses a longer one by ending the script, which would leave no mark behind what it had done.
    """
    if len(command) > LONGEST:
        raise ConnectorError(
            f"a Redis command of {len(command)} words ({command[0].decode(errors='replace')}) is too long to "
            f"be committed exactly once: it may have {LONGEST}. Make several of it"
        )
    return [str(len(command)).encode(), *command]
