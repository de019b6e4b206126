"""Which state goes where: operators of a snapshot to operators of the program, and to their subtasks.  Pure.

Operators are matched by id.  Key groups are contiguous ranges per subtask, so a new subtask takes every old
handle that overlaps its own range and leaves out foreign groups while reading.  Operator state is assigned by
its mode.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, SnapshotError
from penstock.core.handles import Blob, KeyedHandle, KeyedPiece
from penstock.core.ids import OperatorId, SubtaskIndex
from penstock.core.keygroups import key_group_range
from penstock.snapshot.manifest import Manifest, OperatorEntry


@dataclass(frozen=True, slots=True)
class Matching:
    """The outcome."""

    restored: dict[OperatorId, OperatorEntry]
    """Operators of the program that have an entry in the snapshot."""
    dropped: tuple[str, ...]
    """Operators of the snapshot whose state nobody takes, described for people."""
    fresh: tuple[OperatorId, ...]
    """Operators of the program without a past: they start empty."""


def match(
    manifest: Manifest, planned: Mapping[OperatorId, str], allow_non_restored: bool = False
) -> Matching:
    """Match by operator id.  ``planned`` maps the ids of the program's operators to their names.

    State that no operator takes would be lost in silence, so it is an error unless allowed.  State is
    anything stored: keyed or operator state, positions of a source, output waiting to be committed.
    """
    dropped = tuple(
        _describe(manifest, operator_id)
        for operator_id in sorted(_stateful(manifest))
        if operator_id not in planned
    )
    if dropped and not allow_non_restored:
        entries = {entry.operator_id for entry in manifest.operators}
        fresh = sorted(name for operator_id, name in planned.items() if operator_id not in entries)
        raise SnapshotError(
            f"the snapshot has state of operators that the program does not have: {', '.join(dropped)}. "
            f"Operators of the program without state in the snapshot: {', '.join(fresh) or 'none'}. Give "
            f"operators the uid they had, or drop that state with --allow-non-restored-state",
            code=Code.UNCLAIMED_STATE,
        )
    restored = {entry.operator_id: entry for entry in manifest.operators if entry.operator_id in planned}
    fresh_ids = tuple(operator_id for operator_id in planned if operator_id not in restored)
    return Matching(restored, dropped, fresh_ids)


def _stateful(manifest: Manifest) -> set[OperatorId]:
    return (
        {entry.operator_id for entry in manifest.operators if entry.is_stateful}
        | set(manifest.enumerators)
        | {item.operator_id for item in manifest.committables}
    )


def _describe(manifest: Manifest, operator_id: OperatorId) -> str:
    entry = manifest.operator(operator_id)
    if entry is None:
        return f"operator {operator_id}"
    identity = f"uid {entry.uid!r}" if entry.uid is not None else "no uid"
    return f"{entry.name!r} ({identity}, id {operator_id})"


SPLIT, UNION, BROADCAST = "split", "union", "broadcast"
"""Values of ``penstock.state.operator_state.ListMode``."""

Lists = Mapping[str, tuple[str, Sequence[Any]]]
"""Operator state of one subtask: state name to mode and items."""

Share = dict[str, tuple[str, tuple[Any, ...]]]
"""What a new subtask gets of it."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one new subtask needs of the old state of an operator."""

    keyed: tuple[KeyedPiece, ...]
    lists: tuple[Blob | None, ...]
    """The operator state of every old subtask, by index: load, then :func:`redistribute`."""
    finished: bool
    """Whether all old subtasks had finished: the operator has nothing left to do."""


def resolve_max_parallelism(
    name: str, *, stored: int | None, planned: int, explicit: bool, parallelism: int
) -> int:
    """The max parallelism an operator runs with after a restore.

    The first snapshot fixes it: a default gives way to the ``stored`` one, an ``explicit`` other one is
    an error, and so is a parallelism above it.  ``stored`` is ``None`` for an operator without a past.
    """
    resolved = planned if stored is None else stored
    if stored is not None and explicit and planned != stored:
        raise ConfigError(
            f"{name}: max parallelism {planned} is configured, but its state was written with {stored} and "
            f"cannot be cut differently; set it to {stored}, or leave it unset",
            code=Code.MAX_PARALLELISM_FIXED,
        )
    if resolved < parallelism:
        raise ConfigError(
            f"{name}: parallelism {parallelism} is above max parallelism {resolved}"
            + ("" if stored is None else ", which its snapshot fixes for ever")
            + f"; lower the parallelism to {resolved} or less",
            code=Code.ABOVE_MAX_PARALLELISM,
        )
    return resolved


def assign(
    manifest: Manifest, operator_id: OperatorId, parallelism: int, max_parallelism: int
) -> list[Assignment]:
    """Old state of an operator for each of its new subtasks; empty assignments if it had none."""
    entry = manifest.operator(operator_id)
    if entry is None:
        return [Assignment((), (), False)] * parallelism
    handles = [handle for subtask in entry.subtasks for handle in subtask.state.keyed]
    if handles and entry.max_parallelism != max_parallelism:
        raise SnapshotError(
            f"{entry.name}: its state has {entry.max_parallelism} key groups, the job runs with "
            f"{max_parallelism}; set max parallelism to {entry.max_parallelism}, or leave it unset",
            code=Code.MAX_PARALLELISM_FIXED,
        )
    by_index = {subtask.index: subtask.state.lists for subtask in entry.subtasks}
    lists = tuple(by_index.get(SubtaskIndex(index)) for index in range(entry.parallelism))
    finished = len(by_index) == entry.parallelism and all(subtask.finished for subtask in entry.subtasks)
    overlapping = _Overlapping(handles)
    anywhere = [
        number
        for number, handle in enumerate(handles)
        if manifest.has_old_hashes and _may_hold_anything(handle)
    ]
    assignments = []
    for index in range(parallelism):
        first, last = key_group_range(SubtaskIndex(index), parallelism, max_parallelism)
        wanted = sorted({*overlapping.with_any(first, last), *anywhere})
        assignments.append(Assignment(tuple(handles[number] for number in wanted), lists, finished))
    return assignments


class _Overlapping:
    """Finds handles by key groups, by their places in the list, without looking at each of them."""

    def __init__(self, handles: Sequence[KeyedPiece]) -> None:
        self._handles = handles
        self._order = sorted(range(len(handles)), key=lambda number: handles[number].key_groups)
        self._first = [handles[number].key_groups[0] for number in self._order]
        self._highest = list(accumulate((handles[number].key_groups[1] for number in self._order), max))
        """The highest last group of those up to each place in the order."""

    def with_any(self, first: int, last: int) -> list[int]:
        """Those that may hold any key group from ``first`` to ``last``."""
        candidates = self._order[bisect_left(self._highest, first) : bisect_right(self._first, last)]
        return [number for number in candidates if self._handles[number].overlaps(first, last)]


def _may_hold_anything(handle: KeyedPiece) -> bool:
    """Whether keys of an older format in it may belong to any subtask: only pickled ones have other hashes.

    Not so the files of RocksDB, which may be too large for everybody to read.
    """
    return isinstance(handle, KeyedHandle) and handle.pickled


def redistribute(per_subtask: Sequence[Lists], parallelism: int) -> list[Share]:
    """Deal the operator state of the old subtasks, by index, to ``parallelism`` new ones."""
    modes = _modes(per_subtask)
    shares: list[Share] = [{} for _ in range(parallelism)]
    start = 0
    for name in sorted(modes):
        mode = modes[name]
        held = [tuple(old[name][1]) if name in old else () for old in per_subtask]
        if mode == SPLIT and len(held) != parallelism:
            dealt, start = _deal([item for items in held for item in items], parallelism, start)
        elif mode == SPLIT:
            dealt = held
        elif mode == UNION:
            dealt = [tuple(item for items in held for item in items)] * parallelism
        else:
            copies = [tuple(old[name][1]) for old in per_subtask if name in old]
            dealt = [copies[index % len(copies)] for index in range(parallelism)]
        for share, items in zip(shares, dealt, strict=True):
            if items:
                share[name] = (mode, items)
    return shares


def _modes(per_subtask: Sequence[Lists]) -> dict[str, str]:
    modes: dict[str, str] = {}
    for lists in per_subtask:
        for name, (mode, _) in lists.items():
            if mode not in (SPLIT, UNION, BROADCAST) or modes.setdefault(name, mode) != mode:
                raise SnapshotError(
                    f"operator state {name!r} has mode {mode!r} on one subtask and "
                    f"{modes.get(name, 'none')!r} on another, or a mode nobody knows; the modes are "
                    f"{SPLIT}, {UNION} and {BROADCAST}, and all subtasks must use the same"
                )
    return modes


def _deal(items: list[Any], parallelism: int, start: int) -> tuple[list[tuple[Any, ...]], int]:
    """Contiguous near-equal shares.

    The larger shares begin at subtask ``start``, and the next state's behind them, so that several
    short lists do not all land on the first subtasks.
    """
    size, extra = divmod(len(items), parallelism)
    dealt: list[tuple[Any, ...]] = [()] * parallelism
    position = 0
    for turn in range(parallelism):
        end = position + size + (1 if turn < extra else 0)
        dealt[(start + turn) % parallelism] = tuple(items[position:end])
        position = end
    return dealt, (start + extra) % parallelism
