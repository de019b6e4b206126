"""State over changes of the program: what is migrated, what is refused, and what nobody asks for."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigError, CorruptSnapshotError, SnapshotError
from penstock.core.ids import SubtaskIndex
from penstock.core.keygroups import key_group_range
from penstock.core.row import Row
from penstock.core.typeinfo import TypeInformation, Types
from penstock.state.backend import EntryShape
from penstock.state.chunks import ChunkStore
from penstock.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.state.files import StateBlocks, write_blocks
from penstock.state.heap.backend import HeapTable, heap_state
from penstock.state.keyed import KeyedState

GROUPS = 16
USER = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def written(keyed: KeyedState) -> bytes:
    frozen = keyed.freeze()
    data = b"".join(block for block, _ in write_blocks(frozen, GROUPS))
    for part in frozen:
        part.release()
    return data


def restored(*files: bytes, first: int = 0, last: int = GROUPS - 1) -> KeyedState:
    keyed = heap_state()
    for data in files:
        keyed.restore(StateBlocks(data, first, last))
    return keyed


def stored(descriptor: StateDescriptor, **content: Any) -> bytes:
    """A state file with ``content``, raw, under a descriptor."""
    keyed = heap_state()
    keyed.handle(descriptor)
    table = keyed.table(descriptor.get_name())
    for key, value in content.items():
        table.put(key, value)
    return written(keyed)


def content(keyed: KeyedState, name: str = "s") -> dict[Any, Any]:
    table = keyed.table(name)
    return {entry: table.peek(entry) for entry in table.entries()}


def evolved(old: StateDescriptor, new: StateDescriptor, **values: Any) -> dict[Any, Any]:
    keyed = restored(stored(old, **values))
    keyed.handle(new)
    return content(keyed)


def value(kind: Any = None) -> ValueStateDescriptor:
    return ValueStateDescriptor("s", kind)


# --- what is migrated ------------------------------------------------------------------------------


def test_fields_are_added_removed_reordered_and_widened() -> None:
    new = Types.ROW_NAMED(
        ["country", "age", "tags"], [Types.STRING(), Types.DOUBLE(), Types.LIST(Types.STRING())]
    )
    found = evolved(
        value(USER), value(new).with_defaults(tags=[]), a=Row(name="ann", age=3), b=Row(name="bob", age=None)
    )
    assert found == {"a": Row(country=None, age=3.0, tags=[]), "b": Row(country=None, age=None, tags=[])}
    assert type(found["a"].age) is float
    assert found["a"].tags is not found["b"].tags


def test_nested_rows_in_lists_maps_and_tuples_evolve() -> None:
    more = Types.ROW_NAMED(["name", "age", "new"], [Types.STRING(), Types.LONG(), Types.INT()])
    old_row, new_row = Row(name="a", age=1), Row(name="a", age=1, new=None)
    for wrap, before, after in [
        (lambda t: Types.LIST(t), [old_row, None], [new_row, None]),
        (lambda t: Types.MAP(Types.STRING(), t), {"x": old_row}, {"x": new_row}),
        (lambda t: Types.TUPLE([Types.INT(), t]), (1, old_row), (1, new_row)),
        (lambda t: Types.ROW_NAMED(["in"], [t]), Row(**{"in": old_row}), Row(**{"in": new_row})),
    ]:
        assert evolved(value(wrap(USER)), value(wrap(more)), k=before) == {"k": after}


def test_elements_of_lists_and_values_of_maps_evolve() -> None:
    assert evolved(
        ListStateDescriptor("s", Types.INT()), ListStateDescriptor("s", Types.DOUBLE()), k=[1, 2]
    ) == {"k": [1.0, 2.0]}
    assert evolved(
        MapStateDescriptor("s", Types.STRING(), Types.INT()),
        MapStateDescriptor("s", Types.STRING(), Types.DOUBLE()),
        k={"a": 1},
    ) == {"k": {"a": 1.0}}
    assert evolved(
        ReducingStateDescriptor("s", max, Types.SHORT()), ReducingStateDescriptor("s", max, Types.LONG()), k=1
    ) == {"k": 1}


NUMBERS = ["BYTE", "SHORT", "INT", "LONG", "BIG_INT", "FLOAT", "DOUBLE"]
WIDENINGS = {
    *((a, b) for n, a in enumerate(NUMBERS[:5]) for b in NUMBERS[n + 1 : 5]),
    *((a, b) for a in NUMBERS[:3] for b in NUMBERS[5:]),
    ("FLOAT", "DOUBLE"),
}


@pytest.mark.parametrize("old", NUMBERS)
@pytest.mark.parametrize("new", NUMBERS)
def test_numbers_widen_and_never_narrow(old: str, new: str) -> None:
    before = 1.5 if old in ("FLOAT", "DOUBLE") else 7
    old_type, new_type = getattr(Types, old)(), getattr(Types, new)()
    if old == new or (old, new) in WIDENINGS:
        (after,) = evolved(value(old_type), value(new_type), k=before).values()
        assert after == before and type(after) is (float if new in ("FLOAT", "DOUBLE") else int)
    else:
        with pytest.raises(SnapshotError, match=f"{old} cannot become {new}"):
            evolved(value(old_type), value(new_type), k=before)


def test_values_that_did_not_fit_their_type_evolve_all_the_same() -> None:
    big = Row(name="big", age=2**90)
    new = Types.ROW_NAMED(["name", "age", "x"], [Types.STRING(), Types.BIG_INT(), Types.INT()])
    assert evolved(value(USER), value(new), k=big) == {"k": Row(name="big", age=2**90, x=None)}
    with pytest.raises(SnapshotError, match="no Row of 2 fields"):
        evolved(value(USER), value(new), k="odd")


def test_versions_are_climbed_step_by_step() -> None:
    def named(old: str) -> Row:
        return Row(name=old)

    def aged(old: Row) -> Row:
        return Row(name=old.name, age=0)

    declared = value(USER).with_version(3, migrate={1: named, 2: aged})
    assert evolved(value(Types.STRING()), declared, k="ann") == {"k": Row(name="ann", age=0)}
    second = value(Types.ROW_NAMED(["name"], [Types.STRING()])).with_version(2)
    assert evolved(second, declared, k=Row(name="bob")) == {"k": Row(name="bob", age=0)}
    assert evolved(declared, declared, k=Row(name="cid", age=9)) == {"k": Row(name="cid", age=9)}


def test_migrations_see_elements_and_map_values() -> None:
    def double(old: int) -> int:
        return 2 * old

    items = ListStateDescriptor("s").with_version(2, {1: double})
    assert evolved(ListStateDescriptor("s"), items, k=[1, 2]) == {"k": [2, 4]}
    mapped = MapStateDescriptor("s").with_version(2, {1: double})
    assert evolved(MapStateDescriptor("s"), mapped, k={"a": 1}) == {"k": {"a": 2}}


def test_untyped_state_can_take_on_a_type_that_fits_and_lose_one() -> None:
    assert evolved(value(), value(USER), a=Row(name="x", age=1)) == {"a": Row(name="x", age=1)}
    assert evolved(value(USER), value(), a=Row(name="x", age=1)) == {"a": Row(name="x", age=1)}
    assert evolved(ListStateDescriptor("s"), ListStateDescriptor("s", Types.LONG()), a=[1]) == {"a": [1]}
    with pytest.raises(SnapshotError, match="not all stored values.*\n.*pickled: it cannot evolve"):
        evolved(value(), value(USER), a=Row(name="x", age=1), b=5)


def test_the_new_form_is_what_the_next_snapshot_says() -> None:
    keyed = restored(stored(value(Types.INT()), k=1))
    keyed.handle(value(Types.LONG()))
    (block,) = StateBlocks(written(keyed), 0, GROUPS - 1).tables()
    assert block.schema is not None and block.schema.type == Types.LONG()


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=3), st.tuples(st.text(st.characters(codec="utf-8")), st.integers(0, 99))
    ),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_migration_and_rescaling_together(users: dict[str, tuple[str, int]], before: int, after: int) -> None:
    raw = stored(value(USER), **{key: Row(name=name, age=age) for key, (name, age) in users.items()})
    files = [written(restored(raw, first=f, last=t)) for f, t in _ranges(before)]
    found: dict[str, Any] = {}
    for first, last in _ranges(after):
        keyed = restored(*files, first=first, last=last)
        keyed.handle(value(Types.ROW_NAMED(["age", "x"], [Types.LONG(), Types.INT()])).with_defaults(x=1))
        part = content(keyed)
        assert not found.keys() & part.keys()
        found.update(part)
    assert found == {key: Row(age=age, x=1) for key, (_, age) in users.items()}


def _ranges(parallelism: int) -> list[tuple[int, int]]:
    return [key_group_range(SubtaskIndex(n), parallelism, GROUPS) for n in range(parallelism)]


# --- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (Types.STRING(), Types.LONG()),
        (Types.LONG(), Types.DOUBLE()),
        (USER, Types.TUPLE([Types.STRING(), Types.INT()])),
        (Types.TUPLE([Types.INT()]), Types.TUPLE([Types.INT(), Types.INT()])),
        (Types.LIST(Types.STRING()), Types.LIST(Types.INT())),
        (Types.MAP(Types.INT(), Types.INT()), Types.MAP(Types.LONG(), Types.INT())),
        (Types.SQL_DATE(), Types.SQL_TIMESTAMP()),
    ],
)
def test_other_changes_are_refused(old: TypeInformation, new: TypeInformation) -> None:
    with pytest.raises(SnapshotError, match="cannot become"):
        evolved(value(old), value(new), k=None)


def test_the_refusal_spells_both_types_out() -> None:
    new = Types.ROW_NAMED(["name", "age", "at"], [Types.STRING(), Types.STRING(), USER])
    with pytest.raises(SnapshotError) as caught:
        evolved(value(USER), value(new), k=Row(name="ann", age=1))
    assert str(caught.value).splitlines() == [
        "state 's' in the snapshot does not fit its declaration",
        "  stored: value, version 1, ROW",
        "    name: STRING",
        "    age: INT",
        "  declared: value, version 1, ROW",
        "    name: STRING",
        "    age: STRING",
        "    at: ROW",
        "      name: STRING",
        "      age: INT",
        "  field age: INT cannot become STRING",
        "Say how old values become new ones, descriptor.with_version(2, migrate={1: function}), or give the "
        "state another name to start it empty",
    ]


def test_kinds_and_map_keys_do_not_change() -> None:
    with pytest.raises(SnapshotError, match="value state cannot become list state"):
        evolved(value(), ListStateDescriptor("s"), k=1)
    with pytest.raises(SnapshotError, match="a map's keys cannot change"):
        evolved(
            MapStateDescriptor("s", Types.INT(), Types.INT()),
            MapStateDescriptor("s", Types.LONG(), Types.INT()),
            k={1: 1},
        )


def test_gaps_and_downgrades_of_versions_are_refused() -> None:
    with pytest.raises(SnapshotError, match="no function is registered for version 2 to 3"):
        evolved(value(), value().with_version(3, {1: str}), k=1)
    with pytest.raises(SnapshotError, match="version 3, newer than the program's version 1"):
        evolved(value().with_version(3), value(), k=1)
    with pytest.raises(ConfigError, match="count from 1"):
        value().with_version(0)


def test_defaults_must_name_fields() -> None:
    with pytest.raises(ConfigError, match="default for 'nam'.*name, age"):
        heap_state().handle(value(USER).with_defaults(nam="x"))


def test_a_class_that_is_gone_is_named() -> None:
    data = stored(value(), k=Row(a=1))
    gone = data.replace(b"penstock.core.row", b"penstock.core.raw")
    with pytest.raises(SnapshotError, match=r"state 's' is stored pickled.*penstock\.core\.raw"):
        restored(gone)
    assert pickle.dumps(Row(a=1)).count(b"penstock.core.row") == 1


@pytest.mark.parametrize(
    "description", ["5", '{"kind":"odd"}', '{"kind":"value","type":"LONG"}', '{"kind":"value","type":{}}']
)
def test_descriptions_that_make_no_sense_are_refused(description: str) -> None:
    table = HeapTable("t")
    table.put(1, 1)
    ((block, _),) = write_blocks([table.freeze()], GROUPS)
    length = int.from_bytes(block[:4], "little")
    header = block[4 : 4 + length].replace(b'"rows"', b'"state":' + description.encode() + b',"rows"')
    with pytest.raises(CorruptSnapshotError):
        restored(len(header).to_bytes(4, "little") + header + block[4 + length :])


# --- older blocks, and state that nobody asks for ---------------------------------------------------


def test_blocks_without_description_are_taken_as_declared() -> None:
    table = HeapTable("s")
    table.put("k", 1)
    data = b"".join(block for block, _ in write_blocks([table.freeze()], GROUPS))
    for descriptor, expected in [
        (value(), 1),
        (value(Types.LONG()), 1),
        (value().with_version(2, {1: str}), "1"),
    ]:
        keyed = restored(data)
        keyed.handle(descriptor)
        assert content(keyed) == {"k": expected}


def test_state_nobody_asks_for_goes_on_as_it_came() -> None:
    first = stored(value(USER).with_version(2), k=Row(name="ann", age=1))
    second = written(restored(first))
    assert second == first
    third = restored(second)
    third.handle(ValueStateDescriptor("other"))
    assert written(third) == first


def test_columnar_state_nobody_registers_goes_on_as_it_came() -> None:
    def store() -> ChunkStore:
        return ChunkStore("c", ["k"], ["k", "n"], lambda tables: pa.concat_tables(tables), GROUPS)

    keyed, chunks = heap_state(), store()
    keyed.register_chunks("c", chunks)
    chunks.append(0, chunks.conform(pa.table({"k": ["a", "b"], "n": [1, 2]})))
    first = written(keyed)
    second = written(restored(first))
    assert second == first
    again, chunks = restored(second), store()
    again.register_chunks("c", chunks)
    assert [chunk.table.num_rows for chunk in chunks.chunks(0)] == [2]
    assert len(again.freeze()) == 1


def test_a_snapshot_taken_in_the_middle_of_a_migration_is_whole() -> None:
    """Some subtasks have asked for the state and migrated it, others have not yet."""
    old, new = value(USER), value(Types.ROW_NAMED(["name"], [Types.STRING()]))
    users = {f"u{n}": Row(name=f"u{n}", age=n) for n in range(40)}
    raw = stored(old, **users)
    left, right = restored(raw, last=7), restored(raw, first=8)
    right.handle(new)
    mixed = restored(written(left), written(right))
    again = restored(written(mixed))
    again.handle(new)
    assert content(again) == {key: Row(name=key) for key in users}
    (block,) = StateBlocks(written(again), 0, GROUPS - 1).tables()
    assert len(block.entries) == 40


def test_namespaced_state_evolves_too() -> None:
    keyed = heap_state()
    keyed.handle(value(Types.INT()), namespaced=True)
    keyed.scope.key, keyed.scope.namespace = "k", "w"
    keyed.handle(value(Types.INT()), namespaced=True).update(1)
    again = restored(written(keyed))
    again.handle(value(Types.DOUBLE()), namespaced=True)
    assert again.table("s", EntryShape.NAMESPACED).peek(("k", "w")) == 1.0
