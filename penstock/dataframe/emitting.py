"""Where rows of a frame leave it: as changes, or as the table that is left of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.core.changes import CHANGE, ChangeMode
from penstock.core.errors import ConfigError
from penstock.core.row import RowKind
from penstock.dataframe.collecting import applied
from penstock.operators.changes.changelog import KINDS, ChangelogOperator

if TYPE_CHECKING:
    from penstock.connectors.sink import Sink
    from penstock.dataframe.frame import DataFrame
    from penstock.datastream import DataStream, DataStreamSink
    from penstock.datastream import StreamExecutionEnvironment as Env


def changelog(frame: DataFrame, env: Env | None, upsert: bool) -> DataStream[Any]:
    """The changes as rows with kinds."""
    if upsert and frame.changes is not ChangeMode.UPSERT:
        raise ConfigError(
            f"rows of this DataFrame are not replaced by a key ({frame.changes.value}): leave upsert out, or "
            "group_by, drop_duplicates(keep='last') or top_n first"
        )
    chosen = frame if upsert else frame._as_retract()
    return chosen._stream(env)._add("Changelog", ChangelogOperator)


def sunk(frame: DataFrame, sink: Sink, env: Env | None) -> DataStreamSink:
    """The frame into a sink that can take its changes; refused if it cannot."""
    check_sink(frame, sink)
    if frame.changes is ChangeMode.APPEND:
        return frame._stream(env).sink_to(sink)
    return changelog(frame, env, not sink.takes_changes).sink_to(sink)


def check_sink(frame: DataFrame, sink: Sink) -> None:
    """Refuse a sink that cannot take the changes of a frame."""
    if frame.changes is ChangeMode.APPEND or sink.takes_changes:
        return
    name, key = type(sink).__name__, sink.upsert_key
    if not key:
        raise ConfigError(
            f"{name} adds rows only, and rows of this DataFrame change ({frame.changes.value}): write to a "
            "sink that replaces rows by a key (DatabaseSink with set_key_columns), aggregate in windows, or "
            "write the changes themselves, with to_changelog_stream()"
        )
    if frame.changes is not ChangeMode.UPSERT or set(frame.key) != set(key):
        own = f"by {', '.join(frame.key)}" if frame.key else "by no key"
        raise ConfigError(
            f"{name} replaces rows by {', '.join(key)}, and rows of this DataFrame change {own}: give both "
            "the same key, as with group_by or drop_duplicates(..., keep='last') by these columns"
        )


def applied_rows(frame: DataFrame, rows: Iterable[Any]) -> list[dict[str, Any]]:
    """The rows that are left when all changes are made."""
    if frame.changes is ChangeMode.APPEND:
        return [row.as_dict() for row in rows]
    key = frame.key if frame.changes is ChangeMode.UPSERT else None
    return applied((row.as_dict() for row in rows), key)


def rows_of(frame: DataFrame, with_kind: bool) -> Iterator[Any]:
    """Rows as dicts, as they come; or pairs of kind and row."""
    if not with_kind and frame.changes is not ChangeMode.APPEND:
        raise ConfigError(
            "rows of this DataFrame change: iter_rows(include_row_kind=True) says how, to_pylist() gives "
            "what is left in the end"
        )
    chosen = frame._as_retract() if with_kind else frame

    def all_rows() -> Iterator[Any]:
        with chosen._stream().execute_and_collect() as rows:
            for row in rows:
                record = row.as_dict()
                kind = KINDS[record.pop(CHANGE)] if CHANGE in record else RowKind.INSERT
                yield (kind, record) if with_kind else record

    return all_rows()
