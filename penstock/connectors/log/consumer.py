"""Reading a topic from outside a job: what scripts, tests and the command line use."""

from __future__ import annotations

from types import TracebackType

import pyarrow as pa

from penstock.connectors.log.offsets import LogOffsets
from penstock.connectors.log.topic import Topic
from penstock.connectors.on_truncated import OnTruncated


class Consumer:
    """Reads all partitions of a topic, keeping its place in memory only. Independent of all others."""

    def __init__(
        self,
        topic: Topic,
        start: LogOffsets | None = None,
        on_truncated: OnTruncated | str = OnTruncated.ERROR,
    ) -> None:
        self._readers = [topic.reader(partition, on_truncated) for partition in range(topic.partitions)]
        self.positions = (start or LogOffsets.earliest()).resolve(topic)
        """The next offset to be read in each partition; may be set."""

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def poll(self, max_records: int = 5000) -> list[tuple[int, pa.RecordBatch]]:
        """New records by partition, at most ``max_records`` of each; empty if there are none now."""
        found = []
        for partition, reader in enumerate(self._readers):
            batch = reader.read(self.positions[partition], max_records)
            if batch.num_rows:
                self.positions[partition] = batch.column("offset")[-1].as_py() + 1
                found.append((partition, batch))
        return found

    def close(self) -> None:
        """Close the files."""
        for reader in self._readers:
            reader.close()
