"""What the tests of the window semantics share: short ways to say windows, records and expectations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.datastream.window import CountWindow, TimeWindow
from penstock.operators.functions import AggregateFunction
from penstock.operators.window.functions import ProcessWindowFunction
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.window_state import (
    AggregateContents,
    ListContents,
    ReduceContents,
    WindowContents,
)
from penstock.testing import EndOfInput, Harness, Record, verify

END = EndOfInput()


class Show(ProcessWindowFunction[Any, Any, Any, Any]):
    """Key, window and numbers in order of arrival."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        yield key, bounds(context.window()), [number for _, number in elements]


def bounds(window: Any) -> Any:
    if isinstance(window, TimeWindow):
        return tuple(window)
    return window.id if isinstance(window, CountWindow) else None


class Count(AggregateFunction):
    """Key and number of elements."""

    def create_accumulator(self) -> Any:
        return (None, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (value[0], accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] or acc_b[0], acc_a[1] + acc_b[1])


def added(left: Any, right: Any) -> Any:
    return (left[0], left[1] + right[1])


CONTENTS = {
    "list": ListContents,
    "reduce": lambda: ReduceContents(added),
    "aggregate": lambda: AggregateContents(Count()),
}


class Windows:
    """A window operator to be: how to make it, verify it, or look into it."""

    def __init__(self, assigner: Any, function: Any = None, contents: str = "list", **options: Any) -> None:
        self._assigner = assigner
        self._function = Show() if function is None and contents == "list" else function
        self._contents = contents
        self._options = options

    def __call__(self) -> WindowOperator:
        made: WindowContents = CONTENTS[self._contents]()
        return WindowOperator(self._assigner, made, self._function, **self._options)

    def gives(self, items: list[Any], results: list[Any], **side: Any) -> None:
        """In every way of running, restoring and dividing it, ``items`` give ``results``."""
        runs = verify(self.__call__, keyed_by=key_of).input(items).expect(results, **side)
        assert "restored after every item" in runs

    def harness(self) -> Harness:
        return Harness(self.__call__, keyed_by=key_of)


def key_of(value: Any) -> Any:
    return value[0]


def at(time: int, number: int = 0, key: str = "k") -> Record:
    """A record: its time, its number, its key."""
    return Record((key, number), time)
