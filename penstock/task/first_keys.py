"""Keys of another kind than those in the snapshot: the state would never be found, so the job says so.

Looked at once an input, at the first records that bring keys: as many as are needed to meet a kind that is in
the snapshot, some at most, and none behind the next barrier (its snapshot would hold both) or the end of
input.  If all keys of the snapshot are of one kind that is an error; programs with keys of several kinds may
begin with any, so there it is only remarked.  A snapshot knows the kinds of all keys that its steps had met
(``met_keys.py``).
"""

from __future__ import annotations

from typing import Any

from penstock.core.batch import Batch
from penstock.core.errors import KeyError_
from penstock.core.ids import Epoch
from penstock.core.key_kinds import (
    MOST_KINDS,
    Kind,
    columns_kind,
    fits,
    in_words,
    is_one_kind,
    kinds_of,
    outlines,
)
from penstock.operators.operator import Operator

NEW_KINDS = "keys of another type"
_SOME_KEYS = 16
"""A program whose keys are of several kinds has hardly shown one of them alone for so long."""


def watch_first_keys(operator: Operator, stored: frozenset[Kind], inputs: set[int]) -> None:
    """Have the first keys of each input compared with the kinds of those the operator was restored with."""
    if 0 < len(stored) <= MOST_KINDS:
        plain: Any = operator
        watch = _FirstKeys(operator, stored, inputs)
        plain.process, plain.prepare_barrier, plain.finish = (
            watch.process,
            watch.prepare_barrier,
            watch.finish,
        )


def _kinds_in(batch: Batch) -> frozenset[Kind]:
    """Of columns by their types: a null may be among their values."""
    if batch.keys is not None:
        return kinds_of(batch.keys)
    return frozenset([columns_kind(batch.key_types())] if len(batch) else [])


class _FirstKeys:
    """Stands in for methods of the operator until all inputs have brought keys."""

    def __init__(self, operator: Operator, stored: frozenset[Kind], inputs: set[int]) -> None:
        self._operator: Any = operator
        self._process, self._prepare_barrier = operator.process, operator.prepare_barrier
        self._finish = operator.finish
        self._stored = stored
        self._unseen = inputs
        self._new: dict[int, tuple[int, frozenset[Kind]]] = {}
        """Of inputs that have brought none of the stored kinds so far: how many keys, and of which kinds."""

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Look at the keys first."""
        if input_index in self._unseen and (batch.keys is not None or batch.key_columns):
            self._look(_kinds_in(batch), len(batch), input_index)
        self._process(batch, input_index)

    def prepare_barrier(self, epoch: Epoch) -> None:
        """The snapshot at hand would hold keys of all kinds that were seen."""
        self._decide()
        self._prepare_barrier(epoch)

    def finish(self) -> None:
        """No more keys will come."""
        self._decide()
        self._finish()

    def _decide(self) -> None:
        for _, kinds in self._new.values():
            self._tell(kinds)
        self._new.clear()

    def _look(self, found: frozenset[Kind], count: int, input_index: int) -> None:
        seen, kinds = self._new.pop(input_index, (0, frozenset()))
        kinds, seen = kinds | found, seen + count
        if kinds and not any(fits(new, old) for new in kinds for old in self._stored):
            if seen < _SOME_KEYS:
                self._new[input_index] = seen, kinds
                return
            self._tell(kinds)
        self._unseen.discard(input_index)
        if not self._unseen:
            operator = self._operator
            operator.process, operator.prepare_barrier = self._process, self._prepare_barrier
            operator.finish = self._finish

    def _tell(self, found: frozenset[Kind]) -> None:
        stored = self._stored
        what = (
            f"keys are of type {in_words(found)} now and of type {in_words(stored)} in the snapshot: none "
            "would find its state. Make the key what it was, or give the step another uid to start it empty"
        )
        shape = outlines(stored)
        if is_one_kind(stored) or (len(shape) == 1 and not shape & outlines(found)):
            raise KeyError_(
                f"{what}; if both types are meant, set execution.state-recovery.ignore-unclaimed-state"
            )
        self._operator.ctx.remark(NEW_KINDS, f"{what}, unless this type is meant to be new")
