"""A file that is damaged in the middle is named, whatever its format and wherever the damage is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from penstock.connectors.files.orc import OrcFormat
from penstock.connectors.files.parquet import ParquetFormat
from penstock.connectors.source import EndOfSplit
from penstock.core.errors import ConnectorError

ROWS = 20_000


def written(place: Path, kind: str) -> tuple[Path, Any]:
    numbers = np.random.default_rng(1).integers(0, 1 << 60, ROWS)
    table = pa.table({"id": numbers, "text": [str(number) for number in numbers]})
    file = place / f"x.{kind}"
    if kind == "parquet":
        pq.write_table(table, file, row_group_size=5000, compression="gzip")
        return file, ParquetFormat()
    orc.write_table(table, file, compression="zlib", stripe_size=65536)
    return file, OrcFormat()


def read_all(file: Path, form: Any) -> int:
    reader, rows = form.open(str(file), None), 0
    try:
        while True:
            batch = reader.poll(1000)
            rows += 0 if batch is None else len(batch)
    except EndOfSplit:
        return rows
    finally:
        reader.close()


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_file_that_is_damaged_in_the_middle_is_named(kind: str, tmp_path: Path) -> None:
    file, form = written(tmp_path, kind)
    assert read_all(file, form) == ROWS
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = bytes(2000)
    file.write_bytes(data)
    with pytest.raises(ConnectorError) as raised:
        read_all(file, form)
    told = str(raised.value)
    assert str(file) in told and "is damaged" in told and "from row" in told


@pytest.mark.parametrize("kind", ["parquet", "orc"])
@pytest.mark.parametrize("how", ["no end", "no footer", "nothing"])
def test_a_file_that_is_damaged_at_its_end_is_named(kind: str, how: str, tmp_path: Path) -> None:
    file, form = written(tmp_path, kind)
    data = bytearray(file.read_bytes())
    if how == "no end":
        data = data[:-100]
    elif how == "nothing":
        data = bytearray()
    else:
        data[-1500:-20] = bytes(1480)
    file.write_bytes(data)
    with pytest.raises(ConnectorError) as raised:
        read_all(file, form)
    assert str(file) in str(raised.value)
