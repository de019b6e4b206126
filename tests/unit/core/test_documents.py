"""Positions, committables and operator state: data for what is ours, guarded pickles for what is not."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.connectors.combinators.table_versions import TableVersion
from penstock.connectors.kafka.enumerator import PartitionRange
from penstock.connectors.source import Dealt, Split
from penstock.core import documents
from penstock.core.documents import MARK, dump, load, load_trusted
from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.core.packed import Names, pack, unpack
from penstock.core.plain_data import Codec
from penstock.core.row import Row


@dataclass(frozen=True)
class Position:
    offset: int


class Planted:
    def __reduce__(self) -> Any:
        return os.system, ("exit 1",)


OURS: list[Any] = [
    {"splits": ("union", [(Split("0", PartitionRange("t", 0, 0, None)), 5, False, 0, 2)])},
    {"splits": ("union", [(None, pack([(Split("0"), None, False, 0, 1)]), False, 0, 1)])},
    Dealt(Names(["a", "b"]).packed()),
    (1_700_000_000_000, ["t-0"], {"t": ("id", "cluster")}),
    True,
    TableVersion.of([Row(a=1), Row(a=2)], 5),
    {"broadcast": ("broadcast", [("rule", {"min": 1.5, "tags": ["x"]})])},
]


@pytest.mark.parametrize("value", OURS, ids=range(len(OURS)))
def test_what_is_ours_is_data_all_through(value: Any) -> None:
    data = dump(value)
    assert data[:1] == MARK
    assert Codec().decode(data[1:]) == value == load(data) == load_trusted(data)


def test_what_was_packed_is_data_too() -> None:
    assert unpack(pack(["a", 1])) == ("a", 1)
    assert TableVersion.of([Row(a=1)], 5).data[:1] == MARK


def test_a_users_object_is_the_only_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled: list[Any] = []

    def counted(value: Any) -> bytes:
        pickled.append(value)
        return pickle.dumps(value, 5)

    monkeypatch.setattr(documents, "_GUARDED", Codec(counted, documents.loads_stored))
    value = {"splits": ("union", [(Split("0"), Position(7), False, 0, 1)])}
    assert load(dump(value)) == value
    assert pickled == [Position(7)]


def test_documents_of_before_are_pickles() -> None:
    for value in (*OURS, Position(3)):
        assert load(pickle.dumps(value, 5)) == value


WAYS: list[Callable[[Any], Any]] = [
    lambda evil: evil,
    lambda evil: [evil],
    lambda evil: {"a": (1, [evil] * 50)},
]


@pytest.mark.parametrize("wrap", WAYS)
def test_what_is_planted_in_a_document_is_refused(wrap: Callable[[Any], Any]) -> None:
    with pytest.raises(SnapshotError, match=r"names \w+\.system"):
        load(dump(wrap(Planted())))


def test_an_object_that_cannot_be_loaded_is_no_damage() -> None:
    """Recovery passes over damage, and a class that was renamed is none."""
    data = dump([Position(1)]).replace(b"Position", b"Positiom")
    with pytest.raises(SnapshotError, match="Positiom.*bring it back") as told:
        load(data)
    assert not isinstance(told.value, CorruptSnapshotError)
    assert "offset" in repr(load_trusted(data))
    with pytest.raises(CorruptSnapshotError):
        load(MARK + b"l\x05")
