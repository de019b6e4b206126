"""Steps row by row on frames that change: what becomes of the key, and of rows that do not pass any more."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.core.changes import CHANGE, DELETE, UPDATE_AFTER, ChangeMode, with_change
from penstock.core.errors import ConfigError
from penstock.expressions.comparing import REQUIRED
from penstock.expressions.nodes import Call, Case, Cast, Column, Literal, Node
from penstock.expressions.rewriting import rewritten
from penstock.operators.columnar.calc import CalcOperator

if TYPE_CHECKING:
    from penstock.dataframe.frame import DataFrame
    from penstock.datastream import DataStream


def calculated(
    frame: DataFrame, name: str, condition: Node | None, named: Mapping[str, Node] | None
) -> DataFrame:
    """A filter or projection of a changing frame.

    An upsert stays one as long as it has its key.  Then a new row that does not pass deletes the old one of
    its key, which may or may not have passed.  Without the key the old rows are asked for.
    """
    columns: dict[str, Node] = {it: Column(it) for it in frame.columns} if named is None else dict(named)
    mode, key = frame.changes, frame.key
    called = {part: it for it, node in columns.items() if (part := _repeated(node, frame.schema))}
    columns = {it: _of_living(node) for it, node in columns.items()}
    if mode is ChangeMode.UPSERT:
        if not all(part in called for part in key):
            return calculated(frame._as_retract(), name, condition, named)
        kept = tuple(called[part] for part in key)
        step = _upserted(condition, columns, key)
    else:
        kept, step = (), (condition, {**columns, CHANGE: Column(CHANGE)})
    factory = partial(CalcOperator, with_change(frame.schema), *step)
    schema = without_change(factory().schema)

    def build(stream: DataStream[Any]) -> DataStream[Any]:
        return stream._add(name, factory, in_columns=True)

    found = frame._changed(build, schema, mode, kept)
    found.has_event_time = frame.has_event_time
    if mode is ChangeMode.UPSERT:
        found._retracting = lambda: calculated(frame._as_retract(), name, condition, named)
    return found


def _repeated(node: Node, schema: pa.Schema) -> str | None:
    """The column whose values a node has, in a type that holds them all; ``None`` if it computes others."""
    if isinstance(node, Column):
        return node.name
    if isinstance(node, Call) and node.function == REQUIRED:
        return _repeated(node.arguments[0], schema)
    if isinstance(node, Cast) and (name := _repeated(node.argument, schema)) is not None:
        given, wanted = schema.field(name).type, node.type
        if pa.types.is_integer(given) and pa.types.is_signed_integer(wanted):
            room = wanted.bit_width - given.bit_width
            return name if room > 0 or (room == 0 and pa.types.is_signed_integer(given)) else None
    return None


def _of_living(node: Node) -> Node:
    """What a row must have is not asked of one that goes: it was asked when the row came, if it did."""
    goes = Call("equal", (Column(CHANGE), Literal(DELETE, pa.int8())))

    def replace(it: Node) -> Node | None:
        if isinstance(it, Call) and it.function == REQUIRED:
            return Case(((goes, it.arguments[0]),), it)
        return None

    return rewritten(node, replace)


def _upserted(
    condition: Node | None, columns: dict[str, Node], key: tuple[str, ...]
) -> tuple[Node | None, dict[str, Node]]:
    """Filter and columns of an upsert: what is decided by the key alone needs no deletion."""
    change = Column(CHANGE)
    if condition is None or set(condition.columns()) <= set(key):
        return condition, {**columns, CHANGE: change}
    replaces = Call("greater_equal", (change, Literal(UPDATE_AFTER, pa.int8())))
    deleted = Cast(Literal(DELETE, pa.int8()), pa.int8())
    passing = Call("or", (condition, replaces))
    return passing, {**columns, CHANGE: Case(((condition, change),), deleted)}


def without_change(schema: pa.Schema) -> pa.Schema:
    """The columns that users see."""
    return schema.remove(schema.get_field_index(CHANGE))


def united(first: DataFrame, others: tuple[DataFrame, ...]) -> list[DataFrame]:
    """The frames of a union, all of which append or all of which take back."""
    frames = [frame._as_retract() for frame in (first, *others)]
    if all(frame.changes is ChangeMode.APPEND for frame in frames):
        return frames
    return [_as_changes(frame) for frame in frames]


def _as_changes(frame: DataFrame) -> DataFrame:
    """A frame that appends, with the column that says so."""
    if frame.changes is not ChangeMode.APPEND:
        return frame
    columns: dict[str, Node] = {it: Column(it) for it in frame.columns}
    inserted = Cast(Literal(0, pa.int8()), pa.int8())
    factory = partial(CalcOperator, frame.schema, None, {**columns, CHANGE: inserted})

    def build(stream: DataStream[Any]) -> DataStream[Any]:
        return stream._add("Changes", factory, in_columns=True)

    found = frame._changed(build, frame.schema, ChangeMode.RETRACT)
    found.has_event_time = frame.has_event_time
    return found


def only_appends(frame: DataFrame, what: str) -> None:
    """Refuse a step that cannot take changes."""
    if frame.changes is not ChangeMode.APPEND:
        raise ConfigError(
            f"{what} takes rows that stay, and rows of this DataFrame change ({frame.changes.value}): "
            "aggregate in windows, as in df.window(Tumble('1 min')), or take the changes as rows, with "
            "to_changelog_stream()"
        )
