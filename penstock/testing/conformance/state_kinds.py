"""What the five kinds of state promise, whatever keeps them: part of the state suite."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from pathlib import Path
from typing import Any

from penstock.core.errors import ConfigError
from penstock.core.row import Row
from penstock.state.descriptors import ValueStateDescriptor
from penstock.testing.conformance.state_base import EMPTY, Handles, StateBase, expect, filled

ODD_KEYS: list[Any] = [
    0,
    -1,
    2**63 - 1,
    -(2**63),
    2**70,
    2.5,
    -1e300,
    float("inf"),
    "",
    "a",
    "a\0",
    "grüße",
    "日本",
    "\U0001f41f",
    "\udcff",
    b"",
    b"a",
    b"\x00\xff",
    (),
    (1,),
    (1, "a"),
    ("a", 1),
    (None, "a"),
    ((1, 2), "x"),
    Row("a", 1, 2),
    dt.date(2024, 2, 29),
    dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC),
    decimal.Decimal("1.10"),
    uuid.UUID(int=7),
]
"""Keys that are all different and all allowed."""

NAMESPACES: list[Any] = [None, 0, -5, "w", "", (0, 1000), b"\0"]


class KindTests(StateBase):
    """Values, lists, maps, reductions and aggregates, for each key and namespace apart."""

    def test_nothing_is_there_at_first(self, tmp_path: Path) -> None:
        """Every kind answers for a key it never saw, and clearing that is fine."""
        with self.backends(tmp_path) as new:
            state = new()
            for namespaced in (False, True):
                handles = Handles(state, namespaced).at("never seen")
                assert handles.read() == EMPTY
                assert handles.map.is_empty() and not handles.map.contains("a")
                for handle in handles.all:
                    handle.clear()
                assert handles.read() == EMPTY

    def test_each_key_has_its_own(self, tmp_path: Path) -> None:
        """Keys of all types, some of them alike, hold what was put under them."""
        with self.backends(tmp_path) as new:
            handles = Handles(new())
            for mark, key in enumerate(ODD_KEYS):
                handles.at(key).fill(mark)
            for mark, key in enumerate(ODD_KEYS):
                assert handles.at(key).read() == filled(mark), f"key {key!r}"
            for handle in handles.at(ODD_KEYS[3]).all:
                handle.clear()
            assert handles.read() == EMPTY
            assert handles.at(ODD_KEYS[4]).read() == filled(4)

    def test_each_namespace_has_its_own(self, tmp_path: Path) -> None:
        """Namespaces and keys do not run into each other."""
        with self.backends(tmp_path) as new:
            handles = Handles(new(), namespaced=True)
            pairs = [(key, namespace) for key in ODD_KEYS[:12] for namespace in NAMESPACES]
            for mark, (key, namespace) in enumerate(pairs):
                handles.at(key, namespace).fill(mark)
            for mark, (key, namespace) in enumerate(pairs):
                assert handles.at(key, namespace).read() == filled(mark), f"{key!r} in {namespace!r}"

    def test_keys_are_compared_as_python_does(self, tmp_path: Path) -> None:
        """``1``, ``1.0`` and ``True`` are one key, as are zeros of both signs: they share a key group."""
        with self.backends(tmp_path) as new:
            handles = Handles(new())
            for stored, asked in [(1, 1.0), (2.0, 2), (True, 1), (0.0, -0.0), ((3, "x"), (3.0, "x"))]:
                handles.at(stored).fill("mine")
                assert handles.at(asked).read() == filled("mine"), f"{stored!r} and {asked!r}"
                for handle in handles.all:
                    handle.clear()
                assert handles.at(stored).read() == EMPTY

    def test_none_is_no_value(self, tmp_path: Path) -> None:
        """Setting a value to ``None`` clears it, a list does not take ``None``, a map does as a value."""
        with self.backends(tmp_path) as new:
            handles = Handles(new()).at("k")
            handles.fill(1)
            handles.value.update(None)
            assert handles.value.value() is None
            expect(ValueError, lambda: handles.list.add(None))
            handles.map.put("none", None)
            assert handles.map.contains("none") and handles.map.get("none") is None
            assert dict(handles.map.items())["none"] is None

    def test_falsy_values_are_values(self, tmp_path: Path) -> None:
        """Zero, the empty string and the empty list are kept."""
        with self.backends(tmp_path) as new:
            handles = Handles(new()).at("k")
            falsy: list[Any] = [0, 0.0, False, "", b"", [], {}, ()]
            for value in falsy:
                handles.value.update(value)
                found = handles.value.value()
                assert found == value and type(found) is type(value)

    def test_empty_is_absent(self, tmp_path: Path) -> None:
        """A list or map without elements leaves nothing behind, so keys do not pile up."""
        with self.backends(tmp_path) as new:
            state = new()
            handles = Handles(state).at("k")
            handles.list.update([1])
            handles.list.update([])
            handles.map.put("a", 1)
            handles.map.remove("a")
            handles.map.remove("a")
            assert handles.read() == EMPTY and handles.map.is_empty()
            assert len(state.table("list")) == 0 and len(state.table("map")) == 0

    def test_lists_keep_their_order(self, tmp_path: Path) -> None:
        """Elements come in the order in which they were added; ``update`` replaces all."""
        with self.backends(tmp_path) as new:
            kept = Handles(new()).at("k").list
            kept.add(3)
            kept.add_all([1, 2])
            kept.add(1)
            assert list(kept.get()) == [3, 1, 2, 1] == list(kept)
            kept.update(iter([9, 8]))
            assert list(kept.get()) == [9, 8]

    def test_maps(self, tmp_path: Path) -> None:
        """All ways to write and read a map; what is iterated is not disturbed by changes meanwhile."""
        with self.backends(tmp_path) as new:
            kept = Handles(new()).at("k").map
            kept.put_all({1: "a", "1": "b", (1, 2): "c", None: "d"})
            kept[b"1"] = "e"
            wanted = {1: "a", "1": "b", (1, 2): "c", None: "d", b"1": "e"}
            assert dict(kept.items()) == wanted
            assert set(kept.keys()) == set(wanted) and sorted(kept.values()) == list("abcde")
            for key in list(kept.keys()):
                kept.put((key, "seen"), True)
                del kept[key]
            assert set(kept.keys()) == {(key, "seen") for key in wanted}
            assert kept[(1, "seen")] and kept[1] is None and not kept.contains(1)

    def test_reductions_and_aggregates(self, tmp_path: Path) -> None:
        """The first value is the reduction of one; an accumulator may be changed in place."""
        with self.backends(tmp_path) as new:
            handles = Handles(new()).at("k")
            for part in ("a", "b", "c"):
                handles.reducing.add(part)
                handles.aggregating.add(part)
            assert handles.reducing.get() == "abc" and handles.aggregating.get() == ("a", "b", "c")

    def test_one_handle_serves_all_keys_and_names_are_shared(self, tmp_path: Path) -> None:
        """Two handles of one name are the same state."""
        with self.backends(tmp_path) as new:
            state = new()
            first, second = (state.handle(ValueStateDescriptor("same")) for _ in range(2))
            for key in ("a", "b"):
                state.scope.key = key
                first.update(key)
            state.scope.key = "a"
            assert second.value() == "a"
            assert state.handle(ValueStateDescriptor("other")).value() is None
            expect(ConfigError, lambda: state.handle(ValueStateDescriptor("same"), namespaced=True))

    def test_namespaces_merge(self, tmp_path: Path) -> None:
        """Contents move to the target, in the order of the sources; missing ones do not matter."""
        with self.backends(tmp_path) as new:
            handles = Handles(new(), namespaced=True)
            for target_exists in (False, True):
                key = f"key-{target_exists}"
                for namespace in ("a", "b") + (("t",) if target_exists else ()):
                    handles.at(key, namespace).list.add(namespace)
                    handles.reducing.add(namespace)
                    handles.aggregating.add(namespace)
                for handle in (handles.list, handles.reducing, handles.aggregating):
                    handle.merge_namespaces("t", ["a", "nothing", "b"])
                wanted = (["t"] if target_exists else []) + ["a", "b"]
                handles.at(key, "t")
                assert list(handles.list.get()) == wanted
                assert handles.reducing.get() == "".join(wanted)
                assert handles.aggregating.get() == tuple(wanted)
                assert handles.at(key, "a").read() == EMPTY == handles.at(key, "b").read()

    def test_big_values(self, tmp_path: Path) -> None:
        """A megabyte of text, and a map and a list of thousands, come back as they were."""
        with self.backends(tmp_path) as new:
            handles = Handles(new()).at("k")
            text, rows = "ä" * 500_000, [(n, "x" * 10) for n in range(5000)]
            handles.value.update(text)
            handles.list.update(rows)
            handles.map.put_all(dict(rows))
            assert handles.value.value() == text
            assert list(handles.list.get()) == rows and dict(handles.map.items()) == dict(rows)
