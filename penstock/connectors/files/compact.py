"""Small files into larger ones, before anybody sees them.

With compaction, complete parts are not handed out at the barrier but **held**: hidden, durable, and listed
in the writer's state.  When there are enough of them, by checkpoints or by size, the writer merges those of a
bucket into one hidden file and hands that out; its commit makes it visible by one rename and then removes
the parts, which never were.  So no reader can see a file and its parts, or only some of them.

Whatever dies in between, a snapshot either lists the parts or has the merged file among its committables.
Compaction is per subtask; results come later by as many checkpoints as are waited for.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import pyarrow as pa
from pyarrow import orc

from penstock.core.durations import to_bytes
from penstock.core.errors import ConfigError, ConnectorError


@dataclass(frozen=True, slots=True)
class FileCompactStrategy:
    """When held parts are merged: after so many checkpoints, at so many bytes, whichever comes first."""

    checkpoints: int | None = None
    size_threshold: int | None = None

    def __post_init__(self) -> None:
        if self.checkpoints is None and self.size_threshold is None:
            raise ConfigError(
                "compaction needs a number of checkpoints or a size: enable_compaction_on_checkpoint(...) or "
                "set_size_threshold(...)"
            )
        if (self.checkpoints or 1) < 1 or (self.size_threshold or 1) < 1 or self.checkpoints == 0:
            raise ConfigError("compaction waits for at least one checkpoint and at least one byte")

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Nothing chosen yet."""
        return FileCompactStrategy.Builder()

    class Builder:
        """Builds a :class:`FileCompactStrategy`."""

        def __init__(self) -> None:
            self._checkpoints: int | None = None
            self._size: int | None = None

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Merge what came together in this many checkpoints."""
            self._checkpoints = num_checkpoints_before_compaction
            return self

        def set_size_threshold(self, size_threshold: int | str) -> FileCompactStrategy.Builder:
            """Merge as soon as a bucket's parts have this many bytes; larger files are left as they are."""
            self._size = to_bytes(size_threshold)
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Accepted for ported programs; merging is part of the writer's barrier here."""
            return self

        def build(self) -> FileCompactStrategy:
            """The strategy."""
            return FileCompactStrategy(self._checkpoints, self._size)


class FileCompactor(ABC):
    """Merges files of one format. Shipped to slots by pickling."""

    @abstractmethod
    def compact(self, inputs: Sequence[BinaryIO], output: BinaryIO) -> None:
        """Write one file with the records of all, in their order. The caller closes the streams."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | str | None = None) -> FileCompactor:
        """For formats without a header or footer: one file after the other."""
        delimiter = file_delimiter.encode() if isinstance(file_delimiter, str) else file_delimiter
        return ConcatFileCompactor(delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """For formats that cannot be merged: files stay as they are and only come later."""
        return IdenticalFileCompactor()


@dataclass(frozen=True, slots=True)
class ConcatFileCompactor(FileCompactor):
    """Bytes after bytes; of all files but the first, ``header_lines`` lines are left out."""

    delimiter: bytes = b""
    header_lines: int = 0

    def compact(self, inputs: Sequence[BinaryIO], output: BinaryIO) -> None:
        first: list[bytes] = []
        for number, stream in enumerate(inputs):
            header, behind = _header(stream, self.header_lines)
            first = first if number else header
            if header != first:
                raise ConnectorError(
                    "files with different columns cannot be merged: the schema has changed since some were "
                    "written. Go on from the snapshot once without compaction: then those that wait become "
                    "visible one by one."
                )
            output.writelines([self.delimiter] if number else header)
            output.write(behind)
            shutil.copyfileobj(stream, output, 1 << 20)


def _header(stream: BinaryIO, count: int) -> tuple[list[bytes], bytes]:
    """The first ``count`` lines, and what was read behind them."""
    lines: list[bytes] = []
    block = b""
    while len(lines) < count:
        more = stream.read(1 << 16)
        block += more
        while len(lines) < count and b"\n" in block:
            line, _, block = block.partition(b"\n")
            lines.append(line + b"\n")
        if not more:
            return [*lines, block], b""
    return lines, block


class IdenticalFileCompactor(FileCompactor):
    """Copies one file. Parts are never given to it together: see :meth:`HeldParts.ready`."""

    def compact(self, inputs: Sequence[BinaryIO], output: BinaryIO) -> None:
        if len(inputs) != 1:
            raise ConnectorError(f"an identical_file_compactor cannot merge {len(inputs)} files")
        shutil.copyfileobj(inputs[0], output, 1 << 20)


@dataclass(frozen=True, slots=True)
class OrcFileCompactor(FileCompactor):
    """All rows, written again, a file at a time."""

    compression: str = "snappy"

    def compact(self, inputs: Sequence[BinaryIO], output: BinaryIO) -> None:
        files = [orc.ORCFile(stream) for stream in inputs]
        schema = merged_schema([file.schema for file in files])
        writer = orc.ORCWriter(output, compression=self.compression)
        for file in files:
            for batch in file.read().to_batches():
                writer.write(pa.Table.from_batches([widened(batch, schema)]))
        writer.close()


def merged_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of all files: those of a job before and after it got another schema may come together."""
    try:
        merged = pa.unify_schemas(list(schemas), promote_options="permissive")
        everywhere = set.intersection(*(set(schema.names) for schema in schemas))
        return pa.schema([each if each.name in everywhere else each.with_nullable(True) for each in merged])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as e:
        raise ConnectorError(
            f"files of before and after a change of the schema cannot be merged: {e}. Go on from the "
            "snapshot once without compaction: then the files that wait become visible one by one."
        ) from None


def widened(columns: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with all columns of a merged schema; those that it does not have are null."""
    names = columns.schema.names
    arrays = [
        columns.column(each.name).cast(each.type)
        if each.name in names
        else pa.nulls(columns.num_rows, each.type)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A complete hidden file that waits to be merged. Part of snapshots."""

    bucket: str
    pending: str
    final: str
    size: int
    age: int = 0
    """Barriers since it was written."""


class HeldParts:
    """The parts that one writer holds."""

    def __init__(
        self,
        strategy: FileCompactStrategy | None,
        compactor: FileCompactor | None,
        restored: Sequence[HeldPart],
    ) -> None:
        self._strategy = strategy
        self._merges = compactor is not None and not isinstance(compactor, IdenticalFileCompactor)
        self._held = list(restored)

    def add(self, parts: Sequence[HeldPart]) -> None:
        """Parts completed since the last barrier."""
        self._held += parts

    def state(self) -> list[HeldPart]:
        """All of them."""
        return list(self._held)

    def ready(self, everything: bool) -> list[list[HeldPart]]:
        """At a barrier: groups of parts that shall be one file each; they are held no longer."""
        self._held = [replace(part, age=part.age + 1) for part in self._held]
        buckets: dict[str, list[HeldPart]] = {}
        for part in self._held:
            buckets.setdefault(part.bucket, []).append(part)
        groups: list[list[HeldPart]] = []
        self._held = []
        for parts in buckets.values():
            large = [part for part in parts if self._is_large(part)]
            small = [part for part in parts if not self._is_large(part)]
            groups += [[part] for part in large]
            if small and (everything or self._is_due(small)):
                groups += [small] if self._merges else [[part] for part in small]
            else:
                self._held += small
        return groups

    def _is_large(self, part: HeldPart) -> bool:
        threshold = None if self._strategy is None else self._strategy.size_threshold
        return threshold is not None and part.size >= threshold

    def _is_due(self, parts: list[HeldPart]) -> bool:
        if self._strategy is None:
            return True
        checkpoints, threshold = self._strategy.checkpoints, self._strategy.size_threshold
        return (checkpoints is not None and max(part.age for part in parts) >= checkpoints) or (
            threshold is not None and sum(part.size for part in parts) >= threshold
        )
