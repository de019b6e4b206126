"""Orders of rows as users write them: ``"price"``, ``(col("price"), "desc")``, or a list of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ConfigError
from penstock.expressions.nodes import Node

if TYPE_CHECKING:
    from penstock.dataframe.frame import DataFrame

_WORDS = ("asc", "desc")


def sort_nodes(frame: DataFrame, by: Any) -> list[tuple[Node, bool]]:
    """What rows are sorted by, and whether downwards."""
    several = by if isinstance(by, list) or (isinstance(by, tuple) and not _is_pair(by)) else [by]
    if not several:
        raise ConfigError("there must be a column to order by, such as col('price').desc()")
    return [_one(frame, it) for it in several]


def _is_pair(by: Sequence[Any]) -> bool:
    return len(by) == 2 and isinstance(by[1], str) and by[1].lower() in _WORDS


def _one(frame: DataFrame, by: Any) -> tuple[Node, bool]:
    if isinstance(by, tuple):
        if not _is_pair(by):
            raise ConfigError(f"an order is a column, or a pair such as (col('price'), 'desc'), not {by!r}")
        return frame._as_expression(by[0]).node, by[1].lower() == "desc"
    downwards = getattr(by, "descending", False)  # what col("price").desc() gives
    return frame._as_expression(getattr(by, "expression", by)).node, downwards
