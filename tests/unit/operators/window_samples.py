"""Functions and shorthands that the window tests share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from operator_harness import OperatorHarness

from penstock.core.metrics import LATE_COUNTER
from penstock.operators.functions import AggregateFunction, ReduceFunction
from penstock.operators.window.functions import ProcessWindowFunction, WindowFunction
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.triggers import EventTimeTrigger
from penstock.operators.window.window_state import AggregateContents, ListContents, ReduceContents


class Sum(ReduceFunction):
    """Adds the second field of (key, number) pairs."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return (value1[0], value1[1] + value2[1])


class Average(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + value[1], accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class Listing(AggregateFunction):
    """An accumulator that is changed in place, and is its own result."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Show(WindowFunction[Any, Any, Any, Any]):
    """Emits key, window and numbers in order of arrival."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        yield (key, tuple(window), [number for _, number in inputs])


class ShowProcess(ProcessWindowFunction[Any, Any, Any, Any]):
    """The same, as a process function that returns a list and counts its clearings."""

    def __init__(self) -> None:
        self.cleared: list[Any] = []

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        return [(key, tuple(context.window()), [number for _, number in elements])]

    def clear(self, context: Any) -> None:
        self.cleared.append(context.window())


class PlainEventTimeTrigger(EventTimeTrigger[Any]):
    """The default trigger in all but name: keeps the operator off the fast path."""


def summing(assigner: Any, **options: Any) -> WindowOperator:
    return WindowOperator(assigner, ReduceContents(Sum()), **options)


def averaging(assigner: Any, **options: Any) -> WindowOperator:
    return WindowOperator(assigner, AggregateContents(Average()), **options)


def showing(assigner: Any, **options: Any) -> WindowOperator:
    return WindowOperator(assigner, ListContents(), Show(), **options)


def dropped(harness: OperatorHarness) -> int:
    """How many late records were dropped."""
    return harness.metrics.counter(LATE_COUNTER).count
