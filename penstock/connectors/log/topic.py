"""A log: a directory of topics; a topic: a directory of partitions and its settings.

::

    <root>/<topic>/meta.json
                   <partition>/lock
                               <base offset>.log         segments
                               <base offset>.producers   see partition.py
                               pending/                  staged transactions, see staging.py
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.connectors.log.errors import CorruptLogError
from penstock.connectors.log.files import create_partition
from penstock.connectors.log.partition import Limits, PartitionWriter
from penstock.connectors.log.reader import PartitionReader
from penstock.connectors.log.segment import segment_bases, segment_path
from penstock.connectors.source import OnTruncated
from penstock.core.clock import Clock, SystemClock
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, ConnectorError
from penstock.storage.own_files import make_directory, sync_path, write_durably

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_META = "meta.json"
_META_VERSION = 1


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """How a partition stands."""

    partition: int
    start_offset: int
    end_offset: int
    segments: int
    bytes: int
    pending: int
    """Transactions that are staged and not committed (or left over by a job that is gone)."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """How a topic stands."""

    name: str
    limits: Limits
    partitions: tuple[PartitionDescription, ...]

    @property
    def records(self) -> int:
        """Records that can be read."""
        return sum(p.end_offset - p.start_offset for p in self.partitions)


class Topic:
    """An existing topic. Cheap to make; holds no open files."""

    def __init__(self, path: Path, partitions: int, limits: Limits, topic_id: str | None = None) -> None:
        self.id = topic_id
        """What tells it from another topic of its name; older topics have none."""
        self.path = path
        self.name = path.name
        self.partitions = partitions
        self.limits = limits

    def partition_path(self, partition: int) -> Path:
        """Directory of a partition."""
        if not 0 <= partition < self.partitions:
            raise ConnectorError(
                f"topic {self.name!r} has partitions 0 to {self.partitions - 1}; there is no {partition}"
            )
        return self.path / str(partition)

    def reader(self, partition: int, on_truncated: OnTruncated | str = OnTruncated.ERROR) -> PartitionReader:
        """A new, independent reader of one partition."""
        return PartitionReader(self.partition_path(partition), OnTruncated(on_truncated))

    def writer(self, partition: int, clock: Clock | None = None) -> PartitionWriter:
        """A new writer of one partition; :class:`Producer` is the comfortable way to append."""
        return PartitionWriter(self.partition_path(partition), self.limits, clock or SystemClock())

    def apply_retention(self, clock: Clock | None = None) -> int:
        """Delete expired segments now, not at the next roll; returns how many."""
        return sum(self.writer(partition, clock).retain() for partition in range(self.partitions))

    def describe(self) -> TopicDescription:
        """Offsets and sizes of every partition."""
        described = tuple(self._describe(partition) for partition in range(self.partitions))
        return TopicDescription(self.name, self.limits, described)

    def _describe(self, partition: int) -> PartitionDescription:
        directory = self.partition_path(partition)
        reader = self.reader(partition)
        bases = segment_bases(directory)
        try:
            start, end = reader.start_offset(), reader.end_offset()
        finally:
            reader.close()
        size = sum(segment_path(directory, base).stat().st_size for base in bases)
        pending = sum(1 for _ in (directory / "pending").glob("*.frame"))
        return PartitionDescription(partition, start, end, len(bases), size, pending)


class Log:
    """The topics under one directory of the local file system, shared by any number of processes."""

    def __init__(self, root: str | Path) -> None:
        if "://" in str(root):
            raise ConfigError(f"a log lives on a local file system: give a directory, not {str(root)!r}")
        self.root = Path(root)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        retention_bytes: int | None = None,
        retention_ms: int | None = None,
        segment_bytes: int = 64 << 20,
    ) -> Topic:
        """Create a topic; one that exists is an error. The number of partitions stays for ever."""
        path = self._path(name)
        if partitions < 1:
            raise ConfigError(f"a topic needs at least one partition, not {partitions}")
        limits = Limits(segment_bytes, retention_bytes, retention_ms)
        building = self.root / f".creating-{uuid.uuid4().hex}"
        make_directory(building)
        for partition in range(partitions):
            create_partition(building / str(partition))
        topic_id = uuid.uuid4().hex
        meta = {"version": _META_VERSION, "id": topic_id, "partitions": partitions, **asdict(limits)}
        write_durably(building / _META, json.dumps(meta, indent=2).encode())
        try:
            building.rename(path)
        except OSError as e:
            shutil.rmtree(building)
            raise ConnectorError(f"topic {name!r} exists already in {self.root}") from e
        sync_path(self.root)
        return Topic(path, partitions, limits, topic_id)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records. Readers that are at work see no more of it."""
        doomed = self.root / f".deleted-{uuid.uuid4().hex}"
        self.topic(name).path.rename(doomed)
        shutil.rmtree(doomed)

    def topics(self) -> list[str]:
        """Names of the topics, sorted."""
        if not self.root.is_dir():
            return []
        return sorted(
            p.name for p in self.root.iterdir() if _NAME.fullmatch(p.name) and (p / _META).is_file()
        )

    def topic(self, name: str) -> Topic:
        """The topic called ``name``."""
        path = self._path(name)
        try:
            meta = json.loads((path / _META).read_bytes())
            return Topic(path, int(meta["partitions"]), _limits(meta), meta.get("id"))
        except (FileNotFoundError, NotADirectoryError):
            known = ", ".join(self.topics()) or "none"
            raise ConnectorError(
                f"there is no topic {name!r} in the log {self.root} (topics there: {known}). Create it with "
                f"`penstock topic create {name}` or Log.create_topic.",
                code=Code.NO_TOPIC,
            ) from None
        except (ValueError, KeyError, TypeError) as e:
            raise CorruptLogError(f"{path / _META} is not a topic's settings: {e!r}") from e

    def describe(self, name: str) -> TopicDescription:
        """How a topic stands."""
        return self.topic(name).describe()

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} is no topic name: use up to 200 letters, digits, '.', '_' and '-', "
                "not starting with '.'"
            )
        return self.root / name


def _limits(meta: dict[str, int | None]) -> Limits:
    return Limits(int(meta["segment_bytes"] or 0), meta["retention_bytes"], meta["retention_ms"])
