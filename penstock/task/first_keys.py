"""Keys of another kind than those in the snapshot: the state would never be found, so the job says so.

Looked at once, at the first records that bring keys.  Only where all keys of the snapshot are of one kind:
programs with keys of several kinds may begin with any of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock.core.batch import Batch
from penstock.core.errors import KeyError_
from penstock.core.keys import kinds_of
from penstock.operators.operator import Operator


def watch_first_keys(operator: Operator, stored: frozenset[str]) -> None:
    """Have the first keys of an operator compared with the kinds of those it was restored with."""
    if len(stored) == 1:
        plain: Any = operator
        plain.process = partial(_first, operator, operator.process, next(iter(stored)))


def _first(operator: Any, process: Any, stored: str, batch: Batch, input_index: int = 0) -> None:
    if batch.keys is not None or batch.key_columns:
        found = kinds_of(batch.key_list())
        if stored not in found:
            raise KeyError_(
                f"keys are of type {', '.join(sorted(found))} now and of type {stored} in the snapshot: none "
                "would find its state. Make the key what it was, or give the step another uid to start it "
                "empty; if both types are meant, set execution.state-recovery.ignore-unclaimed-state"
            )
        operator.process = process
    process(batch, input_index)
