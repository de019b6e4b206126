"""Aggregates of rows that have windows already: ``counts.group_by("window_start", "window_end").agg(...)``.

All rows of a window have its last moment as their event time, so the group is complete when the watermark has
come there: it is a window of one millisecond.  Results have the same windows, and the same event time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.dataframe.aggregating import Aggregates
from penstock.dataframe.window_steps import WindowStep
from penstock.dataframe.windows import Tumble
from penstock.expressions.face import Expression, names_of
from penstock.expressions.nodes import Cast, Column, Node

if TYPE_CHECKING:
    from penstock.dataframe.frame import DataFrame

START, END = "$start", "$end"
_MOMENT = 1


class WindowGroups:
    """Groups of rows of the same window; :meth:`agg` makes one row of each."""

    def __init__(self, frame: DataFrame, keys: Sequence[Expression]) -> None:
        self._frame = frame
        self._keys = keys

    def agg(self, *aggregates: Expression) -> DataFrame:
        """The columns of ``group_by``, in their order, and a column for each aggregate."""
        frame, bounds = self._frame, self._frame._bounds
        assert bounds is not None
        names = names_of(self._keys)
        of_window = {
            name: (START, END)[bounds.index(key.node.name)]
            for name, key in zip(names, self._keys, strict=True)
            if isinstance(key.node, Column) and key.node.name in bounds
        }
        others = [key for name, key in zip(names, self._keys, strict=True) if name not in of_window]
        plan = Aggregates(frame.schema, others, aggregates)
        clash = [name for name in plan.results if name in of_window]
        if clash:
            raise ConfigError(
                f"two columns of agg are called {clash[0]!r}; name one with .alias(...)",
                code=Code.COLUMN_TWICE,
            )
        kinds = [frame.schema.field(name).type for name in bounds]
        inside = dict(zip((START, END), (Cast(Column(name), pa.int64()) for name in bounds), strict=True))
        prepared = frame._calc("Prepare", None, {**inside, **plan.inputs})
        keys = [START, END, *plan.key_names]
        folded = WindowStep(keys, Tumble(_MOMENT), 0, plan.folds)

        schema = pa.schema([(START, pa.int64()), (END, pa.int64()), *plan.result_schema])
        kept: dict[str, Node] = {
            name: Cast(Column(of_window[name]), kinds[(START, END).index(of_window[name])])
            if name in of_window
            else Column(name)
            for name in names
        }
        found = prepared._then(folded, schema)._calc("Finish", None, {**kept, **plan.results})
        shown = {inner: name for name, inner in of_window.items()}
        found._bounds = (shown[START], shown[END])
        return found


def window_groups(frame: DataFrame, keys: Sequence[Expression]) -> WindowGroups:
    """Groups by the windows that a frame has, and perhaps more."""
    return WindowGroups(frame, keys)


def has_window(frame: DataFrame, keys: Sequence[Expression]) -> bool:
    """Whether keys contain the bounds of a frame's windows, under whatever name."""
    named = {key.node.name for key in keys if isinstance(key.node, Column)}
    return frame._bounds is not None and set(frame._bounds) <= named
