"""From records to Redis commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.core.errors import ConfigError, ConnectorError

Command = tuple[bytes, ...]
"""A command and its arguments, as Redis gets them."""
LONGEST = 4000
"""Words of a command that Lua can hand over at once are some more than this."""
ToCommands = Callable[[Any], list[Command]]
Part = str | Callable[[Any], Any]
"""A field's name, or a function of the record."""


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
