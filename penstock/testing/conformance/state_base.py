"""What the parts of the state suite share: backends that come and go, descriptors, state files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.state.backend import StateBackend
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.state.keyed import KeyedState
from penstock.testing.operator_run import restore_keyed, write_keyed

New = Callable[[], KeyedState]
"""Makes empty state on a backend of its own, which is closed at the end of the test."""


class StateBase:
    """Makes and closes backends. A test that needs several of them gets several directories."""

    def make(self, directory: Path) -> StateBackend:
        """An empty backend that keeps its files, if any, in ``directory``, which exists and is empty.

        Its number of key groups, if it asks for that, is ``penstock.testing.operator_run.KEY_GROUPS``.
        """
        raise NotImplementedError

    @contextmanager
    def backends(self, directory: Path) -> Iterator[New]:
        """As many backends as the block asks for."""
        made: list[KeyedState] = []

        def new() -> KeyedState:
            place = directory / f"backend-{len(made)}"
            place.mkdir(parents=True)
            made.append(KeyedState(self.make(place)))
            return made[-1]

        try:
            yield new
        finally:
            for state in made:
                state.close()


class Gather:
    """An aggregate function that changes its accumulator in place, as many do."""

    def create_accumulator(self) -> list[Any]:
        """Nothing yet."""
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        """One more."""
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> tuple[Any, ...]:
        """All of them."""
        return tuple(accumulator)

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        """Both."""
        a.extend(b)
        return a


def _joined(a: Any, b: Any) -> Any:
    return a + b


DESCRIPTORS: dict[str, StateDescriptor] = {
    "value": ValueStateDescriptor("value"),
    "list": ListStateDescriptor("list"),
    "map": MapStateDescriptor("map"),
    "reducing": ReducingStateDescriptor("reducing", _joined),
    "aggregating": AggregatingStateDescriptor("aggregating", Gather()),
}
"""One of each kind, by name."""


class Handles:
    """All five kinds on one backend; ``at`` moves them to a key and a namespace."""

    def __init__(self, state: KeyedState, namespaced: bool = False) -> None:
        self.state = state
        suffix = "/w" if namespaced else ""
        made = {}
        for kind, descriptor in DESCRIPTORS.items():
            named = _renamed(descriptor, kind + suffix)
            made[kind] = state.handle(named, namespaced)
        self.value: Any = made["value"]
        self.list: Any = made["list"]
        self.map: Any = made["map"]
        self.reducing: Any = made["reducing"]
        self.aggregating: Any = made["aggregating"]
        self.all: list[Any] = list(made.values())

    def at(self, key: Any, namespace: Any = None) -> Handles:
        """Act on ``key`` from now on."""
        self.state.scope.key = key
        self.state.scope.namespace = namespace
        return self

    def fill(self, mark: Any) -> None:
        """Put something that tells ``mark`` into each kind."""
        self.value.update(mark)
        self.list.update([mark, [mark]])
        self.map.put_all({"a": mark, "b": [mark]})
        self.reducing.add((mark,))
        self.aggregating.add(mark)

    def read(self) -> tuple[Any, ...]:
        """What all kinds hold; plain values, for comparing."""
        return (
            self.value.value(),
            list(self.list.get()),
            dict(self.map.items()),
            self.reducing.get(),
            self.aggregating.get(),
        )


EMPTY: tuple[Any, ...] = (None, [], {}, None, None)
"""What :meth:`Handles.read` gives for a key nothing was stored under."""


def filled(mark: Any) -> tuple[Any, ...]:
    """What :meth:`Handles.read` gives after ``fill(mark)``."""
    return (mark, [mark, [mark]], {"a": mark, "b": [mark]}, (mark,), (mark,))


def _renamed(descriptor: StateDescriptor, name: str) -> StateDescriptor:
    if isinstance(descriptor, ReducingStateDescriptor):
        return ReducingStateDescriptor(name, descriptor.get_reduce_function())
    if isinstance(descriptor, AggregatingStateDescriptor):
        return AggregatingStateDescriptor(name, descriptor.get_agg_function())
    return type(descriptor)(name)


def copied(state: KeyedState, new: New) -> KeyedState:
    """A new backend that holds the same, by way of a state file."""
    other = new()
    restore_keyed(other, write_keyed(state))
    return other


def expect(kind: type[Exception], call: Callable[[], object]) -> Exception:
    """``call`` must raise ``kind``."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected")
