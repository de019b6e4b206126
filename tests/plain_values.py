"""Plain values of all kinds, and what it takes for two of them to be the same."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import strategies as st

from penstock.core.row import Row, RowKind


def _row(names: list[str] | None, values: list[Any], kind: RowKind) -> Row:
    row = Row(*values)
    if names is not None:
        row.set_field_names(names[: len(values)])
    row.set_row_kind(kind)
    return row


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_OFFSETS = (dt.timezone(dt.timedelta(hours=2)), dt.timezone(dt.timedelta(0), "Z"))
_ZONES = st.sampled_from([None, dt.UTC, *_OFFSETS])
_HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**80), 2**80),
    st.floats(allow_nan=False),
    _TEXT,
    st.binary(max_size=6),
    st.decimals(allow_nan=False),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.datetimes(timezones=_ZONES),
    st.uuids(),
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    rows = st.builds(
        _row,
        st.none() | st.lists(_TEXT, min_size=4, max_size=4),
        st.lists(inner, max_size=4),
        st.sampled_from(RowKind),
    )
    return st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(_HASHABLE, inner, max_size=4),
        st.sets(_HASHABLE, max_size=4),
        st.frozensets(_HASHABLE, max_size=4),
        rows,
    )


VALUES = st.recursive(st.one_of(_HASHABLE, st.binary(max_size=6).map(bytearray)), _containers, max_leaves=20)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in all their parts, and of the same types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one), list(other)) and same(list(one.values()), list(other.values()))
    if isinstance(one, (set, frozenset)):
        return len(one) == len(other) and all(any(same(a, b) for b in other) for a in one)
    if isinstance(one, Row):
        shapes = [(row.field_names(), row.get_row_kind()) for row in (one, other)]
        return shapes[0] == shapes[1] and same(list(one), list(other))
    if isinstance(one, (dt.datetime, dt.time)):
        return one == other and one.fold == other.fold and one.tzinfo == other.tzinfo
    return str(one) == str(other) if one != one else bool(one == other)
