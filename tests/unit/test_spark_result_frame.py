"""What ``to_dataframe`` gives back is all rows of the job, or an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.sink import WriterContext
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError
from penstock.core.ids import Epoch
from penstock.spark.epoch_frames import ResultFrame

SCHEMA = pa.schema([("value", pa.int64())])


class Session:
    """Stands in for Spark: a frame without rows is made of nothing else."""

    def createDataFrame(self, rows: list[Any], schema: Any) -> str:  # noqa: N802 - Spark's name
        return "frame"


def begin(result: ResultFrame, generation: int, restored: int | None) -> None:
    """An attempt opens its writer, and the driver hears of it."""
    epoch = None if restored is None else Epoch(restored)
    context = WriterContext(
        "job", "sink", 0, 1, generation, epoch, (), True, ManualClock(), result.on_driver_message
    )
    result.create_writer(context).close()


def test_rows_of_an_earlier_program_are_missed_aloud(tmp_path: Path) -> None:
    result = ResultFrame(str(tmp_path), SCHEMA)
    begin(result, 7, restored=3)
    with pytest.raises(ConfigError, match="went on from snapshot 3 of an earlier program"):
        result.frame(Session())  # type: ignore[arg-type]


def test_restarts_within_the_program_are_fine(tmp_path: Path) -> None:
    result = ResultFrame(str(tmp_path), SCHEMA)
    begin(result, 7, restored=None)
    begin(result, 8, restored=3)
    assert result.frame(Session()) == "frame"  # type: ignore[arg-type, comparison-overlap]
