"""One line verifies an operator or a user function completely.

::

    verify(CountClicks(), keyed_by=lambda click: click.user).input(
        [Record(click, 10), WatermarkTo(20), EndOfInput()]
    ).expect([("ann", 1)])

The input is run again and again, each time in another way: row by row; in batches of several sizes;
each key alone; with a snapshot after every item, or after any one of them, restored through the real
state files into a *new* instance (a copy of the object made before it saw anything); and, if keyed, at
several subtasks with the rows routed by key group, from the start or split in the middle and joined
again.  All runs must give the expected results, or, with ``matches_itself``, those of the plain run.
Time is virtual.

Order: without keys, exactly as expected.  With keys, each key's results in their order; results of
different keys may interleave as they like, since keys live in different subtasks.

There is no run with a full output: the engine's operators emit without ever being refused, and what
they emit waits behind them.  Operators with two inputs are not covered.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import numpy as np

from penstock.core.batch import Batch, can_concat, concat
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME
from penstock.core.pickling import dumps
from penstock.core.signals import EndOfInput
from penstock.operators.operator import Operator
from penstock.testing.items import ProcessingTimeTo, Record, WatermarkTo, atoms_of, is_keyed, operator_for
from penstock.testing.operator_run import KEY_GROUPS, OperatorRun, Result, owners_of

_LINES = 30


class VerificationFailed(AssertionError):
    """A run whose results are not the expected ones; the message names the run and shows the difference."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A result that must come out; at any time if ``time`` is ``None``."""

    value: Any
    time: int | None
    side: str | None

    def matches(self, result: Result) -> bool:
        """Whether ``result`` is this one."""
        same_place = self.side == result.side and self.time in (None, result.time)
        return same_place and bool(self.value == result.value)


class Standard:
    """What every run is held against.

    ``inputs`` are the input's items as text.  ``ordered``: the whole order counts; else only the order
    within each key, known from :meth:`keep_order_of` on.  Each side output has an order of its own.
    """

    def __init__(self, expected: list[Expected], inputs: list[str], *, ordered: bool) -> None:
        self._expected = expected
        self._inputs = inputs
        self._ordered = ordered
        self._keys: list[list[Result]] = []

    def keep_order_of(self, results_of_keys: list[list[Result]]) -> None:
        """From now on the results of each key must come in the order in which they come here."""
        sides = {item.side for item in self._expected}
        self._keys = [
            [result for result in results if result.side == side]
            for results in results_of_keys
            for side in sides
        ]
        self._check_keys("each key alone, against the order expected", self._expected)

    def check(self, mode: str, results: list[Result]) -> None:
        """Raise :class:`VerificationFailed` unless ``results`` are as expected."""
        missing, unexpected = _difference(self._expected, results)
        if missing or unexpected:
            lines = [f"  - expected: {_show(item)}" for item in missing]
            lines += [f"  + got:      {_show(item)}   from {self._from(item)}" for item in unexpected]
            raise VerificationFailed(_message(mode, self._headline(missing, unexpected), lines))
        if not self._ordered:
            self._check_keys(mode, results)
            return
        self._check_order(mode, results)

    def _check_order(self, mode: str, results: list[Result]) -> None:
        waiting = list(self._expected)
        for place, got in enumerate(results):
            wanted = next(item for item in waiting if item.side == got.side)
            waiting.remove(wanted)
            if not wanted.matches(got):
                lines = [
                    f"  - expected: {_show(wanted)}",
                    f"  + got:      {_show(got)}   from {self._from(got)}",
                ]
                raise VerificationFailed(_message(mode, f"the order differs at result {place}", lines))

    def _check_keys(self, mode: str, results: Sequence[Expected | Result]) -> None:
        for own in self._keys:
            found = iter(results)
            for place, wanted in enumerate(own):
                if not any(_same(wanted, other) for other in found):
                    lines = [f"  key's order: {[_show(item) for item in own]}"]
                    lines += [f"  + got:       {[_show(item) for item in results]}"]
                    head = f"results of one key changed their order at its result {place}, {_show(wanted)}"
                    raise VerificationFailed(_message(mode, head, lines))

    def _headline(self, missing: list[Expected], unexpected: list[Result]) -> str:
        first = f", first at {self._from(unexpected[0])}" if unexpected else ""
        return f"missing results: {len(missing)}, unexpected: {len(unexpected)}{first}"

    def _from(self, result: Result) -> str:
        return f"item {result.item}, {self._inputs[result.item]}"


def _difference(expected: list[Expected], results: list[Result]) -> tuple[list[Expected], list[Result]]:
    missing, unexpected = [], list(results)
    for wanted in expected:
        for place, result in enumerate(unexpected):
            if wanted.matches(result):
                del unexpected[place]
                break
        else:
            missing.append(wanted)
    return missing, unexpected


def _same(wanted: Result, other: Expected | Result) -> bool:
    if isinstance(other, Expected):
        return other.matches(wanted)
    return Expected(wanted.value, wanted.time, wanted.side).matches(other)


def _show(item: Expected | Result) -> str:
    shown = repr(item.value)
    if item.time is not None and item.time != MIN_TIME:
        shown += f" at {item.time}"
    return shown if item.side is None else f"{shown} to side output {item.side!r}"


def _message(mode: str, head: str, lines: list[str]) -> str:
    left_out = [f"  ({len(lines) - _LINES} more)"] if len(lines) > _LINES else []
    return "\n".join([f"{mode}: {head}", *lines[:_LINES], *left_out])


__all__ = [
    "EndOfInput",
    "ProcessingTimeTo",
    "Record",
    "VerificationFailed",
    "Verifier",
    "WatermarkTo",
    "verify",
]

_WHOLE = 1 << 30
_BATCH_SIZES = (2, 3, 7)
_MOST_PLACES = 40
"""Long inputs are interrupted at this many places, evenly spread, instead of everywhere."""
_START = -1


@dataclass(frozen=True, slots=True)
class _Mode:
    """One way to run the input."""

    name: str
    size: int = 1
    """Most records of a batch."""
    restores: Mapping[int, int] = field(default_factory=dict)
    """After which items to restore, and with how many subtasks; at ``_START``: how many to begin with."""
    keys: tuple[Any, ...] | None = None
    """The only keys to feed."""


_PLAIN = _Mode("the plain run", _WHOLE)


def verify(subject: Any, *, keyed_by: Callable[[Any], Any] | None = None) -> Verifier:
    """Start a verification.

    ``subject`` is a function object (map, flat map, filter, reduce, process), an operator that was
    not opened, or a callable without parameters that makes either; windows need the latter.  It must
    survive pickling, as it must to reach an executor.  ``keyed_by`` gives the key of a value.
    """
    return Verifier(subject, keyed_by)


class Verifier:
    """What :func:`verify` returns: give it the input, then say what must come out."""

    def __init__(self, subject: Any, keyed_by: Callable[[Any], Any] | None) -> None:
        self._pristine: bytes = cloudpickle.dumps(subject)
        self._keyed_by = keyed_by
        self._atoms: bytes = dumps([])
        self._keys: list[Any] = []
        self._shown: list[str] = []
        self._make()

    def input(self, items: Iterable[Any]) -> Verifier:
        """What to feed, in order.

        Plain values, :class:`Record`, :class:`WatermarkTo`, :class:`ProcessingTimeTo`, ``EndOfInput()``,
        or whole batches: their rows count as items of their own, and columnar ones bring their keys.
        """
        atoms = [atom for item in items for atom in atoms_of(item, self._keyed_by)]
        if not atoms:
            raise ConfigError("verify() needs an input: without items there is nothing to compare")
        keys = [key for atom in atoms if is_keyed(atom) for key in atom.key_list()]
        self._keys = list(dict.fromkeys(keys))
        self._shown = [_shown(atom) for atom in atoms]
        self._atoms = dumps(atoms)
        return self

    def expect(self, results: Iterable[Any], *, side: Mapping[str, Iterable[Any]] | None = None) -> list[str]:
        """All runs must give ``results``, and ``side`` outputs by tag; returns the names of the runs.

        A plain value matches at any time, a :class:`Record` only at its own.
        """
        expected = [_expected(value, None) for value in results]
        for tag, values in (side or {}).items():
            expected += [_expected(value, tag) for value in values]
        return self._check(expected)

    def matches_itself(self) -> list[str]:
        """All runs must give what the plain run gives; returns the names of the runs."""
        return self._check([Expected(r.value, r.time, r.side) for r in self._run(_PLAIN)])

    def _check(self, expected: list[Expected]) -> list[str]:
        standard = Standard(expected, self._shown, ordered=not self._keys)
        standard.check(_PLAIN.name, self._run(_PLAIN))
        names = [_PLAIN.name]
        if self._keys:
            names.append("each key alone")
            alone = [self._run(_Mode(f"key {key!r} alone", keys=(key,))) for key in self._keys]
            standard.check(names[-1], [result for results in alone for result in results])
            standard.keep_order_of(alone)
        for mode in self._modes():
            standard.check(mode.name, self._run(mode))
            names.append(mode.name)
        return names

    def _modes(self) -> Iterator[_Mode]:
        count = len(self._shown)
        places = sorted({round(place) for place in np.linspace(0, count - 1, min(count, _MOST_PLACES))})
        yield _Mode("row by row")
        for size in _BATCH_SIZES:
            yield _Mode(f"batches of {size}", size)
        for place in places:
            yield _Mode(f"restored after item {place}", restores={place: 1})
        yield _Mode("restored after every item", restores=dict.fromkeys(range(count), 1))
        if not self._keys:
            return
        width = _separating(self._keys)
        yield _Mode(f"{width} subtasks", restores={_START: width})
        yield _Mode(
            f"restored after every item, with {width} subtasks and 1 by turns",
            restores={place: 1 if place % 2 else width for place in range(count)},
        )
        for place in places[:-1]:
            back = place + max(1, (count - place) // 2)
            yield _Mode(
                f"split to {width} subtasks after item {place}, joined after item {back}",
                restores={place: width, back: 1},
            )

    def _run(self, mode: _Mode) -> list[Result]:
        position = 0
        try:
            trial = OperatorRun(self._make, mode.restores.get(_START, 1))
            for step, position in _steps(pickle.loads(self._atoms), mode):
                trial.at(position)
                _feed(trial, step)
                if position in mode.restores and not isinstance(step, EndOfInput):
                    trial.restore(mode.restores[position])
            trial.close()
        except Exception as error:
            raise VerificationFailed(
                f"{mode.name}: {error!r} was raised at item {position}, {self._shown[position]}"
            ) from error
        return trial.results

    def _make(self) -> Operator:
        return operator_for(cloudpickle.loads(self._pristine), self._keyed_by is not None)


def _shown(atom: Any) -> str:
    if not isinstance(atom, Batch):
        return repr(atom)
    (value,) = atom.to_rows()
    return repr(value) if atom.times is None else f"{value!r} at {int(atom.times[0])}"


def _steps(atoms: list[Any], mode: _Mode) -> Iterator[tuple[Any, int]]:
    """Batches and signals in order, each with the number of the last item in it."""
    pending: list[Batch] = []
    last = 0
    for position, atom in enumerate(atoms):
        is_record = isinstance(atom, Batch)
        if is_record and mode.keys is not None and atom.key_list()[0] not in mode.keys:
            continue
        if pending and (not is_record or len(pending) == mode.size or not can_concat(pending[-1], atom)):
            yield concat(pending), last
            pending = []
        if is_record:
            pending.append(atom)
            last = position
        else:
            yield atom, position
    if pending:
        yield concat(pending), last


def _feed(trial: OperatorRun, step: Any) -> None:
    if isinstance(step, Batch):
        trial.process(step)
    elif isinstance(step, WatermarkTo):
        trial.watermark(step.time)
    elif isinstance(step, ProcessingTimeTo):
        trial.clock_to(step.ms)
    else:
        trial.finish()


def _expected(value: Any, side: str | None) -> Expected:
    return (
        Expected(value.value, value.time, side) if isinstance(value, Record) else Expected(value, None, side)
    )


def _separating(keys: list[Any]) -> int:
    """The smallest number of subtasks, from 2 on, that does not put all keys into one."""
    for width in range(2, KEY_GROUPS):
        if len(set(owners_of(keys, width).tolist())) > 1:
            return width
    return 2
