"""From batches of the job to Kafka's records: the contract, and the usual case of schemas for key and value.

Records are encoded by the batch: each part of them is a list as long as the batch, or one thing for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.formats.value_format import ValueFormat, as_format

Headers = list[tuple[str, bytes | None]]

_ANY = -1
_NOW = 0


@dataclass(frozen=True, slots=True)
class Records:
    """Records to send. A part that is not a list is the same for all; ``values`` is always a list."""

    topics: str | list[str]
    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    partitions: int | list[int] = _ANY
    """-1 leaves the choice to the key's hash, or to chance."""
    times: int | list[int] = _NOW
    """Milliseconds; 0 stands for the moment of sending."""
    headers: list[Headers | None] | None = None

    def topic_names(self) -> set[str]:
        """The topics that occur."""
        return {self.topics} if isinstance(self.topics, str) else set(self.topics)


class RecordEncoder(ABC):
    """Makes Kafka records. Shipped to slots by pickling; used by the task's thread."""

    @abstractmethod
    def encode(self, batch: Batch) -> Records:
        """The records of a batch, in order."""

    def topics(self) -> tuple[str, ...]:
        """The topics known before there is a record, to be checked when the job is submitted."""
        return ()


class SchemaEncoder(RecordEncoder):
    """A value schema, perhaps a key schema, and a topic or a function that chooses one.

    Schemas may be :class:`ValueFormat`, which write whole columns, or objects with ``serialize(record)``.
    Records carry their event times as Kafka timestamps, unless told not to.
    """

    def __init__(
        self, topic: str | Callable[[Any], str], value: Any, key: Any = None, with_times: bool = True
    ) -> None:
        self._topic = topic
        self._with_times = with_times
        self._value = as_format(value)
        self._key = None if key is None else as_format(key)

    def topics(self) -> tuple[str, ...]:
        return (self._topic,) if isinstance(self._topic, str) else ()

    def encode(self, batch: Batch) -> Records:
        topic = self._topic
        return Records(
            topics=topic if isinstance(topic, str) else [topic(row) for row in batch.to_rows()],
            values=_encoded(self._value, batch),
            keys=None if self._key is None else _encoded(self._key, batch),
            times=event_times(batch) if self._with_times else _NOW,
        )


def event_times(batch: Batch) -> int | list[int]:
    """Event times as Kafka timestamps; a record without one gets the time of sending."""
    if batch.times is None:
        return _NOW
    known: list[int] = np.maximum(batch.times, _NOW).tolist()
    return known


def _encoded(schema: ValueFormat, batch: Batch) -> list[bytes | None]:
    found = schema.encode(batch)
    values: list[bytes | None] = list(found) if isinstance(found, list) else found.to_pylist()
    if len(values) != len(batch):
        raise ConnectorError(f"{schema!r} made {len(values)} values of {len(batch)} records")
    return values
