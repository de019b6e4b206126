from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snap_fixtures import COUNT, make_manifest

from penstock.core.errors import CorruptSnapshotError, FormatVersionError, PenstockError
from penstock.core.handles import Blob, KeyedHandle, SubtaskSnapshot, digest
from penstock.core.ids import Subtask, SubtaskIndex, VertexId
from penstock.core.signals import SnapshotKind
from penstock.snapshot.decode import from_json
from penstock.snapshot.manifest import FORMAT_VERSION, Manifest, sign

STORED = Blob(10, digest(b"0123456789"), "chk-7/v1-0-1.state", 4)
FULL = make_manifest(7, 3, (STORED, Blob.of(b"inline")))


def test_snap_handles_are_frozen_and_travel() -> None:
    snapshot = SubtaskSnapshot(
        Subtask(VertexId("v"), SubtaskIndex(0)), (FULL.operators[0].subtasks[0].state,), True
    )
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot
    with pytest.raises(FrozenInstanceError):
        snapshot.finished = False  # type: ignore[misc]
    with pytest.raises(ValueError, match="either inline or a range"):
        Blob(1, "x")
    with pytest.raises(ValueError, match="either inline or a range"):
        Blob(1, "x", "path", 0, b"y")
    handle = KeyedHandle(STORED, (10, 20), False)
    assert handle.overlaps(0, 10) and handle.overlaps(20, 30) and handle.overlaps(12, 13)
    assert not handle.overlaps(0, 9) and not handle.overlaps(21, 30)


def test_snap_manifest_survives_the_round_trip() -> None:
    raw = FULL.to_json()
    assert from_json(raw) == FULL
    assert from_json(raw).to_json() == raw
    savepoint = replace(FULL, kind=SnapshotKind.SAVEPOINT, spark_version=None, job_name="Zählung \U0001f30a")
    assert from_json(savepoint.to_json()) == savepoint


def test_snap_manifest_knows_the_kinds_of_keys() -> None:
    kinds = ("number", ("tuple", "str", ("Row", "number", "None")))
    (count,) = FULL.operators
    known = replace(FULL, operators=(replace(count, key_kinds=kinds),))
    assert from_json(known.to_json()) == known
    older = replace(known, format_version=3)
    assert b"key_kinds" not in older.to_json(), "a reader of version 3 refuses what it does not know"
    assert from_json(older.to_json()) == replace(FULL, format_version=3)


@pytest.mark.parametrize("kinds", [1, "str", [1], [[]], [["tuple", [None]]], [None]])
def test_snap_kinds_of_keys_are_words(kinds: Any) -> None:
    document = json.loads(FULL.to_json())
    document["operators"][0]["key_kinds"] = kinds
    with pytest.raises(CorruptSnapshotError, match="key_kinds"):
        from_json(sign(document))


def test_snap_manifest_bytes_are_canonical() -> None:
    raw = FULL.to_json()
    assert raw == json.dumps(json.loads(raw), sort_keys=True, separators=(",", ":")).encode()
    swapped = replace(FULL, enumerators=dict(reversed([*FULL.enumerators.items(), ("x", Blob.of(b""))])))
    plain = replace(FULL, enumerators={**FULL.enumerators, "x": Blob.of(b"")})
    assert swapped.to_json() == plain.to_json()


def test_snap_manifest_knows_its_files() -> None:
    later = replace(STORED, offset=100, length=5)
    assert make_manifest(7, 1, (STORED, later)).files() == {STORED.path: 105}
    assert FULL.operator(COUNT) is FULL.operators[0]


def test_snap_newer_format_names_the_penstock_that_reads_it() -> None:
    document = json.loads(FULL.to_json())
    document.update(format_version=FORMAT_VERSION + 1, penstock_version="9.2", something_new=True)
    with pytest.raises(FormatVersionError, match=rf"format {FORMAT_VERSION + 1} .*Penstock 9\.2"):
        from_json(sign(document), "chk-7/_metadata")


def test_snap_truncated_manifests_are_corrupt() -> None:
    raw = FULL.to_json()
    for end in range(0, len(raw), 7):
        with pytest.raises(CorruptSnapshotError):
            from_json(raw[:end])


def test_snap_every_changed_byte_is_noticed() -> None:
    raw = FULL.to_json()
    for position in range(0, len(raw), 11):
        changed = bytearray(raw)
        changed[position] ^= 1
        with pytest.raises((CorruptSnapshotError, FormatVersionError)):
            from_json(bytes(changed))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"format_version":' + b"9" * 10_000 + b"}",
        b'{"format_version":1e999}',
        b'{"format_version":NaN}',
        b'{"format_version":1,"format_version":1}',
        b'{"format_version":true}',
        b'{"format_version":0}',
        sign({"format_version": 1}),
        sign({"format_version": 1, "x": "\ud800"}),
    ],
    ids=range(14),
)
def test_snap_garbage_is_corrupt(raw: bytes) -> None:
    with pytest.raises(CorruptSnapshotError):
        from_json(raw)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_snap_arbitrary_bytes_are_corrupt(raw: bytes) -> None:
    with pytest.raises(CorruptSnapshotError):
        from_json(raw)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["../x", "/x", "", "checkpoint", "00" * 16]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(place for key, child in children for place in _places(child, (*path, key)))]


PLACES = _places(json.loads(FULL.to_json()))[1:]


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(PLACES), JSON, st.sampled_from(["replace", "remove", "add"]))
def test_snap_wrong_values_anywhere_are_corrupt(place: tuple[Any, ...], value: Any, how: str) -> None:
    """Correctly signed nonsense: each check behind the checksum is met."""
    document = json.loads(FULL.to_json())
    node = document
    for key in place[:-1]:
        node = node[key]
    if how == "remove":
        del node[place[-1]]
    elif how == "add" and isinstance(node, dict):
        node["surprise"] = value
    else:
        node[place[-1]] = value
    try:
        manifest = from_json(sign(document))
    except PenstockError as error:
        assert isinstance(error, CorruptSnapshotError | FormatVersionError)
    else:
        assert isinstance(manifest, Manifest)
        assert from_json(manifest.to_json()) == manifest


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a/../b", ""])
def test_snap_paths_in_a_manifest_cannot_leave_the_store(path: str) -> None:
    document = json.loads(FULL.to_json())
    document["operators"][0]["subtasks"][0]["keyed"][0]["blob"]["path"] = path
    with pytest.raises(CorruptSnapshotError, match="path"):
        from_json(sign(document))


def test_snap_contradictions_are_corrupt() -> None:
    def broken(change: Any) -> bytes:
        document = json.loads(FULL.to_json())
        change(document["operators"][0], document)
        return sign(document)

    changes = [
        lambda op, doc: op["subtasks"].append(op["subtasks"][0]),
        lambda op, doc: doc["operators"].append(op),
        lambda op, doc: op.update(parallelism=1),
        lambda op, doc: op.update(max_parallelism=64),
        lambda op, doc: op["subtasks"][0]["keyed"][0].update(key_groups=[5, 4]),
        lambda op, doc: op["subtasks"][0]["keyed"][0].update(key_groups=[1, 2, 3]),
        lambda op, doc: op["subtasks"][0]["lists"].update(length=1),
        lambda op, doc: doc.update(kind="breakpoint"),
    ]
    for change in changes:
        with pytest.raises(CorruptSnapshotError):
            from_json(broken(change))
