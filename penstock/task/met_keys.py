"""Remembers what kinds of keys an operator has met, so that a snapshot can say it.

A program may have keys of several kinds, and state for one of them only at the moment of a snapshot: windows
have fired, timers have cleared.  Another driver that restores it and first meets a key of another kind must
know that such keys are meant (``first_keys.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.core.batch import Batch
from penstock.core.key_kinds import MOST_KINDS, Kind, columns_kind, kinds_of
from penstock.operators.operator import Operator

_OF_ONE_KIND = frozenset({int, bool, float, str, bytes})
"""Types all of whose keys are of one kind. Of others, such as tuples, a few keys a batch are looked at."""
_SOME_KEYS = 16


def remember_kinds(operator: Operator) -> None:
    """Note the kinds of all keys that the operator is given, in its keyed state."""
    plain: Any = operator
    plain.process = _MetKeys(operator).process


class _MetKeys:
    """Stands in for a method of the operator."""

    def __init__(self, operator: Operator) -> None:
        self._process = operator.process
        self._kinds = operator.ctx.keyed.met_kinds
        self._types: set[type] = set()
        self._columns: set[tuple[Any, ...]] = set()

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Look at the types of the keys first, which costs next to nothing if they are known."""
        if batch.keys is not None:
            if not self._types.issuperset(map(type, batch.keys)):
                self._learn(batch.keys)
        elif batch.key_columns and len(batch):
            types = batch.key_types()
            if types not in self._columns:
                self._columns.add(types)
                self._note([columns_kind(types)])
        self._process(batch, input_index)

    def _learn(self, keys: list[Any]) -> None:
        new = {type(key): key for key in keys if type(key) not in self._types}
        self._note(kinds_of([*new.values(), *keys[:_SOME_KEYS]]))
        self._types.update(_OF_ONE_KIND & new.keys())

    def _note(self, kinds: Iterable[Kind]) -> None:
        if len(self._kinds) <= MOST_KINDS:
            self._kinds.update(dict.fromkeys(kinds))
