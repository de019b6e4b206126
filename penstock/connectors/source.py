"""The source contract: splits, polling, positions.

A source is divided into **splits** (a file, a partition of a topic, a range of numbers).  The
coordinator asks the source's :class:`SplitEnumerator` for splits and deals them to the source's
subtasks; each subtask opens a :class:`SplitReader` per split and polls.

Who calls what, when, on which thread:

* ``Source.create_enumerator`` and the enumerator's methods run on the driver.  ``discover`` is
  called once before the job starts and then every ``discovery_interval_ms`` if that is set.  A job that
  starts over before its first snapshot gets the splits of that first call again.
* ``Source.open_split`` and the reader's methods run on the task's thread, in the slot.  ``poll``
  must not block: return ``None`` when nothing is there now, and raise :class:`EndOfSplit` when
  nothing will ever be there again.
* ``position`` is called between polls, for snapshots: it must say where the *next* record starts.
  The classic mistake is the off-by-one: after restoring ``position()`` the reader must deliver
  exactly the records that had not been delivered yet.

Positions and splits are stored in snapshots; keep them to plain values, which need no pickle.

Records may be gone that a source was to read next (design note 021): retention has overtaken
the job, or what it reads was deleted and made anew.  Nothing can bring such records back, so by default the
job fails, for good, and says which they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.core.metrics import MetricGroup
from penstock.core.packed import Names, PackedNames
from penstock.formats.bad_records import Diverted


@dataclass(frozen=True, slots=True)
class Split:
    """One part of a source that is read in order by one subtask."""

    id: str
    """Unique within the source and stable across runs."""
    info: Any = None
    """What ``open_split`` needs to know: a path, a partition, a range."""


@dataclass(frozen=True, slots=True)
class SplitsFinished:
    """A reading subtask's word to the enumerator: these splits are read to their ends."""

    generation: int
    """Of the attempt that read them; a later one may have to read them again."""
    split_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dealt:
    """State of an enumerator that remembers nothing: the names of all splits that were dealt."""

    names: PackedNames


class BetweenSources:
    """Base of an enumerator's state while other sources come first: only one that knows them goes on with it.

    That is one that :attr:`Source.reports_finished`.
    """

    __slots__ = ()


class EndOfSplit(Exception):
    """Raised by ``poll`` when the split has no more records, now or ever."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """A place in a split: its first record of this time or later, as its own timestamps say.

    ``MIN_TIME`` is the first record that is there, whatever the source was told to begin with.
    """

    ms: int


@dataclass(frozen=True, slots=True)
class AtOffset:
    """A place in a split: the position of a record."""

    offset: int


class Comparison(Enum):
    """How a wanted value compares with a constant."""

    EQUAL = "equal"
    LESS = "less"
    LESS_EQUAL = "less_equal"
    GREATER = "greater"
    GREATER_EQUAL = "greater_equal"


@dataclass(frozen=True)
class Bound:
    """Records are wanted only if this comparison of a column, of an Arrow type, with a value is true."""

    column: str
    comparison: Comparison
    value: Any
    type: Any


class SplitReader(ABC):
    """Reads one split, from a position on."""

    @abstractmethod
    def poll(self, max_rows: int) -> Batch | None:
        """The next records (at most about ``max_rows``), or ``None`` if there are none now.

        May set ``times`` if the records carry timestamps of their own.
        """

    @abstractmethod
    def position(self) -> Any:
        """Where the next record starts."""

    def next_poll_ms(self) -> int | None:
        """Processing time before which polling again is useless, if known."""
        return None

    def take_diverted(self) -> list[Diverted]:
        """Records since the last call that could not be decoded and did not fail the job.

        Called after every ``poll``, also one that returned nothing: they belong before the position.
        """
        return []

    def pending(self) -> int | None:
        """How many records are there that were not given yet, for people to see; ``None`` if nobody knows.

        Asked about once a second, on the task's thread: it must not wait.
        """
        return None

    def show(self, group: MetricGroup) -> None:  # noqa: B027 - optional hook
        """Register what else there is to see; called once, and the group goes with the split."""

    def on_checkpoint_complete(self, position: Any) -> None:  # noqa: B027 - optional hook
        """A snapshot that holds ``position`` was published: for information to outside systems."""

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release files and connections."""


class SplitEnumerator(ABC):
    """Finds splits. Lives on the driver; its state is part of every snapshot."""

    @abstractmethod
    def discover(self) -> Iterable[Split]:
        """Splits that were not returned before (also not before a restore)."""

    def is_exhausted(self) -> bool:
        """Whether ``discover`` will never return anything again, asked after each call of it.

        For sources with a ``discovery_interval_ms`` that end all the same; others need not say so.
        """
        return False

    def expects_splits(self) -> bool:
        """Whether more splits are sure to come, asked after each call of ``discover``.

        As long as they are, a subtask without a split is not idle: event time waits for it.
        """
        return False

    def on_finished(self, split_ids: Iterable[str]) -> None:  # noqa: B027 - optional hook
        """These splits are read; told of those that the source :meth:`Source.awaits_end` of, after a restore
        of all of them again.

        Called on another thread than the other methods.
        """

    def snapshot(self) -> Any:
        """What must be remembered so that ``discover`` does not return a split twice.

        If that is nothing (``None``), the names of all splits are remembered instead.
        """
        return None

    def restore(self, state: Any) -> None:  # noqa: B027 - optional hook
        """Take back what ``snapshot`` returned."""


class FixedSplits(SplitEnumerator):
    """All splits are known at the start."""

    def __init__(self, splits: Iterable[Split]) -> None:
        self._splits = list(splits)
        self._seen = Names()

    def discover(self) -> Iterable[Split]:
        return [split for split in self._splits if self._seen.add(split.id)]

    def snapshot(self) -> Any:
        return self._seen.packed()

    def restore(self, state: Any) -> None:
        self._seen = Names.restored(state)


class SplitsOnce(SplitEnumerator):
    """All splits at the first ``discover`` and none again, also after a restore.

    For sources whose division depends on the parallelism, or on what is there: comparing split ids after a
    restore would find "new" splits and read everything twice.
    """

    def __init__(self, find: Callable[[], Iterable[Split]]) -> None:
        self._find = find
        self._done = False

    def discover(self) -> Iterable[Split]:
        splits = () if self._done else self._find()
        self._done = True
        return splits

    def snapshot(self) -> bool:
        return self._done

    def restore(self, state: Any) -> None:
        self._done = bool(state)


class Source(ABC):
    """A place records come from. Shipped to slots by pickling: open connections in readers."""

    bounded: bool = True
    """Whether the source ends. Unbounded sources keep the job running."""

    discovery_interval_ms: int | None = None
    """How often to look for new splits; ``None`` means once."""

    read_in_order: bool = False
    """Whether a subtask reads its splits one after the other (files) or all together (partitions)."""

    ids_last: bool = True
    """Whether a split's id means the same input in another run, so that a new id is new input."""

    reports_finished: bool = False
    """Whether the enumerator wants to hear of splits that have been read to their ends."""

    diverts_to: str | None = None
    """Id of the side output for records that cannot be decoded, if there is one."""

    @abstractmethod
    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        """The object that finds splits; ``parallelism`` is the number of reading subtasks."""

    @abstractmethod
    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        """A reader for ``split``, from ``position`` on, or from its start if ``None``."""

    def reads_in_order(self, split: Split) -> bool:
        """:attr:`read_in_order` for this split: whether it waits until those before it are done."""
        return self.read_in_order

    def awaits_end(self, split: Split) -> bool:
        """Whether the enumerator must hear when ``split`` is read; it deals one of which that is not so only
        when it has heard of all of which it is."""
        return self.reports_finished

    def holds_time(self, split: Split) -> bool:
        """Whether event time stands still until this split is read: its records come in no order of time."""
        return False

    def check(self) -> None:  # noqa: B027 - optional hook
        """Called on the driver before the job starts: raise a clear error for what cannot work."""

    def from_end(self, split: Split) -> Split:
        """The same split, to be read from its current end on.

        Called on the driver for every split found when a job without checkpoints starts again after a
        failure: such a job reads at most once.  A source that does not say where its end is returns the
        split unchanged and starts over, so that its records come again.
        """
        return split

    def end_offset(self, split: Split) -> int | None:
        """Where the split ends now, as :meth:`between` takes it; ``None`` if it ends by itself.

        Called on the driver to replay a piece of the past, as is :meth:`between`.
        """
        if self.bounded:
            return None
        raise ConfigError(
            f"{type(self).__name__} cannot say where {split.id!r} ends now, so it cannot be replayed"
        )

    def between(self, split: Split, start: AtTime | AtOffset | None, end: int | None) -> Split:
        """The split from ``start`` (``None``: as it is) up to, not including, ``end``.

        A source that knows nothing of times gives the whole split for a time: whoever asks leaves out
        records that are too early all the same.
        """
        if isinstance(start, AtOffset) or end is not None:
            raise ConfigError(
                f"{type(self).__name__} has no offsets, so {split.id!r} cannot be read from or to one"
            )
        return split

    def produced_type(self) -> Any | None:
        """Type information of the records, if the source knows it."""
        return None

    def narrowed(self, columns: Collection[str]) -> Source:
        """The same source whose records need only have these columns, because nobody reads the others.

        Called on the driver when a job starts.  Splits and positions must mean the same: the next start may
        read other columns.  Records that have more columns do no harm.
        """
        return self

    def within(self, bounds: Sequence[Bound]) -> Source:
        """The same source, which may leave out records that are not within all bounds: they are filtered out
        behind it, and it gives no event time.

        Called as :meth:`narrowed` is.  Positions must mean the same.
        """
        return self


class OnTruncated(Enum):
    """What to do when the records to read next are gone."""

    ERROR = "error"
    """The job fails, naming the range. The default."""
    EARLIEST = "earliest"
    """Go on at the first record that is left; the log says what was lost."""
