"""DataFrames whose rows change on real Spark: the same as a stream and in BATCH mode."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import run

pytestmark = pytest.mark.spark


def test_changes_on_spark(tmp_path: Path) -> None:
    driver = run(tmp_path, "changing_frames.py", "local[2]")
    told = {}
    for line in driver.lines:
        mode, _, rest = line.partition(" ")
        name, colon, rows = rest.partition(": ")
        if mode in ("STREAMING", "BATCH") and colon:
            told[mode, name] = rows
    names = ("top", "join")
    assert set(told) == {(mode, name) for mode in ("STREAMING", "BATCH") for name in names}
    assert all(told["STREAMING", name] == told["BATCH", name] for name in names)
    best = [(k, max(range(k, 10_000, 7)), len(range(k, 10_000, 7))) for k in range(7)]
    named = [(*row, {1: "one", 2: "two"}.get(row[0])) for row in best] + [(9, None, None, "nine")]
    assert told["BATCH", "join"] == repr(named)
    top = [(k, value, place) for k, value, _ in best for place, value in enumerate((value, value - 7), 1)]
    assert told["BATCH", "top"] == repr(sorted([(0, 0, 7), *top], key=repr))
