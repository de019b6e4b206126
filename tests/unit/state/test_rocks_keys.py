"""Row keys: equal for equal entries, different for others, readable, and in order of time for timers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.state.backend import EntryShape
from penstock.state.rocks import keys, values

plain = st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.booleans())
parts: st.SearchStrategy[Any] = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6
)


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Place:
    name: str
    number: float


@given(parts, parts)
@settings(max_examples=200)
def test_bytes_are_equal_when_python_says_so(a: Any, b: Any) -> None:
    assert (keys.encode(a) == keys.encode(b)) == (a == b)


@given(parts, parts)
@settings(max_examples=200)
def test_entries_can_be_read_back(key: Any, namespace: Any) -> None:
    row = b"\0\1\0\2" + keys.encode(key) + keys.encode(namespace)
    found = keys.decode_entry(EntryShape.NAMESPACED, row)
    assert found == (key, namespace)
    if keys.is_exact(key):
        assert repr(found[0]) == repr(key)


def test_what_bytes_do_not_tell_is_said() -> None:
    for value in (True, 2.0, Point(1, 2), Place("a", 1), (1, 2.0)):
        assert not keys.is_exact(value)
    assert keys.encode(Point(1, 2)) == keys.encode((1, 2))
    assert keys.encode(Place("a", 1)) == keys.encode(Place("a", 1.0)) != keys.encode(Place("b", 1))


def test_objects_without_a_form_of_their_own() -> None:
    """Two equal ones have the same bytes, whichever of their parts are one object."""
    name = "name"
    one, two = frozenset({(name, name)}), frozenset({("".join(["na", "me"]), name)})
    assert one == two and keys.encode(one) == keys.encode(two)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_times_are_in_order(a: int, b: int) -> None:
    assert (keys.timer_bytes(a) < keys.timer_bytes(b)) == (a < b)


@given(st.one_of(plain, st.lists(plain), st.dictionaries(st.text(), plain)), parts)
def test_values_come_back(value: Any, entry: Any) -> None:
    raw = values.encode(value)
    assert repr(values.decode(raw)) == repr(value)
    row = values.with_entry(entry, raw)
    carried, rest = values.split_entry(row)
    assert carried is not None and values.entry_of(carried) == entry
    assert rest == raw and repr(values.decode(row)) == repr(value)
