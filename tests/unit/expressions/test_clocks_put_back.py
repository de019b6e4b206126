"""Times of zones, where the clocks show an hour twice, or not at all."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from penstock.expressions.face import Expression, call, col
from penstock.expressions.program import Projection

MINUTE = dt.timedelta(minutes=1)
AUTUMN = dt.datetime(2024, 10, 26, 21, 30, tzinfo=dt.UTC)
SPRING = dt.datetime(2024, 3, 30, 22, 30, 0, 250_000, tzinfo=dt.UTC)
MOMENTS = [start + minutes * MINUTE for start in (AUTUMN, SPRING) for minutes in range(0, 360, 15)]


def worth(expression: Expression, zone: str) -> list[Any]:
    times = pa.array(MOMENTS, pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone))
    batch = pa.record_batch({"t": times})
    found: list[Any] = Projection(batch.schema, {"x": expression.node}).apply(batch).column(0).to_pylist()
    return found


def on_the_clock(zone: str, *less: str) -> list[Any]:
    """What the clocks show, with parts set to zero."""
    local = [it.astimezone(ZoneInfo(zone)) for it in MOMENTS]
    return [it.replace(**dict.fromkeys(less, 0)) for it in local]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "UTC", "Asia/Kolkata"])
def test_times_are_rounded_and_written(zone: str) -> None:
    hours = worth(call("floor_time", "hour", col("t")), zone)
    assert hours == on_the_clock(zone, "minute", "second", "microsecond")
    assert [it.utcoffset() for it in hours] == [it.utcoffset() for it in on_the_clock(zone)]
    ceil = worth(call("ceil_time", "hour", col("t")), zone)
    assert all(0 * MINUTE <= up - at < 60 * MINUTE for up, at in zip(ceil, MOMENTS, strict=True))
    assert {it.astimezone(ZoneInfo(zone)).minute for it in ceil} == {0}
    assert worth(call("floor_time", "day", col("t")), zone) == on_the_clock(
        zone, "hour", "minute", "second", "microsecond"
    )
    assert worth(col("t").cast(pa.date32()), zone) == [it.date() for it in on_the_clock(zone)]
    assert worth(col("t").extract("epoch"), zone) == [int(it.timestamp()) for it in MOMENTS]
    written = [it.strftime("%Y-%m-%d %H:%M:%S") for it in on_the_clock(zone)]
    assert worth(col("t").date_format("yyyy-MM-dd HH:mm:ss"), zone) == written
    millis = worth(col("t").cast(pa.timestamp("ms", zone)), zone)
    assert [it.timestamp() for it in millis] == [it.timestamp() for it in MOMENTS]
