"""Which columns a filter or projection reads for those that are wanted of it, and one that makes these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from penstock.expressions.nodes import Node

Names = frozenset[str] | None
"""Columns; ``None``: all there are."""
Calc = tuple[pa.Schema, Node | None, Mapping[str, Node] | None]
"""What a ``CalcOperator`` is made of: schema, condition, columns."""


def narrowed_calc(calc: Calc, wanted: Names) -> tuple[Calc, Names]:
    """One that makes the wanted columns, and what it reads for these."""
    schema, condition, named = calc
    if named is not None and wanted is not None:
        # Without a column a batch would have no rows.
        chosen = wanted & named.keys() or {next(iter(named))}
        named = {name: made for name, made in named.items() if name in chosen}
    read = wanted if named is None else _columns(named.values())
    if read is None:
        return calc, None
    if condition is not None:
        read |= _columns([condition])
    if not read:
        read = frozenset({_cheapest(schema)})
    return (pa.schema([field for field in schema if field.name in read]), condition, named), read


def _columns(nodes: Iterable[Node]) -> frozenset[str]:
    return frozenset(name for it in nodes for name in it.columns())


def _cheapest(schema: pa.Schema) -> str:
    """A column to count rows by: one of numbers, if there is any."""
    return str(next((it.name for it in schema if pa.types.is_primitive(it.type)), schema.names[0]))
