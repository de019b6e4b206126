"""What a window has gathered so far: a list of elements, or one value kept up to date.

Contents live in one table, under (key, state window).  ``add_many`` is the hot loop of the fast
path; ``add`` does the same for one element.  ``None`` is a legal value and a legal accumulator: only
when ``get`` answers ``None`` is the table asked whether the entry exists.
"""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Self

from penstock.core.copying import Copier, copied, copied_all, itself
from penstock.core.ids import MIN_TIME
from penstock.operators.functions import AggregateFunction, Function, ReduceFunction
from penstock.operators.runtime_context import RuntimeContext
from penstock.operators.window.windows import Window
from penstock.state.backend import EntryShape, Table
from penstock.state.handles import Scope
from penstock.state.keyed import KeyedState

NOTHING: Any = object()
"""Stands for "no pane holds anything", since ``None`` is a legal accumulator."""


class Running:
    """The merge of the panes of one key's window, kept up to date while the window moves on.

    The panes lie on two sides of a boundary.  Before it, the merge of *each* suffix is at hand: when the
    oldest pane leaves, the next shorter suffix is the answer.  Behind it there is one merge, into which new
    panes go.  When the window has left the boundary behind, all its panes are put before a new one.  So a
    pane is read and merged twice, however many windows it is part of.

    Everything here is derived from stored panes and can be dropped at any time; it is not state.
    ``join`` may change its first argument and keep its second.
    """

    __slots__ = ("_boundary", "_join", "_rest", "_starts", "_suffixes", "newest", "until")

    def __init__(self, join: Callable[[Any, Any], Any]) -> None:
        self._join = join
        # Two lists and not one of pairs: there are many, and each pair would be the collector's business.
        self._starts: list[int] = []
        self._suffixes: list[Any] = []
        self._rest: Any = NOTHING
        self._boundary: int = MIN_TIME
        self.until: int = MIN_TIME
        """End of the last pane that was looked at."""
        self.newest: int = MIN_TIME
        """Start of the latest pane that holds anything."""

    def __len__(self) -> int:
        return len(self._suffixes)

    def reaches(self, start: int, end: int) -> bool:
        """Whether the window from ``start`` to ``end`` is got by adding panes and leaving some behind."""
        return start <= self._boundary and self.until <= end

    def start_over(self, end: int, panes: Iterable[tuple[int, Any]]) -> None:
        """Begin with these panes, start and contents, the latest first."""
        self._starts, self._suffixes = [], []
        self.newest = MIN_TIME
        merged: Any = NOTHING
        for pane, stored in panes:
            self.newest = max(self.newest, pane)
            merged = copied(stored) if merged is NOTHING else self._join(copied(stored), copied(merged))
            self._starts.append(pane)
            self._suffixes.append(merged)
        self._rest = NOTHING
        self._boundary = self.until = end

    def add(self, pane: int, stored: Any) -> None:
        """The next later pane."""
        fresh = copied(stored)
        self._rest = fresh if self._rest is NOTHING else self._join(self._rest, fresh)
        self.newest = pane

    def leave(self, start: int) -> None:
        """Leave the panes before ``start`` behind."""
        while self._starts and self._starts[-1] < start:
            self._starts.pop()
            self._suffixes.pop()

    def total(self) -> Any:
        """All panes of the current window as one; not to be changed. ``NOTHING`` if they are empty."""
        if not self._suffixes:
            return self._rest
        suffix = self._suffixes[-1]
        return suffix if self._rest is NOTHING else self._join(copied(suffix), copied(self._rest))


CONTENTS_TABLE = "_window/contents"

NO_RECORD: Any = object()
"""Stands for "no record is being processed"."""

OnNew = Callable[[Any, Any], None]
"""Called with key and window before the first element of an entry is added."""


class WindowContents(ABC):
    """Strategy for storing elements. Opened once per subtask, before any other call."""

    _table: Table
    _scope: Scope
    own: Copier
    """Makes a value that stays in the table one that user code may change."""
    failed: Any = NO_RECORD
    """The element on which ``add_many`` broke off, for error messages."""

    def __init__(self, function: Any = None) -> None:
        self._function = function

    def open(self, keyed: KeyedState, runtime_context: RuntimeContext) -> None:
        """Bind the table and open the user's function."""
        self._table = keyed.table(CONTENTS_TABLE, EntryShape.NAMESPACED)
        self._scope = keyed.scope
        self.own = keyed.own
        if isinstance(self._function, Function):
            self._function.open(runtime_context)

    def close(self) -> None:
        """Close the user's function."""
        if isinstance(self._function, Function):
            self._function.close()

    def on(self, table: Table) -> Self:
        """The same strategy over another table; opened and closed with this one."""
        twin = copy.copy(self)
        twin._table = table
        return twin

    @property
    def is_used(self) -> bool:
        """Whether the table holds anything."""
        return self._table.any_entry() is not None

    @abstractmethod
    def add(self, entry: tuple[Any, Window], value: Any) -> None:
        """Add one element."""

    @abstractmethod
    def add_all(self, entry: tuple[Any, Window], values: list[Any]) -> None:
        """Add elements in order, one or more, reading and writing the contents once.

        The list is the contents' from now on.
        """

    @abstractmethod
    def of_list(self, values: list[Any]) -> list[Any]:
        """What a window function sees of a window that holds just these elements."""

    @abstractmethod
    def add_many(
        self, rows: Iterable[Any], keys: Iterable[Any], windows: Iterable[Window], on_new: OnNew
    ) -> None:
        """Add elements in order, one per row, key and window; the shortest iterable ends it."""

    @abstractmethod
    def read(self, stored: Any) -> list[Any]:
        """What a window function sees of a stored value that is gone from the table."""

    def view(self, stored: Any) -> list[Any]:
        """The same for a value that stays and will be added to: must not share what can change."""
        return [self.own(value) for value in self.read(stored)]

    @abstractmethod
    def join(self, left: Any, right: Any) -> Any:
        """Two stored values as one; may change ``left``."""

    def values(self, entry: tuple[Any, Window]) -> list[Any] | None:
        """The contents, which stay; ``None`` if there are none."""
        stored = self._table.get(entry)
        if stored is None and entry not in self._table:
            return None
        return self.view(stored)

    def share(self, value: Any) -> Any:
        """An element of several windows as one of them gets it: user code may change it when it is added."""
        return self.own(value)

    def take(self, entry: tuple[Any, Window], overlapping: bool) -> list[Any] | None:
        """Remove and return the contents; ``None`` if there are none.

        ``overlapping``: the elements may be in other windows as well.
        """
        stored = self._table.get(entry)
        if stored is None and entry not in self._table:
            return None
        self._table.remove(entry)
        return self.view(stored) if overlapping else self.read(stored)

    def stored(self, entry: tuple[Any, Window]) -> Any:
        """The stored value itself, ``NOTHING`` if there is none."""
        stored = self._table.get(entry)
        return NOTHING if stored is None and entry not in self._table else stored

    def clear(self, entry: tuple[Any, Window]) -> None:
        """Drop the contents."""
        self._table.remove(entry)

    def merge(self, target: tuple[Any, Window], sources: Iterable[tuple[Any, Window]]) -> None:
        """Move the contents of ``sources`` into ``target``."""
        table = self._table
        for source in sources:
            if source not in table:
                continue
            moved = table.get(source)
            table.remove(source)
            table.put(target, self.join(table.get(target), moved) if target in table else moved)


class ListContents(WindowContents):
    """Keeps every element until the window function sees them all."""

    def add(self, entry: tuple[Any, Window], value: Any) -> None:
        found = self._table.own(entry)
        if found is None:
            self._table.put(entry, [value])
        else:
            found.append(value)

    def add_many(
        self, rows: Iterable[Any], keys: Iterable[Any], windows: Iterable[Window], on_new: OnNew
    ) -> None:
        # A list owned once may stay ours until the next freeze, which cannot come within this call.
        keep = self._table.keeps_owned
        owned: dict[tuple[Any, Window], list[Any]] = {}
        for value, key, window in zip(rows, keys, windows, strict=False):
            entry = (key, window)
            found = owned.get(entry)
            if found is None:
                found = self._table.own(entry)
                if found is None:
                    on_new(key, window)
                    found = []
                    self._table.put(entry, found)
                if keep:
                    owned[entry] = found
            found.append(value)

    def add_all(self, entry: tuple[Any, Window], values: list[Any]) -> None:
        found = self._table.own(entry)
        if found is None:
            self._table.put(entry, values)
        else:
            found.extend(values)

    def share(self, value: Any) -> Any:
        """Elements only lie here: one object serves all windows, and is copied when one is evaluated."""
        return value

    def of_list(self, values: list[Any]) -> list[Any]:
        return values

    def values(self, entry: tuple[Any, Window]) -> list[Any] | None:
        # What ``view`` copies need not be copied by the table as well.
        stored = self._table.peek(entry) if self.own is copied else self._table.get(entry)
        return None if stored is None else self.view(stored)

    def view(self, stored: Any) -> list[Any]:
        return list(copied_all(stored)) if self.own is copied else super().view(stored)

    def read(self, stored: Any) -> list[Any]:
        return stored  # type: ignore[no-any-return]

    def join(self, left: Any, right: Any) -> Any:
        return left + right


class ReduceContents(WindowContents):
    """Keeps the reduction of all elements. ``function``: a ``ReduceFunction`` or a callable."""

    def __init__(self, function: ReduceFunction | Callable[[Any, Any], Any]) -> None:
        super().__init__(function)
        self._reduce = function.reduce if isinstance(function, ReduceFunction) else function

    def add(self, entry: tuple[Any, Window], value: Any) -> None:
        table = self._table
        found = table.get(entry)
        new = found is None and entry not in table
        table.put(entry, value if new else self._reduce(found, value))

    def add_many(
        self, rows: Iterable[Any], keys: Iterable[Any], windows: Iterable[Window], on_new: OnNew
    ) -> None:
        table, scope, reduce = self._table, self._scope, self._reduce
        get, put = table.get, table.put
        value = NO_RECORD
        try:
            for value, key, window in zip(rows, keys, windows, strict=False):
                entry = (key, window)
                found = get(entry)
                if found is None and entry not in table:
                    on_new(key, window)
                    put(entry, value)
                else:
                    scope.key = key
                    scope.namespace = window
                    put(entry, reduce(found, value))
        except BaseException:
            self.failed = value
            raise

    def add_all(self, entry: tuple[Any, Window], values: list[Any]) -> None:
        table, reduce = self._table, self._reduce
        found = table.get(entry)
        rest = iter(values)
        value = NO_RECORD
        if found is None and entry not in table:
            found = next(rest)
        try:
            for value in rest:
                found = reduce(found, value)
        except BaseException:
            self.failed = value
            raise
        table.put(entry, found)

    def of_list(self, values: list[Any]) -> list[Any]:
        return [functools.reduce(self._reduce, values)] if values else []

    def read(self, stored: Any) -> list[Any]:
        return [stored]

    def join(self, left: Any, right: Any) -> Any:
        return self._reduce(left, right)


class AggregateContents(WindowContents):
    """Keeps the accumulator of an ``AggregateFunction``."""

    def __init__(self, function: AggregateFunction) -> None:
        super().__init__(function)
        self._aggregate = function

    def add(self, entry: tuple[Any, Window], value: Any) -> None:
        table = self._table
        found = table.get(entry)
        if found is None and entry not in table:
            found = self._aggregate.create_accumulator()
        table.put(entry, self._aggregate.add(value, found))

    def add_many(
        self, rows: Iterable[Any], keys: Iterable[Any], windows: Iterable[Window], on_new: OnNew
    ) -> None:
        table, scope = self._table, self._scope
        create, add = self._aggregate.create_accumulator, self._aggregate.add
        get, put = table.get, table.put
        value = NO_RECORD
        try:
            for value, key, window in zip(rows, keys, windows, strict=False):
                scope.key = key
                scope.namespace = window
                entry = (key, window)
                found = get(entry)
                if found is None and entry not in table:
                    on_new(key, window)
                    found = create()
                put(entry, add(value, found))
        except BaseException:
            self.failed = value
            raise

    def add_all(self, entry: tuple[Any, Window], values: list[Any]) -> None:
        table, add = self._table, self._aggregate.add
        found = table.get(entry)
        value = NO_RECORD
        try:
            if found is None and entry not in table:
                found = self._aggregate.create_accumulator()
            for value in values:
                found = add(value, found)
        except BaseException:
            self.failed = value
            raise
        table.put(entry, found)

    def of_list(self, values: list[Any]) -> list[Any]:
        accumulator = self._aggregate.create_accumulator()
        for value in values:
            accumulator = self._aggregate.add(value, accumulator)
        return [self._aggregate.get_result(accumulator)]

    def read(self, stored: Any) -> list[Any]:
        return [self._aggregate.get_result(stored)]

    def view(self, stored: Any) -> list[Any]:
        result = self._aggregate.get_result(stored)
        if self.own is itself and result is stored:
            return [copy.copy(result)]
        return [self.own(result)]

    def join(self, left: Any, right: Any) -> Any:
        return self._aggregate.merge(left, right)
