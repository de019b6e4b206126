"""Making a savepoint: from nothing, or from an existing snapshot with changes.

Nothing is written before :meth:`SavepointWriter.write`, and the savepoint exists only when its manifest, the
last file, does.  A savepoint needs nothing outside its directory, so what is taken over is copied.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

import penstock
from penstock.core.clock import SystemClock
from penstock.core.error_codes import Code
from penstock.core.errors import ClusterError, ConfigError, SnapshotError
from penstock.core.handles import Blob, KeyedHandle, KeyedPiece, OperatorSnapshot
from penstock.core.ids import Epoch, Generation, OperatorId, SubtaskIndex, VertexId
from penstock.core.signals import SnapshotKind
from penstock.graph.identity import of_uid
from penstock.snapshot.manifest import Manifest, OperatorEntry, SubtaskEntry
from penstock.snapshot.paths import METADATA
from penstock.snapshot.recovery import signing_of, verify_files
from penstock.snapshot.repository import write_savepoint
from penstock.snapshot.storage import SnapshotStore
from penstock.snapshot.store import open_store
from penstock.state.backend import EVENT_TIMERS, PROCESSING_TIMERS, EntryShape
from penstock.state.descriptors import StateDescriptor
from penstock.state.schema import StateSchema
from penstock.state_processor.editing import Change, Edits
from penstock.state_processor.files import (
    DIRECTORY,
    STATE_FILE,
    Copier,
    Target,
    entries_of,
    keys_of,
    shape_of,
    write_rows,
)
from penstock.state_processor.snapshot import Snapshot

MOST_GROUPS = 32768
DEFAULT_MAX_PARALLELISM = 128
_FILES = 4
_DOMAINS = {"event": EVENT_TIMERS, "processing": PROCESSING_TIMERS}


@dataclass(slots=True)
class Draft:
    """An operator being written: what is taken over, what changes, what is new."""

    operator_id: OperatorId
    uid: str | None
    name: str
    parallelism: int
    max_parallelism: int
    base: OperatorEntry | None = None
    rows: dict[str, Any] = field(default_factory=dict)
    """New state by name."""
    schemas: dict[str, StateSchema] = field(default_factory=dict)
    """What is declared for new state, where that is known."""
    dropped: set[str] = field(default_factory=set)
    changes: list[tuple[str, Change]] = field(default_factory=list)
    deleted: set[Any] = field(default_factory=set)

    @staticmethod
    def identity(uid: str) -> OperatorId:
        """The id that the operator has in a job."""
        return of_uid(uid)

    @classmethod
    def of(cls, entry: OperatorEntry) -> Draft:
        """An operator of an existing snapshot, unchanged."""
        return cls(entry.operator_id, entry.uid, entry.name, entry.parallelism, entry.max_parallelism, entry)

    @classmethod
    def new(cls, uid: str, max_parallelism: int, parallelism: int) -> Draft:
        """An operator without a past."""
        if not 1 <= max_parallelism <= MOST_GROUPS:
            raise ConfigError(f"max parallelism is from 1 to {MOST_GROUPS}, not {max_parallelism}")
        if not 1 <= parallelism <= max_parallelism:
            raise ConfigError(
                f"operator {uid!r}: parallelism {parallelism} is not between 1 and {max_parallelism}, its "
                f"max parallelism"
            )
        return cls(of_uid(uid), uid, uid, parallelism, max_parallelism)

    def edits(self) -> Edits:
        """What happens to the keyed state that is taken over."""
        return Edits(frozenset(self.dropped), tuple(self.changes), frozenset(self.deleted))

    def entry(self, subtasks: tuple[SubtaskEntry, ...]) -> OperatorEntry:
        """The finished operator."""
        vertex = VertexId(self.name) if self.base is None else self.base.vertex
        return OperatorEntry(
            self.operator_id, self.uid, self.name, vertex, self.parallelism, self.max_parallelism, subtasks
        )


class SavepointWriter:
    """Gathers what a savepoint shall hold; each call gives the writer back, so they can be strung together.

    Rows are a Spark DataFrame, a pandas DataFrame or an Arrow table with the columns ``key`` and ``value``
    (and ``namespace`` for state of windows), or an iterable of pairs of Python values.  Keys must be what
    ``key_by`` gives in the job, to the type: a struct column is a tuple.  In values, maps are dicts (map
    state), lists lists (list state), structs rows.
    """

    def __init__(self, base: Snapshot | None, max_parallelism: int) -> None:
        self._base = base
        self._max_parallelism = max_parallelism
        self._drafts: dict[OperatorId, Draft] = {}
        for entry in base.manifest.operators if base is not None else ():
            self._drafts[entry.operator_id] = Draft.of(entry)

    @classmethod
    def new(cls, max_parallelism: int = DEFAULT_MAX_PARALLELISM) -> SavepointWriter:
        """A savepoint from nothing.  ``max_parallelism`` is what the job can never be scaled beyond."""
        return cls(None, max_parallelism)

    @classmethod
    def from_existing(cls, path: str, trusted: bool = False) -> SavepointWriter:
        """A changed copy of a snapshot, which itself stays as it is.  ``trusted``: see ``open_snapshot``."""
        return cls(Snapshot(str(path), trusted), DEFAULT_MAX_PARALLELISM)

    def with_operator(
        self, uid: str, bootstrap: Mapping[str | StateDescriptor, Any], parallelism: int | None = None
    ) -> SavepointWriter:
        """Give the operator with this uid state: name of the state, or the job's descriptor of it, to rows.

        With a descriptor, values are checked against its type and stored as that, without pickling.
        ``parallelism`` is the number of files each state is written to, by default 4, or for DataFrames as
        many as Spark runs tasks at once; the job may run at another parallelism.
        The operator may exist, but not the state: that would be :meth:`change`.
        """
        for rows in bootstrap.values():
            _check_rows(rows, uid)
        draft = self._drafts.get(Draft.identity(uid))
        if draft is None:
            files = parallelism or _number_of_files(bootstrap.values(), self._max_parallelism)
            draft = Draft.new(uid, self._max_parallelism, files)
            self._drafts[draft.operator_id] = draft
        for named, rows in bootstrap.items():
            state = named if isinstance(named, str) else named.get_name()
            if not isinstance(named, str):
                draft.schemas[state] = replace(StateSchema.of(named), ttl=False)
            if state in draft.rows or state in self._states(draft):
                raise SnapshotError(
                    f"operator {uid!r} already has a state {state!r}; replace it with change()"
                )
            draft.rows[state] = rows
        return self

    def with_timers(self, uid: str, timers: Any, domain: str = "event") -> SavepointWriter:
        """Give the operator timers: rows of ``time`` (milliseconds) and ``key``; a time must not be null."""
        if domain not in _DOMAINS:
            raise SnapshotError(f"timers are of the domain event or processing, not {domain!r}")
        return self.with_operator(uid, {_DOMAINS[domain]: timers})

    def change(self, uid: str, state: str, to: Change | Any) -> SavepointWriter:
        """Change a state: by a function, or altogether, by rows.

        The function is called here, with key and value (key, namespace and value for state of windows),
        and gives the new value, or ``None`` to drop the entry.  Much state is better read with Spark,
        changed there, and given as a DataFrame.
        """
        draft = self._existing(uid)
        if state not in self._states(draft):
            known = ", ".join(self._states(draft)) or "none"
            raise SnapshotError(f"operator {uid!r} has no state {state!r} to change; it has {known}")
        if callable(to):
            draft.changes.append((state, to))
        else:
            _check_rows(to, uid)
            draft.dropped.add(state)
            draft.rows[state] = to
            schema = self._schema(draft, state)
            if schema is not None:
                draft.schemas[state] = schema
        return self

    def delete_keys(self, uid: str, keys: Iterable[Any]) -> SavepointWriter:
        """Forget everything the operator knows of these keys, timers included."""
        self._existing(uid).deleted.update(keys)
        return self

    def remove_operator(self, uid: str) -> SavepointWriter:
        """Leave out an operator with everything that belongs to it."""
        del self._drafts[self._existing(uid).operator_id]
        return self

    def write(self, directory: str) -> str:
        """Write the savepoint; gives its URL, which ``-s`` and ``open_snapshot`` take."""
        store = open_store(str(directory))
        if store.exists(METADATA):
            raise SnapshotError(
                f"{store.url} already holds a savepoint; choose another directory", code=Code.SAVEPOINT_THERE
            )
        copier = None if self._base is None else Copier(self._base.store, store, self._base.trusted)
        operators = tuple(self._operator(draft, store, copier) for draft in self._drafts.values())
        manifest = self._manifest(operators, copier)
        _sweep(store, manifest)
        verify_files(store, manifest)
        write_savepoint(store, manifest, signing_of(None))
        return store.url

    def _existing(self, uid: str) -> Draft:
        draft = self._drafts.get(Draft.identity(uid))
        if draft is None and self._base is not None:
            draft = self._drafts.get(self._base.operator(uid).operator_id)
        if draft is None:
            known = ", ".join(draft.uid or draft.name for draft in self._drafts.values()) or "none"
            raise SnapshotError(f"the savepoint has no operator {uid!r}; it has {known}")
        return draft

    def _states(self, draft: Draft) -> list[str]:
        if self._base is None or draft.base is None:
            return []
        found = self._base.survey(draft.base)
        return list(dict.fromkeys(outline.name for piece in found for outline in piece.outlines))

    def _schema(self, draft: Draft, state: str) -> StateSchema | None:
        """What the snapshot says about a state: rows that replace it are stored the same way."""
        assert self._base is not None and draft.base is not None
        parts = [outline for piece in self._base.survey(draft.base) for outline in piece.outlines]
        return next((outline.schema for outline in parts if outline.name == state), None)

    def _operator(self, draft: Draft, store: SnapshotStore, copier: Copier | None) -> OperatorEntry:
        pieces: dict[int, list[KeyedPiece]] = {}
        lists: dict[int, Blob] = {}
        finished: set[int] = set()
        for subtask in draft.base.subtasks if draft.base is not None else ():
            assert copier is not None
            index = int(subtask.index)
            pieces[index] = copier.keyed(subtask.state.keyed, draft.edits(), draft.max_parallelism)
            if subtask.state.lists is not None:
                lists[index] = copier.blob(subtask.state.lists)
            if subtask.finished:
                finished.add(index)
        for state, rows in draft.rows.items():
            for index, handle in _write_state(store, draft, state, rows).items():
                pieces.setdefault(index, []).append(handle)
        subtasks = tuple(
            SubtaskEntry(
                SubtaskIndex(index),
                OperatorSnapshot(draft.operator_id, tuple(held), lists.get(index)),
                index in finished,
            )
            for index, held in sorted(pieces.items())
        )
        return draft.entry(subtasks)

    def _manifest(self, operators: tuple[OperatorEntry, ...], copier: Copier | None) -> Manifest:
        now = SystemClock().now_ms()
        if self._base is None or copier is None:
            return Manifest(
                job_id="",
                job_name="",
                epoch=Epoch(0),
                generation=Generation(0),
                kind=SnapshotKind.SAVEPOINT,
                created_ms=now,
                operators=operators,
                enumerators={},
                committables=(),
                penstock_version=penstock.__version__,
            )
        old = self._base.manifest
        gone = {entry.operator_id for entry in old.operators} - set(self._drafts)
        return replace(
            old,
            kind=SnapshotKind.SAVEPOINT,
            created_ms=now,
            operators=operators,
            enumerators={k: copier.blob(blob) for k, blob in old.enumerators.items() if k not in gone},
            committables=tuple(item for item in old.committables if item.operator_id not in gone),
            channels=tuple(replace(handle, blob=copier.blob(handle.blob)) for handle in old.channels),
            penstock_version=penstock.__version__,
        )


def _number_of_files(rows: Iterable[Any], max_parallelism: int) -> int:
    frames = [each for each in rows if _is_frame(each)]
    tasks = [int(each.sparkSession.sparkContext.defaultParallelism) for each in frames]
    return min(max([_FILES, *tasks]), max_parallelism)


def _check_rows(rows: Any, uid: str) -> None:
    """Refuse what cannot be written."""
    if type(rows).__module__.startswith("pyspark.sql.connect."):
        raise ClusterError(
            f"the rows for operator {uid!r} are a DataFrame of Spark Connect, whose executors do not get the "
            "code that writes state. Give them as an Arrow table, frame.toArrow(), or make the frame in a "
            "classic session on this cluster (SparkSession.builder.master(...), --master or spark-submit)",
            code=Code.SPARK_CONNECT,
        )


def _is_frame(rows: Any) -> bool:
    """Whether the rows are a Spark DataFrame; this package does not import pyspark."""
    return type(rows).__module__.startswith("pyspark.")


def _write_state(store: SnapshotStore, draft: Draft, state: str, rows: Any) -> dict[int, KeyedHandle]:
    """Write rows of any kind; gives the handle of each file by the subtask it belongs to."""
    where = f"state {state!r} of operator {draft.uid or draft.name!r}"
    timers = state in _DOMAINS.values()
    if _is_frame(rows):
        shape = _checked(shape_of(rows.columns, where), timers, where)
        target = _target(draft, state, shape)
        writer = importlib.import_module("penstock.spark.state_frames")
        found: dict[int, KeyedHandle] = writer.write_frame(rows, store.url, target)
        return found
    if hasattr(rows, "to_dict") and hasattr(rows, "columns") and not isinstance(rows, pa.Table):
        rows = pa.Table.from_pandas(rows, preserve_index=False)
    if isinstance(rows, pa.Table | pa.RecordBatch):
        target = _target(draft, state, _checked(shape_of(rows.schema.names, where), timers, where))
        return write_rows(store, target, keys_of(rows), entries_of(target, rows))
    pairs = [(entry, value) for entry, value in rows]
    if timers:
        pairs = [((time, key, None), True) for time, key in pairs]
    target = _target(draft, state, EntryShape.TIMER if timers else EntryShape.KEY)
    return write_rows(store, target, [target.shape.key_of(entry) for entry, _ in pairs], pairs)


def _target(draft: Draft, state: str, shape: EntryShape) -> Target:
    name = draft.uid or draft.name
    return Target(name, state, shape, draft.parallelism, draft.max_parallelism, draft.schemas.get(state))


def _checked(shape: EntryShape, timers: bool, where: str) -> EntryShape:
    if (shape is EntryShape.TIMER) != timers:
        raise SnapshotError(f"{where}: timers go through with_timers(), with the columns time and key")
    return shape


def _sweep(store: SnapshotStore, manifest: Manifest) -> None:
    """Delete what repeated Spark tasks and earlier, failed attempts left behind; nothing of anybody else."""
    needed = manifest.files()
    for path in store.list(DIRECTORY):
        if path not in needed and STATE_FILE.fullmatch(path):
            store.delete(path)
