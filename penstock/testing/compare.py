"""Results against what was expected, and what to say when they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.ids import MIN_TIME
from penstock.testing.operator_run import Result

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
