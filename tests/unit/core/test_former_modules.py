"""Classes that were moved are found under the names that snapshots have for them."""

from __future__ import annotations

import importlib
import pickle

import pytest

from penstock.core.former_modules import FORMER
from penstock.core.unpickling import loads_stored, resolved
from penstock.formats.bad_records import Diverted

MOVED = [
    ("penstock.connectors.builtin.driver_rows", "RowsAtHand"),
    ("penstock.connectors.lake.delta.source", "DeltaPart"),
    ("penstock.connectors.lake.delta.writer", "AddedFile"),
    ("penstock.connectors.lake.delta.writer", "DeltaCommittable"),
    ("penstock.connectors.lake.delta.table", "TableAddress"),
    ("penstock.connectors.lake.iceberg.writer", "IcebergCommittable"),
    ("penstock.connectors.lake.iceberg.table", "IcebergAddress"),
    ("penstock.connectors.lake.table_files", "DataFile"),
    ("penstock.connectors.builtin.generic", "Handles"),
    ("penstock.formats.bad_records", "Diverted"),
    ("penstock.connectors.combinators.table_versions", "TableVersion"),
    ("penstock.event_time.watermark_tracker", "Cut"),
    ("penstock.testing.scripted_source", "Pause"),
    ("penstock.replay.replayed", "Piece"),
]


@pytest.mark.parametrize(("module", "name"), MOVED)
def test_a_moved_class_is_found_by_its_former_name(module: str, name: str) -> None:
    assert resolved(module, name) is getattr(importlib.import_module(FORMER[module]), name)


def test_modules_are_where_the_table_says_and_no_longer_where_they_were() -> None:
    for former, now in FORMER.items():
        importlib.import_module(now)
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(former)


def test_stored_objects_of_moved_classes_are_read() -> None:
    value = Diverted("orders", "0", 7, b"?", "no number")
    old, new = b"penstock.formats.bad_records", b"penstock.formats.bad_records"
    pickled = pickle.dumps(value, 2)
    assert pickled.count(new) == 1
    assert loads_stored(pickled.replace(new, old)) == value
