"""The contract of a state backend: all that the author of a new one must read.

A backend keeps the keyed state of one operator on one subtask.  The engine reaches it through
:class:`~penstock.state.keyed.KeyedState`, which gives user code its handles, brings restored state to the
declared types, and decides what is frozen and when.  The backend only keeps entries:

* :class:`StateBackend` makes tables and timer queues;
* :class:`Table` holds the entries of one named state, :class:`FrozenTable` is a view of it at one moment;
* :class:`TimerQueue` puts a table of timers in order;
* :class:`FileBackend` is for backends whose checkpoints are files of their own.  Without it checkpoints are
  written in blocks that every backend reads, as savepoints always are.

Methods without a body must be written.  The others are right as they stand, made of those: a backend
overrides one where it has a shorter way.  :mod:`penstock.state.heap` is the smallest backend; design note 027
says why the contract is cut like this.  A new backend passes the suite
:class:`~penstock.testing.conformance.StateConformance`, and slots are handed it in a
:class:`~penstock.state.registry.StateBackends`.

Call order
    1. The backend is opened.  Nothing has been asked for yet: open files with the first table.
    2. ``restore_files``, at most once, and only with files that this backend has written.
    3. ``new_table`` and ``timer_queue`` as states are restored from blocks or asked for by the program, then
       records: any calls on the tables, freezes and releases in between.
    4. ``close``, once, also when 2 or 3 failed half way.

Threads
    Everything is called on the task's thread, with one exception: what a freeze gave (:class:`FrozenTable`,
    :class:`FrozenFiles`) is read on the thread that writes the snapshot, while tables go on changing.

Keys
    An entry's key is canonical (:mod:`penstock.core.keys`) and hashable.  Keys that Python holds equal are
    one entry: ``1``, ``1.0`` and ``True``.  Values are any objects that can be pickled, ``None`` among them.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import pyarrow as pa

from penstock.core.copying import copied
from penstock.core.handles import Blob, NativeHandle, digest
from penstock.core.ids import EventTime
from penstock.state.chunks import FrozenChunks
from penstock.state.schema import StateSchema, StoredForm

if TYPE_CHECKING:
    from penstock.state.handles import Scope, State

EVENT_TIMERS = "_timers/event"
PROCESSING_TIMERS = "_timers/processing"
"""Names of the two tables of shape ``TIMER`` that an operator may have."""

Timer = tuple[EventTime, Any, Any]
"""Time, key and namespace."""
FireTimer = Callable[[EventTime, Any, Any], None]
"""Called with the timer's time, key and namespace."""


class EntryShape(Enum):
    """What a table's entries are indexed by, and where the record key sits in it."""

    KEY = "key"
    NAMESPACED = "key,namespace"
    TIMER = "time,key,namespace"

    def key_of(self, entry: Any) -> Any:
        """The record key of an entry, which decides its key group."""
        if self is EntryShape.KEY:
            return entry
        return entry[0] if self is EntryShape.NAMESPACED else entry[1]


class Table(ABC):
    """The entries of one named state on one subtask. ``get`` and ``put`` are called for every record.

    Invariant: what a :class:`FrozenTable` shows never changes, whatever is done to the table, or to values
    that it handed out, after the freeze.  The classic mistake is to share a list between the two.

    Of a state whose handles the backend replaces (:meth:`StateBackend.adapt_handle`) ``get`` and ``own`` may
    give a form that only these handles know; ``peek`` and frozen views give the plain value.
    """

    __slots__ = ()

    name: str
    shape: EntryShape
    keeps_owned: ClassVar[bool] = False
    """Whether what ``own`` gave may be changed until the next freeze, and not just until the next call."""
    scans_cheaply: ClassVar[bool] = False
    """Whether ``entries`` reads nothing but memory: then expired entries are looked for now and then."""

    @abstractmethod
    def get(self, entry: Any, /) -> Any:
        """The value, ``None`` if there is none.

        The caller may change it and ``put`` it back.  Whether a change stays that was not put back is open.
        """

    @abstractmethod
    def put(self, entry: Any, value: Any, /) -> None:
        """Set the value, which is the table's from now on. The caller may change it until the next call."""

    @abstractmethod
    def remove(self, entry: Any, /) -> None:
        """Forget an entry; a missing one is fine."""

    @abstractmethod
    def own(self, entry: Any, /) -> Any:
        """The value, a container that the caller changes in place: each change counts as a ``put``.

        ``None`` if there is none.
        """

    @abstractmethod
    def __contains__(self, entry: Any) -> bool:
        """Whether there is a value, be it ``None``."""

    @abstractmethod
    def entries(self) -> list[Any]:
        """All entries, each once and in any order, as a list that later changes do not disturb."""

    @abstractmethod
    def freeze(self) -> FrozenTable:
        """A view of what is there now.

        Records wait meanwhile, so it must not take time in proportion to the entries.  There may be several
        views, released in any order.
        """

    def peek(self, entry: Any, /) -> Any:
        """Like ``get`` for a caller that promises only to look, and only until the next call."""
        return self.get(entry)

    def expect(self, entries: Sequence[Any], /) -> None:  # noqa: B027
        """A hint that records of these come next. It counts as a call, and changes nothing to be seen."""

    def guard(self, value: Any) -> Any:
        """A part of what ``peek`` gave as it may be handed out, to be changed by who gets it."""
        return copied(value)

    def some_entries(self, most: int) -> list[Any]:
        """Up to so many entries, if possible without reading the others."""
        return self.entries()[:most]

    def any_entry(self) -> Any:
        """Some entry, ``None`` if the table is empty."""
        return next(iter(self.some_entries(1)), None)

    def __len__(self) -> int:
        return len(self.entries())

    def clear(self) -> None:
        """Forget all entries; no view of them is in use."""
        for entry in self.entries():
            self.remove(entry)


class FrozenTable(ABC):
    """What a table held at one moment: made by ``Table.freeze``, written by the snapshot writer, released."""

    __slots__ = ("form", "name", "shape")

    def __init__(self, name: str, shape: EntryShape) -> None:
        self.name = name
        self.shape = shape
        self.form: StoredForm | None = None
        """How it is to be stored; set before the view goes to the writer."""

    @abstractmethod
    def items(self) -> Iterator[tuple[Any, Any]]:
        """Entries and values, each once. On any thread, by one reader at a time, until released.

        The reader changes nothing.  A view may be read after the backend was closed.
        """

    @abstractmethod
    def release(self) -> None:
        """The writer is done, or the snapshot was aborted, maybe unread. Called on the task's thread.

        A second call does nothing.
        """


class TimerQueue(ABC):
    """The timers of one time domain in order of time; ties have no order.

    A timer is its (time, key, namespace), an entry of ``table``: that is what snapshots and restores see.
    ``table`` changes only through the queue, except that it is cleared, or filled by a restore, before
    ``rebuild``.
    """

    def __init__(self, table: Table) -> None:
        assert table.shape is EntryShape.TIMER
        self.table = table
        self.firing: int | None = None
        """The time of the timer that is being fired."""
        self.rebuild()

    @abstractmethod
    def rebuild(self) -> None:
        """Take the order from the table. Called first of all, and when the table was cleared."""

    @abstractmethod
    def register(self, time: int, key: Any, namespace: Any) -> None:
        """Add a timer unless it is there."""

    @abstractmethod
    def delete(self, time: int, key: Any, namespace: Any) -> None:
        """Remove a timer if it is there."""

    @abstractmethod
    def next_time(self) -> int | None:
        """When the next timer is due; may be early if that one was deleted. ``None`` if there is none."""

    @abstractmethod
    def due(self, time: int) -> Iterator[Timer]:
        """All timers at or before ``time`` in order, also those registered while others are given.

        Each is removed when it is given, and ``firing`` is its time until the next one; ``None`` at the end.
        """

    def fire_until(self, time: int, fire: FireTimer) -> None:
        """Fire all timers at or before ``time``, also those registered by ``fire`` itself."""
        for at, key, namespace in self.due(time):
            fire(at, key, namespace)

    def fire_each_once(self, fire: FireTimer) -> None:
        """Fire the timers that are there now, in order of time; those registered meanwhile stay."""
        for due, key, namespace in sorted(self.table.entries(), key=lambda entry: entry[0]):
            if (due, key, namespace) in self.table:
                self.delete(due, key, namespace)
                self.firing = due
                fire(EventTime(due), key, namespace)
        self.firing = None


class StateBackend(ABC):
    """Keeps the state of one operator on one subtask. The module's docstring has call order and threads."""

    @abstractmethod
    def new_table(self, name: str, shape: EntryShape) -> Table:
        """An empty table. Called at most once for a name, and not for one that a restore brought."""

    @abstractmethod
    def timer_queue(self, table: Table) -> TimerQueue:
        """The order of a table of shape ``TIMER`` of this backend, which may have entries.

        :class:`~penstock.state.timers.IndexedTimerQueue` serves every table, with an index in memory.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of everything outside of memory. Views that were frozen before may still be read."""

    def adapt_handle(
        self, handle: State, table: Table, scope: Scope, namespaced: bool, schema: StateSchema
    ) -> State:
        """The handle that the program gets on ``table``, of the same class or a subclass.

        Called for every handle, when restored values have been brought to ``schema``.
        """
        return handle

    def measures(self) -> dict[str, float]:
        """What is to be seen of it, by names of metrics; asked for rarely, on the task's thread."""
        return {}


class TableBlock(NamedTuple):
    """Stored entries of one table within a range of key groups, and what was said about their state."""

    name: str
    shape: EntryShape
    entries: list[Any]
    values: list[Any]
    schema: StateSchema | None
    """``None`` if the block does not describe its state: it is the engine's own, or of format 1."""


class StoredBlocks(Protocol):
    """Stored state, cut to a range of key groups: a state file, or a backend's own files."""

    def tables(self) -> Iterator[TableBlock]:
        """The entries, some of one table at a time."""

    def chunk_batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Batches of chunk stores, by name."""


class FileStorage(Protocol):
    """Where checkpoints are kept, as far as state needs it."""

    def write_file(self, path: str, chunks: Iterable[bytes]) -> Blob:
        """Write a file durably; one that is there is replaced."""

    def read_blob(self, blob: Blob) -> bytes:
        """The bytes of a blob, verified."""

    def store(self, path: str, file: Path) -> Blob:
        """:meth:`write_file` with the bytes of a local file, which never changes."""

    def fetch(self, wanted: Sequence[tuple[Blob, Path]]) -> None:
        """Make local files of blobs, verified.  They may be links to others: nobody may ever change them."""


@dataclass(frozen=True, slots=True)
class FrozenFiles:
    """A directory that holds everything as it was at one moment; no file in it changes."""

    backend: str
    directory: Path
    is_lasting: Callable[[str], bool]
    """Whether a file, by name, never changes and its name is never used again: it is worth sharing."""
    description: Mapping[str, bytes]
    """More files, by name, that say what is in the others."""
    pickled: bool
    owner: str
    """Stands for the backend's instance, so that no two of them ever store a file under one name."""
    known: dict[str, Blob]
    """Lasting files that are stored already. :meth:`upload` adds those it stores, and takes out those that
    are gone from the directory: they never come back."""

    def upload(self, storage: FileStorage) -> tuple[dict[str, Blob], int]:
        """Store the lasting files that are not stored yet. Gives all of them, and the bytes written."""
        found: dict[str, Blob] = {}
        written = 0
        for file in sorted(self.directory.iterdir()):
            if not self.is_lasting(file.name):
                continue
            blob = self.known.get(file.name)
            if blob is None:
                blob = storage.store(f"shared/{digest(file.read_bytes())}-{self.owner}", file)
                self.known[file.name] = blob
                written += blob.length
            found[file.name] = blob
        for gone in self.known.keys() - found.keys():
            del self.known[gone]
        return found, written

    def small_files(self) -> dict[str, bytes]:
        """The rest, by name: it goes with each checkpoint."""
        files = (file for file in self.directory.iterdir() if not self.is_lasting(file.name))
        return {**{file.name: file.read_bytes() for file in files}, **self.description}

    def release(self) -> None:
        """Called on the task's thread when the writer is done, or the snapshot was aborted."""
        shutil.rmtree(self.directory, ignore_errors=True)


class RestoredFiles(NamedTuple):
    """What a backend made of its files."""

    tables: Sequence[Table]
    """Tables that were taken over with their entries."""
    schemas: Mapping[str, StateSchema | None]
    """What the files say about these, and about states without entries in the range."""
    blocks: Iterable[TableBlock] = ()
    """The other entries: of states that were not taken over, or that ``schemas`` has another schema of."""


class FileBackend(StateBackend):
    """A backend whose checkpoints are files of its own, of which those that never change are stored once.

    When a file may be left out because it is stored already is argued in design note 010.
    """

    name: ClassVar[str]
    """What handles of its files are marked with, and what the registry knows it by."""

    @abstractmethod
    def checkpoint(self, schemas: Mapping[str, StateSchema | None]) -> FrozenFiles | None:
        """All tables as files, as they are now; ``schemas`` has every table.

        ``None`` to have the tables frozen one by one and written in blocks instead.
        """

    @abstractmethod
    def read_files(self, handle: NativeHandle, storage: FileStorage, first: int, last: int) -> StoredBlocks:
        """What the key groups ``first`` to ``last`` have in files of this backend. Changes nothing here."""

    def restore_files(
        self, handles: Sequence[NativeHandle], storage: FileStorage, first: int, last: int, own_files: bool
    ) -> RestoredFiles:
        """Take over what the key groups ``first`` to ``last`` have in files of earlier backends of this name.

        ``own_files`` says that they are in the directory this job writes to, and need not be stored again.
        """
        found = (self.read_files(handle, storage, first, last).tables() for handle in handles)
        return RestoredFiles((), {}, (block for blocks in found for block in blocks))


FrozenPart = FrozenTable | FrozenChunks | FrozenFiles
"""What freezing keyed state gives; each part is released when it has been written."""
