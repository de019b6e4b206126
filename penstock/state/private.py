"""State as user code gets it: nobody but the state itself holds what is in it.

What a function stores is copied on the way in, and what it reads on the way out, if it can change at all.
So state changes only by calls of its handles: neither a function that goes on with the record it has
stored, nor a step behind it that changes what it emitted, reaches into it, and a snapshot that is being
written never meets half a change.  Heap and disk behave alike in this.

State of a declared type whose values cannot change is handed out as it is.  Engine code that takes care of
its values itself uses the plain handles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.core.copying import ATOMIC, copied, copied_all
from penstock.core.typeinfo import (
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    as_type_info,
)
from penstock.state.descriptors import MapStateDescriptor, StateDescriptor
from penstock.state.handles import (
    AggregatingState,
    KeyedValueState,
    ListState,
    MapState,
    MergingState,
    ReducingState,
    State,
    ValueState,
)

_FIXED = (BasicTypeInfo, DateTypeInfo, TimeTypeInfo, TimestampTypeInfo, LocalTimeTypeInfo)


def never_changes(type_info: Any) -> bool:
    """Whether values of a declared type cannot change in place."""
    if isinstance(type_info, ExternalTypeInfo):
        return never_changes(type_info.type_info)
    if type(type_info) is TupleTypeInfo:
        return all(map(never_changes, type_info.field_types))
    return isinstance(type_info, _FIXED)


def private(handle: State, descriptor: StateDescriptor) -> State:
    """``handle`` for user code."""
    declared = descriptor.type_info
    if isinstance(descriptor, MapStateDescriptor):
        declared = declared[1]
    if not isinstance(handle, AggregatingState) and never_changes(as_type_info(declared)):
        return handle
    if type(handle) is KeyedValueState:
        return _KeyedValue(handle._table, handle._scope)
    for kind, mine in _KINDS.items():
        if isinstance(handle, kind):
            made: State = mine(handle)
            return made
    raise AssertionError(f"no kind of state: {handle!r}")


class _KeyedValue(KeyedValueState[Any]):
    """The usual case, without another call."""

    def value(self) -> Any:
        value = self._table.get(self._scope.key)
        return value if type(value) in ATOMIC else copied(value)

    def update(self, value: Any) -> None:
        if type(value) not in ATOMIC:
            self._table.put(self._scope.key, copied(value))
        elif value is None:
            self._table.remove(self._scope.key)
        else:
            self._table.put(self._scope.key, value)


class _Around(State):
    """What all have in common: another handle does the work."""

    _inner: Any

    def __init__(self, inner: Any) -> None:
        State.__init__(self, inner._table, inner._scope)
        self._inner = inner
        self.clear = inner.clear  # type: ignore[method-assign]


class _Value(_Around, ValueState[Any]):
    def value(self) -> Any:
        return copied(self._inner.value())

    def update(self, value: Any) -> None:
        self._inner.update(copied(value))


class _Merging(_Around, MergingState[Any, Any]):
    def get(self) -> Any:
        return copied(self._inner.get())

    def add(self, value: Any) -> None:
        self._inner.add(copied(value))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        self._inner.merge_namespaces(target, sources)


class _List(_Merging, ListState[Any]):
    def get(self) -> Iterable[Any]:
        return copied_all(self._inner.get())

    def add_all(self, values: Iterable[Any]) -> None:
        self._inner.add_all(copied_all(list(values)))

    def update(self, values: Iterable[Any]) -> None:
        self._inner.update(copied_all(list(values)))


class _Reducing(_Merging, ReducingState[Any]):
    pass


class _Aggregating(_Merging, AggregatingState[Any, Any]):
    pass


class _Map(_Around, MapState[Any, Any]):
    def __init__(self, inner: MapState[Any, Any]) -> None:
        super().__init__(inner)
        for name in ("remove", "contains", "keys", "is_empty"):
            setattr(self, name, getattr(inner, name))

    def get(self, key: Any) -> Any:
        return copied(self._inner.get(key))

    def put(self, key: Any, value: Any) -> None:
        self._inner.put(key, copied(value))

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        self._inner.put_all(copied(dict(dict_value)))

    def items(self) -> Iterable[tuple[Any, Any]]:
        pairs = list(self._inner.items())
        values = [value for _, value in pairs]
        own = copied_all(values)
        return pairs if own is values else [(pair[0], value) for pair, value in zip(pairs, own, strict=True)]

    def values(self) -> Iterable[Any]:
        return copied_all(self._inner.values())


_KINDS: dict[type, Any] = {
    ListState: _List,
    ReducingState: _Reducing,
    AggregatingState: _Aggregating,
    MapState: _Map,
    ValueState: _Value,
}
