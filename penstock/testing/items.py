"""What test inputs are made of, and how a function becomes an operator: shared by verify and the harness."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError
from penstock.core.keys import canonical_keys
from penstock.core.signals import EndOfInput
from penstock.operators.aggregate import KeyedReduceOperator
from penstock.operators.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
)
from penstock.operators.operator import Operator
from penstock.operators.process import KeyedProcessOperator, ProcessOperator
from penstock.operators.stateless import FilterOperator, FlatMapOperator, MapOperator

__all__ = ["EndOfInput", "ProcessingTimeTo", "Record", "WatermarkTo", "atoms_of", "is_keyed", "operator_for"]


@dataclass(frozen=True, slots=True)
class Record:
    """A value with its event time; in ``expect``, a result whose time matters."""

    value: Any
    time: int


@dataclass(frozen=True, slots=True)
class WatermarkTo:
    """Event time advances to ``time``."""

    time: int


@dataclass(frozen=True, slots=True)
class ProcessingTimeTo:
    """The clock, which starts at 0, advances to ``ms``; timers fire on the way."""

    ms: int


def atoms_of(item: Any, keyed_by: Callable[[Any], Any] | None) -> list[Any]:
    """The smallest pieces of an item: signals, and batches of one record with its key."""
    if isinstance(item, WatermarkTo | ProcessingTimeTo | EndOfInput):
        return [item]
    if isinstance(item, type) and issubclass(item, EndOfInput):
        raise ConfigError("the input holds the class EndOfInput; write EndOfInput() with brackets")
    if not isinstance(item, Batch):
        value, times = (item.value, [item.time]) if isinstance(item, Record) else (item, None)
        item = Batch.of_rows([value], times)
    if keyed_by is not None and not is_keyed(item):
        if item.rows is None:
            raise ConfigError("a batch of columns needs key columns of its own: give it key_columns=")
        keys = canonical_keys([keyed_by(value) for value in item.rows])
        item = Batch(rows=item.rows, times=item.times, keys=keys)
    return [item.slice(n, n + 1) for n in range(len(item))]


def is_keyed(atom: Any) -> bool:
    """Whether it is a batch that brings its keys."""
    return isinstance(atom, Batch) and (atom.keys is not None or bool(atom.key_columns))


def operator_for(subject: Any, keyed: bool) -> Operator:
    """The operator that runs ``subject``, as ``DataStream`` would make it."""
    if isinstance(subject, Operator):
        return subject
    if isinstance(subject, MapFunction):
        return MapOperator(subject, keyed)
    if isinstance(subject, FlatMapFunction):
        return FlatMapOperator(subject, keyed)
    if isinstance(subject, FilterFunction):
        return FilterOperator(subject, keyed)
    if isinstance(subject, ProcessFunction):
        return ProcessOperator(subject)
    if isinstance(subject, ReduceFunction | KeyedProcessFunction) and not keyed:
        raise ConfigError(f"{type(subject).__name__} needs keys: write verify(..., keyed_by=...)")
    if isinstance(subject, ReduceFunction):
        return KeyedReduceOperator(subject)
    if isinstance(subject, KeyedProcessFunction):
        return KeyedProcessOperator(subject)
    if callable(subject) and _needs_nothing(subject):
        return operator_for(subject(), keyed)
    raise ConfigError(
        f"verify() cannot run {subject!r}; give a map, flat map, filter, reduce or process function, an "
        "operator, or a callable without parameters that makes one"
    )


def _needs_nothing(subject: Callable[..., Any]) -> bool:
    try:
        inspect.signature(subject).bind()
    except TypeError:
        return False
    return True
