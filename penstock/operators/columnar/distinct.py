"""Aggregates of the different values of a column in windows: COUNT, SUM and AVG (DISTINCT ...)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import ConfigError
from penstock.operators.columnar.aggregates import Aggregate, Fold, Partial, mean_of_sums, shown_sum
from penstock.operators.columnar.grouped import grouped
from penstock.operators.columnar.value_lists import elements, lengths_of


@dataclass(frozen=True)
class Distinct(Aggregate):
    """``count``, ``sum`` or ``avg`` of the different values of a column, nulls left out, called ``alias``."""

    function: str
    column: str
    alias: str

    @property
    def name(self) -> str:
        return self.alias

    @property
    def partials(self) -> tuple[Partial, ...]:
        return (Partial(Fold.VALUES, self.column),)

    def finish(self, merged: pa.Table) -> Any:
        lists = merged.column(self.partials[0].name)
        counts = lengths_of(lists)
        if self.function == "count":
            return pa.array(counts)
        sums = shown_sum(self._sums(lists))
        return sums if self.function == "sum" else mean_of_sums(sums, pa.array(counts))

    def _sums(self, lists: Any) -> pa.Array:
        """The sum of each list, null of an empty one."""
        values, rows = elements(lists)
        summable = Partial(Fold.SUM, self.column).of_raw(values)
        table = pa.table({"row": rows, self.column: summable})
        found = grouped(table, ["row"], [(self.column, "sum")])
        place = np.full(len(lists), -1)
        place[found.column("row").to_numpy()] = np.arange(found.num_rows)
        return found.column(self.column).combine_chunks().take(pa.array(place, mask=place < 0))

    def finish_row(self, rows: int, partials: Mapping[Partial, Any]) -> Any:
        raise ConfigError("DISTINCT is there for columns only")
