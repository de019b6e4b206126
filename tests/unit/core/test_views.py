"""Columns of views: Arrow takes no records from them, and a part of one brings the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.batch import Batch
from penstock.core.views import without_views

TEXTS = ["a", None, "a text that is longer than what a view holds itself"]
ITEMS = [{"a": [text]} for text in TEXTS]
KINDS: dict[str, tuple[Any, pa.DataType]] = {
    "text": (pa.array(TEXTS, pa.string_view()), pa.large_string()),
    "bytes": (pa.array([b"a", None, b"b" * 99], pa.binary_view()), pa.large_binary()),
    "list": (pa.array([TEXTS, None, []], pa.list_(pa.string_view())), pa.list_(pa.large_string())),
    "large": (pa.array([TEXTS, None, []], pa.large_list(pa.string_view())), pa.large_list(pa.large_string())),
    "struct": (
        pa.array(ITEMS, pa.struct([("a", pa.list_(pa.string_view()))])),
        pa.struct([("a", pa.list_(pa.large_string()))]),
    ),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_records_are_taken_from_views(kind: str) -> None:
    values, plain = KINDS[kind]
    batch = Batch.of_columns(pa.record_batch({"v": values, "n": [1, 2, 3]}))
    for start in (0, 1):
        taken = batch.slice(start, 3).take(np.array([2 - start, 0]))
        assert taken.columns.column("v").to_pylist() == [values.to_pylist()[2], values.to_pylist()[start]]
        assert taken.columns.schema.field("v").type == plain


def test_columns_without_views_are_left_alone() -> None:
    columns = pa.record_batch(
        {"a": ["x"], "b": [[1]], "c": [{"d": 1}], "e": pa.array(["y"]).dictionary_encode()}
    )
    assert without_views(columns) is columns
