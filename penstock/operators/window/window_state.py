"""What a window has gathered so far: a list of elements, or one value kept up to date.

Contents live in one table, under (key, state window).  ``add_many`` is the hot loop of the fast
path; ``add`` does the same for one element.  ``None`` is a legal value and a legal accumulator: only
when ``get`` answers ``None`` is the table asked whether the entry exists.
"""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, Self

from penstock.core.copying import Copier, copied, copied_all, itself
from penstock.operators.functions import AggregateFunction, Function, ReduceFunction
from penstock.operators.runtime_context import RuntimeContext
from penstock.operators.window.running import NOTHING
from penstock.operators.window.windows import Window
from penstock.state.backend import EntryShape, Table
from penstock.state.handles import Scope
from penstock.state.keyed import KeyedState

CONTENTS_TABLE = "_window/contents"

NO_RECORD: Any = object()
"""Stands for "no record is being processed"."""

OnNew = Callable[[Any, Any], None]
"""Called with key and window before the first element of an entry is added."""


def _each(windows: Window | list[Window]) -> Iterable[Window]:
    return windows if isinstance(windows, list) else repeat(windows)


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
        self, rows: Iterable[Any], keys: Iterable[Any], windows: Window | list[Window], on_new: OnNew
    ) -> None:
        """Add elements in order, one per row and key, to a window for each or to one for all.

        ``rows`` end it: there may be more keys.
        """

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
        self, rows: Iterable[Any], keys: Iterable[Any], windows: Window | list[Window], on_new: OnNew
    ) -> None:
        # The table is asked once for all elements of an entry, whose lists are appended to as a whole.
        added: defaultdict[Any, list[Any]] = defaultdict(list)
        one = None if isinstance(windows, list) else windows
        indices = keys if one is not None else zip(keys, _each(windows), strict=False)
        for index, value in zip(indices, rows, strict=False):
            added[index].append(value)
        own, put = self._table.own, self._table.put
        for index, values in added.items():
            entry = index if one is None else (index, one)
            found = own(entry)
            if found is None:
                on_new(*entry)
                put(entry, values)
            else:
                found.extend(values)

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
        self, rows: Iterable[Any], keys: Iterable[Any], windows: Window | list[Window], on_new: OnNew
    ) -> None:
        table, scope, reduce = self._table, self._scope, self._reduce
        get, put = table.get, table.put
        value = NO_RECORD
        try:
            for value, key, window in zip(rows, keys, _each(windows), strict=False):
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
        self, rows: Iterable[Any], keys: Iterable[Any], windows: Window | list[Window], on_new: OnNew
    ) -> None:
        table, scope = self._table, self._scope
        create, add = self._aggregate.create_accumulator, self._aggregate.add
        get, put = table.get, table.put
        value = NO_RECORD
        try:
            for value, key, window in zip(rows, keys, _each(windows), strict=False):
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
