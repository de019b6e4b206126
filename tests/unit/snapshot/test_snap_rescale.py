from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snap_fixtures import COUNT, SINK, SOURCE, make_manifest

from penstock.core.errors import ConfigError, SnapshotError
from penstock.core.handles import Blob
from penstock.core.ids import KeyGroup, OperatorId, SubtaskIndex
from penstock.core.keygroups import key_group_range, owner
from penstock.snapshot.state_assignment import assign, match, redistribute, resolve_max_parallelism


def test_snap_key_group_ranges_have_the_known_values() -> None:
    assert [key_group_range(SubtaskIndex(i), 3, 128) for i in range(3)] == [(0, 42), (43, 85), (86, 127)]
    assert key_group_range(SubtaskIndex(0), 1, 128) == (0, 127)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.integers(0, 200))
def test_snap_ranges_cover_everything_once(parallelism: int, more: int) -> None:
    maximum = parallelism + more
    seen = []
    for index in range(parallelism):
        first, last = key_group_range(SubtaskIndex(index), parallelism, maximum)
        assert first <= last
        for group in range(first, last + 1):
            assert owner(KeyGroup(group), parallelism, maximum) == index
            seen.append(group)
    assert seen == list(range(maximum))


def test_snap_keyed_handles_go_where_they_overlap() -> None:
    manifest = make_manifest(1, 1, (Blob.of(b"low"), Blob.of(b"high")))
    assigned = assign(manifest, COUNT, 3, 128)
    assert [[h.blob.inline for h in a.keyed] for a in assigned] == [[b"low"], [b"low", b"high"], [b"high"]]
    assert [blob.inline for blob in assigned[2].lists] == [b"lists-0", b"lists-1"]
    assert not assigned[0].finished
    assert assign(manifest, OperatorId("new"), 2, 128)[1].keyed == ()
    with pytest.raises(SnapshotError, match="128 key groups"):
        assign(manifest, COUNT, 3, 256)


def test_snap_pickled_keys_of_an_older_format_may_be_anybodys() -> None:
    manifest = make_manifest(1, 1, (Blob.of(b"low"), Blob.of(b"high")))
    entry = manifest.operators[0]
    low = entry.subtasks[0]
    pickled = replace(low.state, keyed=(replace(low.state.keyed[0], pickled=True),))
    subtasks = (replace(low, state=pickled), *entry.subtasks[1:])
    today = replace(manifest, operators=(replace(entry, subtasks=subtasks),))
    assert [len(a.keyed) for a in assign(today, COUNT, 3, 128)] == [1, 2, 1]
    older = replace(today, format_version=2)
    assert [len(a.keyed) for a in assign(older, COUNT, 3, 128)] == [1, 2, 2]


def test_snap_finished_operators_are_recognised() -> None:
    manifest = make_manifest(1)
    entry = manifest.operators[0]
    subtasks = tuple(replace(subtask, finished=True) for subtask in entry.subtasks)
    done = replace(manifest, operators=(replace(entry, subtasks=subtasks),))
    assert assign(done, COUNT, 1, 128)[0].finished
    half = replace(manifest, operators=(replace(entry, subtasks=subtasks[:1]),))
    assert not assign(half, COUNT, 1, 128)[0].finished
    assert assign(half, COUNT, 1, 128)[0].lists[1] is None


def test_snap_split_lists_are_dealt_evenly_and_in_order() -> None:
    old = [{"a": ("split", [1, 2, 3]), "b": ("split", ["x"])}, {"a": ("split", [4, 5])}]
    dealt = redistribute(old, 3)
    assert [share.get("a", ("", ()))[1] for share in dealt] == [(1, 2), (3, 4), (5,)]
    assert [share.get("b", ("", ()))[1] for share in dealt] == [(), (), ("x",)]
    assert dealt[0]["a"] == ("split", (1, 2))


def test_snap_split_lists_go_back_when_parallelism_is_unchanged() -> None:
    old = [{"a": ("split", [1, 2, 3])}, {}, {"a": ("split", [4])}]
    assert redistribute(old, 3) == [{"a": ("split", (1, 2, 3))}, {}, {"a": ("split", (4,))}]


def test_snap_union_lists_go_to_everybody() -> None:
    old = [{"u": ("union", [1])}, {"u": ("union", [2])}]
    assert redistribute(old, 2) == [{"u": ("union", (1, 2))}] * 2
    assert redistribute(old, 3) == [{"u": ("union", (1, 2))}] * 3


def test_snap_broadcast_copies_are_taken_in_turn() -> None:
    old = [{"b": ("broadcast", [("k", i)])} for i in range(2)]
    assert [share["b"][1][0][1] for share in redistribute(old, 5)] == [0, 1, 0, 1, 0]
    assert redistribute([{}, old[1]], 2)[0]["b"][1] == (("k", 1),)


def test_snap_modes_must_agree() -> None:
    with pytest.raises(SnapshotError, match="'a'"):
        redistribute([{"a": ("split", [1])}, {"a": ("union", [2])}], 2)
    with pytest.raises(SnapshotError, match="'shuffle'"):
        redistribute([{"a": ("shuffle", [1])}], 2)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(), max_size=6), min_size=1, max_size=6), st.integers(1, 8))
def test_snap_nothing_is_lost_or_doubled(held: list[list[int]], parallelism: int) -> None:
    old = [{"s": ("split", items), "t": ("split", items)} for items in held]
    dealt = redistribute(old, parallelism)
    everything = sorted(item for items in held for item in items)
    for name in ("s", "t"):
        shares = [share[name][1] for share in dealt if name in share]
        assert sorted(item for share in shares for item in share) == everything
        if parallelism != len(held):
            sizes = [len(share.get(name, ("", ()))[1]) for share in dealt]
            assert max(sizes) - min(sizes) <= 1


def test_snap_max_parallelism_is_fixed_by_the_first_snapshot() -> None:
    def resolve(stored: int | None, planned: int, explicit: bool, parallelism: int = 4) -> int:
        return resolve_max_parallelism(
            "Count", stored=stored, planned=planned, explicit=explicit, parallelism=parallelism
        )

    assert resolve(None, 128, False) == 128
    assert resolve(256, 128, False) == 256
    assert resolve(256, 256, True) == 256
    with pytest.raises(ConfigError, match="Count: max parallelism 128 .*256"):
        resolve(256, 128, True)
    with pytest.raises(ConfigError, match="parallelism 200 is above max parallelism 128.*for ever"):
        resolve(128, 256, False, 200)
    with pytest.raises(ConfigError, match="parallelism 200 is above"):
        resolve(None, 128, True, 200)


def test_snap_operators_are_matched_by_id() -> None:
    manifest = make_manifest(1)
    names = {COUNT: "Count", SINK: "Sink", SOURCE: "Source", OperatorId("new"): "Map"}
    matched = match(manifest, names)
    assert matched.restored == {COUNT: manifest.operators[0]}
    assert matched.dropped == ()
    assert OperatorId("new") in matched.fresh


def test_snap_state_nobody_takes_is_an_error() -> None:
    manifest = make_manifest(1)
    with pytest.raises(SnapshotError, match=r"'Count' \(uid 'count', id op-count\)") as caught:
        match(manifest, {OperatorId("other"): "Counter"})
    text = str(caught.value)
    assert "op-sink" in text and "op-source" in text
    assert "Counter" in text and "--allow-non-restored-state" in text
    allowed = match(manifest, {OperatorId("other"): "Counter"}, allow_non_restored=True)
    assert allowed.restored == {} and len(allowed.dropped) == 3


def test_snap_stateless_operators_need_no_match() -> None:
    manifest = make_manifest(1)
    empty = replace(manifest.operators[0], subtasks=())
    bare = replace(manifest, operators=(empty,), enumerators={}, committables=())
    assert match(bare, {}).dropped == ()
