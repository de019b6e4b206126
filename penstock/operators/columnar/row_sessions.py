"""Sessions that an earlier version aggregated row by row, as rows of the vectorised operator.

Before sessions were vectorised, the state of ``agg`` was that of the row window operator: which windows have
grown together, an accumulator for each, and timers.  What a snapshot has of these is turned into columns
once, and is gone from then on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.columnar.plan import AggregatePlan
from penstock.operators.window.operator import MERGING_TABLE
from penstock.operators.window.window_state import CONTENTS_TABLE
from penstock.state.backend import EVENT_TIMERS
from penstock.state.keyed import KeyedState
from penstock.state.span_chunks import DUE, END, START


def taken_over(keyed: KeyedState, plan: AggregatePlan) -> pa.Table | None:
    """The sessions of a snapshot of the row operator, which are removed; ``None`` if there are none."""
    tables = {table.name: table for table in keyed.tables()}
    merging, contents = tables.get(MERGING_TABLE), tables.get(CONTENTS_TABLE)
    if merging is None or contents is None or merging.any_entry() is None:
        return None
    found: list[tuple[Any, ...]] = []
    waiting = keyed.timers.event
    for key in merging.entries():
        for window, state_window in dict(merging.peek(key)).items():
            entry = (key, state_window)
            timer = (window.max_timestamp(), key, window)
            if entry in contents:
                keys = (key,) if len(plan.keys) == 1 else tuple(key)
                due = int(EVENT_TIMERS in tables and timer in tables[EVENT_TIMERS])
                found.append((*keys, *contents.peek(entry), window.start, window.end, due))
            contents.remove(entry)
        merging.remove(key)
    for timer in waiting.table.entries():
        waiting.delete(*timer)
    if not found:
        return None
    names = (*plan.columns, START, END, DUE)
    columns = dict(zip(names, map(list, zip(*found, strict=True)), strict=True))
    arrays = {name: pa.array(values) for name, values in columns.items()}
    arrays[DUE] = pa.array(np.array(columns[DUE], np.int8))
    return pa.table(arrays)
