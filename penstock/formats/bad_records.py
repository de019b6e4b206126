"""Records that cannot be decoded: fail, skip, or divert to a side output; and the batch of the others.

A decoding reader holds a :class:`BadRecords` and tells it of every record that it cannot read.  Under
``FAIL`` that raises.  Otherwise the record is kept until the source operator takes it, right after the
poll, with :meth:`~penstock.connectors.source.SplitReader.take_diverted`: counted, and sent to the side
output if there is one.  All this is between two snapshots, so what holds for good records holds for bad
ones: each is diverted exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch, Times, concat
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, ConnectorError

T = TypeVar("T")

_SHOWN_BYTES = 64
_FEW = 16
Records: TypeAlias = "pa.RecordBatch | list[Any]"
Whereabouts = Callable[[int], tuple[Any, bytes]]
"""Position and bytes of the value at an index."""


class OnError(Enum):
    """What a source does with a record that it cannot decode."""

    FAIL = "fail"
    """The job fails, naming the record. The default."""
    SKIP = "skip"
    """The record is left out and counted in ``numRecordsInErrors``."""
    DIVERT = "divert"
    """The record is counted too, and goes to a side output as :class:`Diverted`."""


@dataclass(frozen=True, slots=True)
class Diverted:
    """A record that could not be decoded, and why."""

    source: str
    """Where it comes from: a topic, a file."""
    split: str
    """Id of the split: of a partition, a file."""
    position: Any
    """Its place there: an offset."""
    raw: bytes
    """The record itself."""
    reason: str
    timestamp: int | None = None
    """Its event time, if the source knows it without decoding."""


class DecodeError(ConnectorError):
    """A value that its format cannot decode.

    ``index`` is the value's place among those given to be decoded; the reader turns it into a position.
    """

    code = Code.DECODE

    def __init__(self, index: int, reason: str) -> None:
        self.index = index
        self.reason = reason
        super().__init__(f"record {index} cannot be decoded: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return (DecodeError, (self.index, self.reason))


def deserialized(schema: Any, items: Sequence[Any]) -> list[Any]:
    """What ``schema.deserialize`` makes of each; raises :class:`DecodeError` with the place of a bad one."""
    deserialize = schema.deserialize
    records: list[Any] = []
    try:
        for item in items:
            records.append(deserialize(item))
    except Exception as e:
        raise DecodeError(len(records), f"{type(schema).__name__}: {e}") from e
    return records


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """What to do, and the id of the side output to divert to."""

    on_error: OnError = OnError.FAIL
    tag: str | None = None

    @staticmethod
    def of(on_error: OnError | str = OnError.FAIL, divert_to: Any = None) -> ErrorPolicy:
        """From what users write; ``divert_to`` is an ``OutputTag`` or its id."""
        try:
            chosen = OnError(on_error)
        except ValueError:
            known = ", ".join(repr(choice.value) for choice in OnError)
            raise ConfigError(f"on_error is one of {known}, not {on_error!r}") from None
        tag = getattr(divert_to, "tag_id", divert_to)
        if (chosen is OnError.DIVERT) is not isinstance(tag, str):
            raise ConfigError(
                "to divert records that cannot be decoded give both OnError.DIVERT and the OutputTag of the "
                f"side output they shall go to; got {chosen} and {divert_to!r}"
            )
        return ErrorPolicy(chosen, tag)


class BadRecords:
    """The bad records of one reader since they were last taken. Used on the task's thread.

    ``where`` is what an error message says in front of a position: ``"topic 't' partition 1, offset"``.
    """

    def __init__(self, policy: ErrorPolicy, source: str, split: str, where: str) -> None:
        self._where = where
        self._policy = policy
        self._source = source
        self._split = split
        self._found: list[Diverted] = []

    @property
    def fails(self) -> bool:
        """Whether the first bad record ends the job."""
        return self._policy.on_error is OnError.FAIL

    def add(self, position: Any, raw: bytes, reason: str, timestamp: int | None = None) -> None:
        """A record cannot be decoded: raise, or keep it until it is taken."""
        if self.fails:
            shown = f"{raw[:_SHOWN_BYTES]!r}{'...' if len(raw) > _SHOWN_BYTES else ''}"
            raise ConnectorError(
                f"{self._where} {position}: {reason}. The record is {shown}. To go on without such records "
                "choose OnError.SKIP, or OnError.DIVERT to get them from a side output."
            )
        self._found.append(Diverted(self._source, self._split, position, raw, reason, timestamp))

    def take(self) -> list[Diverted]:
        """What was found since the last call."""
        found, self._found = self._found, []
        return found


def salvage(
    count: int, decode: Callable[[int, int], T], bad: Callable[[int, str], None]
) -> list[tuple[int, int, T]]:
    """Decode ``count`` values in as few pieces as their errors allow: start, stop and records of each.

    ``decode`` gets a range of values and raises :class:`DecodeError` with the place of a bad one in that
    range, not always the first; ``bad`` is told of each, in order.  Behind a bad value the pieces begin small
    and grow again, so that many bad values in a row cost little more than as many good ones.
    """
    pieces: list[tuple[int, int, T]] = []
    ahead: list[DecodeError] = []
    """Bad values that are known and not yet reached, the nearest last; ``index`` counts from 0 here."""
    start, size = 0, count
    while start < count:
        if ahead and ahead[-1].index == start:
            bad(start, ahead.pop().reason)
            start, size = start + 1, _FEW
            continue
        stop = min(start + size, ahead[-1].index if ahead else count)
        try:
            pieces.append((start, stop, decode(start, stop)))
            start, size = stop, 2 * size
        except DecodeError as error:
            ahead.append(DecodeError(start + error.index, error.reason))
    return pieces


def decode_batch(
    decode: Callable[[int, int], Records],
    times: Times,
    bad: BadRecords,
    at: Whereabouts,
    skips_none: bool,
) -> Batch | None:
    """The values as a batch, ``None`` if none is left; ``bad`` hears of those that cannot be decoded.

    ``decode`` gets a range of values and answers with as many records; ``times`` has one entry a value.
    With ``skips_none`` a record of ``None`` is no record.
    """

    def on_bad(index: int, reason: str) -> None:
        position, raw = at(index)
        bad.add(position, raw, reason, int(times[index]))

    pieces = [
        _batch(records, times[start:stop], skips_none)
        for start, stop, records in salvage(len(times), decode, on_bad)
    ]
    filled = [piece for piece in pieces if len(piece)]
    if not filled:
        return None
    return concat(filled if _alike(filled) else [Batch.of_rows(p.to_rows(), p.times) for p in filled])


def _alike(pieces: list[Batch]) -> bool:
    return len({piece.is_columnar for piece in pieces}) == 1


def _batch(records: Records, times: Times, skips_none: bool) -> Batch:
    if isinstance(records, pa.RecordBatch):
        return Batch.of_columns(records, times)
    there = [record for record in records if record is not None] if skips_none else records
    if len(there) == len(records):
        return Batch.of_rows(records, times)
    kept = np.array([record is not None for record in records], np.bool_)
    return Batch.of_rows(there, times[kept])
