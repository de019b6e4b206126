"""PyFlink's ``table.schema``: the columns of a table, before there is one."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import ConfigError
from penstock.table.types import arrow_of

__all__ = ["Schema"]


class Schema:
    """Columns, a watermark and a key.

    >>> Schema.new_builder().column("id", "BIGINT").watermark("ts", "ts - INTERVAL '5' SECOND").build()
    Schema(id, WATERMARK FOR ts)
    """

    def __init__(self, parts: tuple[tuple[str, str, Any], ...]) -> None:
        self._parts = parts

    @staticmethod
    def new_builder() -> Schema.Builder:
        """Begins a schema."""
        return Schema.Builder()

    def __repr__(self) -> str:
        shown = [name if kind != "watermark" else f"WATERMARK FOR {name}" for kind, name, _ in self._parts]
        return f"Schema({', '.join(shown)})"

    class Builder:
        """Collects the parts of a :class:`Schema`."""

        def __init__(self) -> None:
            self._parts: list[tuple[str, str, Any]] = []

        def _with(self, kind: str, name: str, value: Any) -> Schema.Builder:
            self._parts.append((kind, name, value))
            return self

        def column(self, column_name: str, data_type: Any) -> Schema.Builder:
            """A column; its type is one of ``DataTypes`` or a text such as ``"BIGINT"``."""
            nullable = getattr(data_type, "nullable", True)
            return self._with("column", column_name, (arrow_of(data_type), nullable))

        def column_by_expression(self, column_name: str, expr: Any) -> Schema.Builder:
            """A column that is computed of others, by SQL."""
            if not isinstance(expr, str):
                raise ConfigError(f"column {column_name!r} is computed by SQL, as a text, not by {expr!r}")
            return self._with("computed", column_name, expr)

        def watermark(self, column_name: str, watermark_expr: Any) -> Schema.Builder:
            """The column with the event time, and the watermark as SQL."""
            if not isinstance(watermark_expr, str):
                raise ConfigError("a watermark is SQL, as a text: \"ts - INTERVAL '5' SECOND\"")
            return self._with("watermark", column_name, watermark_expr)

        def primary_key(self, *column_names: str) -> Schema.Builder:
            """The columns that identify a row."""
            return self._with("key", ", ".join(column_names), column_names)

        def from_schema(self, other_schema: Schema) -> Schema.Builder:
            """With all parts of another."""
            self._parts += other_schema._parts
            return self

        def build(self) -> Schema:
            """The schema."""
            return Schema(tuple(self._parts))
