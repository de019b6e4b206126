"""Classes that were moved are found under the names that snapshots have for them."""

from __future__ import annotations

import importlib
import pickle

import pytest

from penstock.core.former_modules import FORMER
from penstock.core.unpickling import loads_stored, resolved
from penstock.formats.bad_records import Diverted

MOVED = [
    ("penstock.connectors.at_hand", "RowsAtHand"),
    ("penstock.connectors.delta.source", "DeltaPart"),
    ("penstock.connectors.delta.writer", "AddedFile"),
    ("penstock.connectors.delta.writer", "DeltaCommittable"),
    ("penstock.connectors.delta.table", "TableAddress"),
    ("penstock.connectors.iceberg.writer", "IcebergCommittable"),
    ("penstock.connectors.iceberg.table", "IcebergAddress"),
    ("penstock.connectors.files.table_files", "DataFile"),
    ("penstock.connectors.generic", "Handles"),
    ("penstock.connectors.on_error", "Diverted"),
    ("penstock.connectors.tables", "TableVersion"),
    ("penstock.connectors.watermarks", "Cut"),
    ("penstock.connectors.builtin.collect", "CollectedRows"),
    ("penstock.connectors.database.source_ranges", "KeyRange"),
    ("penstock.connectors.files.commit", "FileCommittable"),
    ("penstock.connectors.files.default_bucket", "DefaultBucket"),
    ("penstock.connectors.kafka.reader_decode", "KafkaRecord"),
    ("penstock.connectors.lake.delta.writer", "DeltaCommittable"),
    ("penstock.connectors.lake.iceberg.table", "IcebergAddress"),
    ("penstock.connectors.staged.writer", "StagedFiles"),
    ("penstock.testing.cue", "Pause"),
    ("penstock.travel.replayed", "Piece"),
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
    old, new = b"penstock.connectors.on_error", b"penstock.formats.bad_records"
    pickled = pickle.dumps(value, 2)
    assert pickled.count(new) == 1
    assert loads_stored(pickled.replace(new, old)) == value
