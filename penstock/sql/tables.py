"""``CREATE TABLE``: columns, computed ones among them, WATERMARK, PRIMARY KEY and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from penstock.sql.dialect import Metadata
from penstock.sql.errors import Text
from penstock.sql.types import arrow_type, interval

_WATERMARK = "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"


@dataclass(frozen=True)
class TableDefinition:
    """A table as it was declared.  Options may hold passwords, so they are not shown."""

    name: str
    columns: tuple[str, ...]
    """All of them, in order."""
    schema: pa.Schema
    """Those that the connector reads or writes."""
    options: Mapping[str, str] = field(repr=False)
    computed: Mapping[str, exp.Expr] = field(default_factory=dict, repr=False)
    time: str | None = None
    delay_ms: int = 0
    key: tuple[str, ...] = ()
    partitioned: tuple[str, ...] = ()
    text: Text = field(default_factory=lambda: Text(""), repr=False)

    def written(self) -> pa.Schema:
        """What INSERT INTO writes: all but computed columns."""
        return self.schema


def definition(node: exp.Create, text: Text) -> TableDefinition:
    """The table of a ``CREATE TABLE``."""
    schema = node.this
    if not isinstance(schema, exp.Schema):
        raise text.refuse(
            node, "CREATE TABLE needs columns: CREATE TABLE t (id BIGINT, ts TIMESTAMP(3)) WITH (...)"
        )
    reader = _Reader(text)
    for part in schema.expressions:
        reader.add(part)
    options, partitioned = _properties(node, text)
    name = schema.this.name
    for unknown in (it for it in (*reader.key, *partitioned) if it not in reader.fields):
        raise text.refuse(schema, f"table {name!r} has no column {unknown!r} to be its key or partition")
    time = reader.time
    if time is not None and time not in reader.columns:
        raise text.refuse(schema, f"WATERMARK FOR {time!r}, and table {name!r} has no such column")
    fields = [
        pa.field(it, kind, it not in reader.required and it not in reader.key)
        for it, kind in reader.fields.items()
    ]
    return TableDefinition(
        name,
        tuple(reader.columns),
        pa.schema(fields),
        options,
        reader.computed,
        time,
        reader.delay_ms,
        reader.key,
        partitioned,
        text,
    )


class _Reader:
    """Gathers what the parts of the list say."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self.columns: list[str] = []
        self.fields: dict[str, pa.DataType] = {}
        self.required: set[str] = set()
        self.computed: dict[str, exp.Expr] = {}
        self.time: str | None = None
        self.delay_ms = 0
        self.key: tuple[str, ...] = ()

    def add(self, part: exp.Expr) -> None:
        if isinstance(part, exp.ColumnDef):
            self._column(part)
        elif isinstance(part, exp.WatermarkColumnConstraint):
            self._watermark(part)
        elif isinstance(part, exp.Constraint):
            for inner in part.expressions:
                self.add(inner)
        elif isinstance(part, exp.PrimaryKey):
            self._key(tuple(it.name for it in part.expressions), part)
        else:
            raise self._text.refuse(
                part,
                f"{part.sql()[:60]} cannot stand in CREATE TABLE; columns, WATERMARK and PRIMARY KEY can",
            )

    def _column(self, part: exp.ColumnDef) -> None:
        name = part.name
        if name in self.columns:
            raise self._text.refuse(part, f"two columns are called {name!r}")
        self.columns.append(name)
        for constraint in part.args.get("constraints") or ():
            kind = constraint.kind if isinstance(constraint, exp.ColumnConstraint) else constraint
            if isinstance(kind, exp.ComputedColumnConstraint):
                self.computed[name] = kind.this
                return
            if isinstance(kind, Metadata):
                raise self._text.refuse(
                    part, f"METADATA columns are not there; {name!r} can be a field of the record itself"
                )
            if isinstance(kind, exp.PrimaryKeyColumnConstraint):
                self._key((name,), part)
            elif isinstance(kind, exp.NotNullColumnConstraint):
                if not kind.args.get("allow_null"):
                    self.required.add(name)
            elif not isinstance(kind, exp.CommentColumnConstraint):
                raise self._text.refuse(
                    part, f"{constraint.sql()[:60]} cannot stand behind a column; NOT NULL, PRIMARY KEY can"
                )
        if part.kind is None:
            raise self._text.refuse(part, f"column {name!r} has no type")
        self.fields[name] = arrow_type(part.kind, self._text)

    def _key(self, names: tuple[str, ...], part: exp.Expr) -> None:
        if self.key:
            raise self._text.refuse(part, "a table has one PRIMARY KEY, of one or several columns")
        self.key = names

    def _watermark(self, part: exp.WatermarkColumnConstraint) -> None:
        column, delayed = part.this, part.expression
        if self.time is not None:
            raise self._text.refuse(part, "a table has one WATERMARK")
        self.time = column.name
        if _is_column(delayed, column.name):
            return
        if not isinstance(delayed, exp.Sub) or not _is_column(delayed.this, column.name):
            raise self._text.refuse(part, f"a watermark is its column less a constant: {_WATERMARK}")
        length = interval(delayed.expression, self._text)
        self.delay_ms = round(length.total_seconds() * 1000)
        if self.delay_ms < 0:
            raise self._text.refuse(part, f"a watermark is not ahead of its column: {_WATERMARK}")


def _is_column(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Column) and node.name == name


def _properties(node: exp.Create, text: Text) -> tuple[dict[str, str], tuple[str, ...]]:
    properties = node.args.get("properties")
    options: dict[str, str] = {}
    partitioned: tuple[str, ...] = ()
    for part in properties.expressions if properties is not None else ():
        if isinstance(part, exp.PartitionedByProperty):
            partitioned = tuple(it.name for it in part.this.expressions)
        elif type(part) is exp.Property and isinstance(part.this, exp.Literal):
            key = part.this.this
            if key in options:
                raise text.refuse(part, f"option {key!r} is given twice")
            options[key] = part.args["value"].this
        elif not isinstance(part, exp.TemporaryProperty | exp.SchemaCommentProperty):
            raise text.refuse(part, f"{part.sql()[:60]} cannot stand behind CREATE TABLE; WITH (...) can")
    return options, partitioned
