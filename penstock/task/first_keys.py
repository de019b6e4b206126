"""Keys of another kind than those in the snapshot: the state would never be found, so the job says so.

Looked at once an input, at the first records that bring keys.  If all keys of the snapshot are of one kind
that is an error; programs with keys of several kinds may begin with any, so there it is only remarked.
"""

from __future__ import annotations

from typing import Any

from penstock.core.batch import Batch
from penstock.core.errors import KeyError_
from penstock.core.key_kinds import Kind, fits, in_words, is_one_kind, kinds_of, outlines
from penstock.operators.operator import Operator

NEW_KINDS = "keys of another type"
_MOST_KINDS = 50
"""Keys of more kinds than that are of any kind."""


def watch_first_keys(operator: Operator, stored: frozenset[Kind], inputs: set[int]) -> None:
    """Have the first keys of each input compared with the kinds of those the operator was restored with."""
    if 0 < len(stored) <= _MOST_KINDS:
        plain: Any = operator
        plain.process = _FirstKeys(operator, stored, inputs)


class _FirstKeys:
    """Stands in for the operator's ``process`` until all inputs have brought keys."""

    def __init__(self, operator: Operator, stored: frozenset[Kind], inputs: set[int]) -> None:
        self._operator: Any = operator
        self._process = operator.process
        self._stored = stored
        self._unseen = inputs

    def __call__(self, batch: Batch, input_index: int = 0) -> None:
        if input_index in self._unseen and (batch.keys is not None or batch.key_columns):
            self._compare(kinds_of(batch.key_list()))
            self._unseen.discard(input_index)
            if not self._unseen:
                self._operator.process = self._process
        self._process(batch, input_index)

    def _compare(self, found: frozenset[Kind]) -> None:
        stored = self._stored
        if not found or any(fits(new, old) for new in found for old in stored):
            return
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
