"""What stands behind FROM: tables, queries, values, and the table functions of windows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from penstock.dataframe import Session, Slide, Tumble, from_arrow
from penstock.dataframe import windows as known_windows
from penstock.dataframe.windows import Window
from penstock.expressions.face import Expression
from penstock.expressions.program import Projection
from penstock.expressions.types import common_type
from penstock.sql.dialect import TableArgument
from penstock.sql.errors import Text, known_function
from penstock.sql.relations import Field, Relation
from penstock.sql.types import interval

if TYPE_CHECKING:
    from penstock.sql.planner import Planner

WINDOWS = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
_ARGUMENTS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
_SHOWN = {
    "TUMBLE": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
    "HOP": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE)",
    "CUMULATE": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE)",
    "SESSION": "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
}


def item(planner: Planner, node: exp.Expr) -> Relation:
    """The relation of one item of FROM, under its name."""
    alias = node.args.get("alias")
    if isinstance(node, exp.Table):
        function = _function_of(node)
        planner.text.only(node, ("db", "catalog", "alias", "version"))
        found = planner.table(node) if function is None else _windowed(planner, function)
    elif isinstance(node, exp.Subquery):
        planner.text.only(node, ("alias",))
        found = planner.query(node.this)
    elif isinstance(node, exp.Values):
        found = values(planner, node)
    else:
        raise planner.text.refuse(
            node, f"{node.sql()[:60]} cannot stand behind FROM; a table, a query or a window function can"
        )
    return renamed(planner, found, alias, node)


def renamed(planner: Planner, relation: Relation, alias: exp.Expr | None, node: exp.Expr) -> Relation:
    """Under the name of ``AS t``, or of ``AS t(a, b)``."""
    if alias is None:
        return relation
    found = relation.called(alias.name) if alias.name else relation
    names = [it.name for it in alias.args.get("columns") or ()]
    if not names:
        return found
    if len(names) != len(found.fields):
        raise planner.text.refuse(node, f"{len(names)} names for {len(found.fields)} columns")
    fields = tuple(replace(it, name=name) for it, name in zip(found.fields, names, strict=True))
    return replace(found, fields=fields)


def values(planner: Planner, node: exp.Values) -> Relation:
    """``(VALUES (1, 'a'), (2, 'b'))``: rows of constants, which travel with the job."""
    makers = planner.expressions(Relation(from_arrow(pa.table({"_": [0]})), (), "values"))
    rows = [part.expressions if isinstance(part, exp.Tuple) else [part] for part in node.expressions]
    if any(len(row) != len(rows[0]) for row in rows):
        raise planner.text.refuse(node, "the rows of VALUES have different numbers of columns")
    one = pa.record_batch({"_": [0]})
    columns: dict[str, pa.Array] = {}
    for at in range(len(rows[0])):
        with planner.text.at(rows[0][at]):
            cells = [makers.make(row[at]) for row in rows]
            kind = reduce(common_type, (_constants(one, cell).type for cell in cells))
            if pa.types.is_null(kind):
                raise planner.text.refuse(
                    rows[0][at], "a column of NULLs has no type; write CAST(NULL AS BIGINT)"
                )
            made = [_constants(one, cell.cast(kind)) for cell in cells]
        columns[f"EXPR${at}"] = pa.concat_arrays(made)
    return Relation.of(from_arrow(pa.table(columns)), None, "values")


def _constants(rows: pa.RecordBatch, value: Expression) -> pa.Array:
    """An expression of no column, for some rows."""
    found: pa.Array = Projection(rows.schema, {"v": value.node}).apply(rows).column(0)
    return found


# --- windows -----------------------------------------------------------------------------------------


def _function_of(node: exp.Table) -> exp.Anonymous | None:
    """``TUMBLE(...)``, also within ``TABLE(...)``."""
    found = node.this
    if isinstance(found, exp.Anonymous) and found.name.upper() == "TABLE" and len(found.expressions) == 1:
        found = found.expressions[0]
    return found if isinstance(found, exp.Anonymous) else None


def _windowed(planner: Planner, node: exp.Anonymous) -> Relation:
    name = node.name.upper()
    if name not in WINDOWS:
        raise planner.text.refuse(
            node,
            f"there is no table function {name}{known_function(name, WINDOWS)}; windows are written "
            f"{_SHOWN['TUMBLE']}",
        )
    arguments = _named(planner.text, node, name)
    data = arguments["DATA"]
    if not isinstance(data, TableArgument):
        raise planner.text.refuse(node, f"the first argument is a table: {_SHOWN[name]}")
    relation = planner.table(data.this)
    time = descriptor(planner.text, arguments["TIMECOL"], relation, name)
    sizes = [
        interval(part, planner.text) for key, part in arguments.items() if key not in ("DATA", "TIMECOL")
    ]
    with planner.text.at(node):
        window = window_of(planner.text, node, name, sizes, time.column is None)
    return replace(relation, window=window, clock=time.column is None, ranking=None, bounds=None)


def _named(text: Text, node: exp.Anonymous, name: str) -> Mapping[str, exp.Expr]:
    """The arguments by their names, as they are given or by their places."""
    known, found = _ARGUMENTS[name], {}
    for at, part in enumerate(node.expressions):
        if isinstance(part, exp.Kwarg):
            found[part.this.name.upper()] = part.expression
        elif at < len(known):
            found[known[at]] = part
    if set(found) != set(known) or len(node.expressions) != len(known):
        raise text.refuse(node, f"{name} is written {_SHOWN[name]}")
    return {key: found[key] for key in known}


def descriptor(text: Text, node: exp.Expr, relation: Relation, name: str) -> Field:
    """The column of ``DESCRIPTOR(ts)``, which must be the event time or the clock's."""
    inner = node
    if isinstance(node, exp.Anonymous) and node.name.upper() == "DESCRIPTOR" and len(node.expressions) == 1:
        inner = node.expressions[0]
    if not isinstance(inner, exp.Column):
        raise text.refuse(node, f"the time is named by its column: {_SHOWN[name]}")
    found, within = relation.resolve(inner, text)
    if found.column is None:
        return found
    if within or relation.times.get(found.column) != 0:
        known = [it.name for it in relation.fields if relation.times.get(it.column or "") == 0]
        way = (
            f"that is {known[0]}"
            if known
            else (
                "the table has none: give it one, by WATERMARK FOR ts AS ts - INTERVAL '5' SECOND in "
                "CREATE TABLE"
            )
        )
        raise text.refuse(inner, f"{inner.sql()} is not the event time of its rows; {way}")
    return found


def window_of(text: Text, node: exp.Expr, name: str, sizes: Sequence[dt.timedelta], clock: bool) -> Window:
    """The window of a DataFrame."""
    made: Window
    more = {"processing_time": True} if clock else {}
    try:
        if name == "TUMBLE":
            made = Tumble(sizes[0], **more)
        elif name == "HOP":
            made = Slide(sizes[1], sizes[0], **more)
        elif name == "SESSION":
            made = Session(sizes[0], **more)
        else:
            cumulate = getattr(known_windows, "Cumulate", None)
            if cumulate is None:
                raise text.refuse(node, "CUMULATE is not there yet; TUMBLE gives each step on its own")
            made = cumulate(size=sizes[1], step=sizes[0], **more)
    except TypeError:
        raise text.refuse(
            node, "windows of the clock's time are not there yet; cut by event time, with WATERMARK FOR"
        ) from None
    return made
