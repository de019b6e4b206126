"""In which order rows are wanted: ``col("price").desc()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.expressions.face import Expression


@dataclass(frozen=True, eq=False)
class Ordering:
    """An expression to order by.  Null is smaller than every value, NaN larger than every number."""

    expression: Expression
    descending: bool

    def __str__(self) -> str:
        return f"{self.expression.node} {'DESC' if self.descending else 'ASC'}"
