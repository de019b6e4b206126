"""``penstock topic``: topics of the embedded log, from the shell."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click
import pyarrow as pa

from penstock.cli.output import console, say, say_exactly, say_json, size, table
from penstock.connectors.log import Consumer, Log, LogOffsets, PartitionDescription, Producer, Topic
from penstock.coordinator.registry import home
from penstock.core.discreet import shown
from penstock.core.errors import ConfigError

_POLL_S = 0.1
_CHUNK = 5000

_root = click.option(
    "--root", type=click.Path(path_type=Path), help="Directory of the log [default: $PENSTOCK_HOME/log]."
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs to read.")


def _log(root: Path | None) -> Log:
    return Log(home() / "log" if root is None else root)


@click.group()
def topic() -> None:
    """Work with topics of the embedded log."""


@topic.command()
@click.argument("name")
@_root
@click.option("--partitions", default=1, show_default=True, type=click.IntRange(1), help="How many.")
@click.option("--retention-bytes", type=click.IntRange(1), help="Bytes kept per partition.")
@click.option("--retention-ms", type=click.IntRange(1), help="Age after which records may go.")
def create(
    name: str, root: Path | None, partitions: int, retention_bytes: int | None, retention_ms: int | None
) -> None:
    """Create the topic NAME."""
    log = _log(root)
    log.create_topic(name, partitions, retention_bytes, retention_ms)
    say(f"Created topic {name} with {partitions} partition(s) in {log.root}.")


@topic.command("list")
@_root
@_as_json
def list_topics(root: Path | None, as_json: bool) -> None:
    """List the topics."""
    log = _log(root)
    described = [log.describe(name) for name in log.topics()]
    if as_json:
        names = [
            {"name": one.name, "partitions": len(one.partitions), "records": one.records} for one in described
        ]
        say_json(names)
    elif not described:
        say(f"There are no topics in {log.root}.")
    else:
        rows = [(one.name, len(one.partitions), one.records) for one in described]
        shown = table(("TOPIC", "PARTITIONS", "RECORDS"), rows, right=("PARTITIONS", "RECORDS"))
        console().print(shown)


@topic.command()
@click.argument("name")
@_root
def describe(name: str, root: Path | None) -> None:
    """Show offsets and sizes of every partition of NAME."""
    described = _log(root).describe(name)
    columns = ("PARTITION", "START", "END", "RECORDS", "SEGMENTS", "SIZE", "PENDING")
    rows = [
        (p.partition, p.start_offset, p.end_offset, _records(p), p.segments, size(p.bytes), p.pending)
        for p in described.partitions
    ]
    console().print(table(columns, rows, right=columns))


def _records(partition: PartitionDescription) -> int:
    return partition.end_offset - partition.start_offset


@topic.command()
@click.argument("name")
@_root
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(name: str, root: Path | None, yes: bool) -> None:
    """Delete NAME and all its records."""
    log = _log(root)
    records = log.describe(name).records
    if not yes:
        click.confirm(shown(f"Delete topic {name} with {records} records?"), abort=True)
    log.delete_topic(name)
    say(f"Deleted topic {name}.")


@topic.command()
@click.argument("name")
@click.argument("file", type=click.File("rb"), default="-")
@_root
@click.option("--key-separator", metavar="TEXT", help="Text between key and value, in each line.")
@click.option("--partition", type=click.IntRange(0), help="Write to this partition.")
def produce(
    name: str, file: BinaryIO, root: Path | None, key_separator: str | None, partition: int | None
) -> None:
    """Append the lines of FILE (standard input if none is given) to NAME, a record each."""
    count = 0
    with Producer(_log(root).topic(name)) as producer:
        for number, line in enumerate(file, 1):
            key, value = _split(line.rstrip(b"\r\n"), key_separator, number)
            producer.send(value, key, partition=partition)
            count += 1
            if file.isatty():
                producer.flush()
        producer.sync()
    say(f"Produced {count} records.", err=True)


def _split(line: bytes, separator: str | None, number: int) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator.encode())
    if not found:
        raise ConfigError(f"line {number} has no key: {separator!r} is not in it")
    return key, value


@topic.command()
@click.argument("name")
@_root
@click.option("--from-beginning", is_flag=True, help="Start at the oldest record.")
@click.option("--offset", type=click.IntRange(0), help="Start at this offset of --partition.")
@click.option("--timestamp", type=int, metavar="MS", help="Start at this time.")
@click.option("--partition", type=click.IntRange(0), help="Read this partition only.")
@click.option("--max", "limit", type=click.IntRange(1), help="Stop after so many records.")
@click.option("--follow", "-f", is_flag=True, help="Wait for new records instead of stopping at the end.")
@click.option("--keys", is_flag=True, help="Print keys too.")
def consume(
    name: str,
    root: Path | None,
    from_beginning: bool,
    offset: int | None,
    timestamp: int | None,
    partition: int | None,
    limit: int | None,
    follow: bool,
    keys: bool,
) -> None:
    """Print the records of NAME, a line each: with --follow from now on, else from the beginning."""
    chosen = [from_beginning, offset is not None, timestamp is not None]
    if sum(chosen) > 1:
        raise click.UsageError("give one of --from-beginning, --offset and --timestamp")
    if offset is not None and partition is None:
        raise click.UsageError("--offset needs --partition")
    opened = _log(root).topic(name)
    if partition is not None:
        opened.partition_path(partition)
    start = LogOffsets.latest() if follow and not any(chosen) else LogOffsets.earliest()
    if timestamp is not None:
        start = LogOffsets.timestamp(timestamp)
    with Consumer(opened, start) as consumer:
        if partition is not None:
            _only(consumer, opened, partition, offset)
        _print(consumer, lambda at: partition in (None, at), limit, follow, keys)


def _only(consumer: Consumer, opened: Topic, partition: int, offset: int | None) -> None:
    """Put all other partitions behind their end: nothing of them is read for nothing."""
    ends = LogOffsets.latest().resolve(opened)
    mine = consumer.positions[partition] if offset is None else offset
    consumer.positions = [mine if at == partition else end for at, end in enumerate(ends)]


def _print(
    consumer: Consumer, wanted: Callable[[int], bool], limit: int | None, follow: bool, keys: bool
) -> None:
    left = limit
    show = _for_people if sys.stdout.isatty() else sys.stdout.buffer.write
    for batch in _batches(consumer, wanted, follow):
        rows = batch if left is None else batch.slice(0, left)
        for line in _lines(rows, keys):
            show(line)
        sys.stdout.flush()
        left = None if left is None else left - rows.num_rows
        if left == 0:
            return


def _for_people(line: bytes) -> None:
    """A record may come from anybody: at a terminal it is only shown."""
    say_exactly(line.removesuffix(b"\n").decode(errors="backslashreplace"))


def _batches(consumer: Consumer, wanted: Callable[[int], bool], follow: bool) -> Iterator[pa.RecordBatch]:
    while True:
        found = consumer.poll(_CHUNK)
        yield from (batch for partition, batch in found if wanted(partition))
        if not found:
            if not follow:
                return
            threading.Event().wait(_POLL_S)


def _lines(batch: pa.RecordBatch, keys: bool) -> Iterator[bytes]:
    values: list[Any] = batch.column("value").to_pylist()
    if not keys:
        yield from (value + b"\n" for value in values)
        return
    for key, value in zip(batch.column("key").to_pylist(), values, strict=True):
        yield (b"null" if key is None else key) + b"\t" + value + b"\n"
