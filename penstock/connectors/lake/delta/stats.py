"""Statistics of a data file for Delta's log, from the Parquet footer: what lets readers skip files.

A bound that is wrong hides records, so a column whose bound would be doubtful gets none: floating point
(Parquet leaves out NaN, Spark orders it last), decimals, long texts.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

_LONGEST_TEXT = 64
_MILLISECOND = dt.timedelta(milliseconds=1)


def file_stats(metadata: Any) -> str:
    """The ``stats`` of an add action."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        name = metadata.schema.column(index).name
        if metadata.schema.column(index).path != name:
            continue  # a field inside a list, map or struct
        groups = [metadata.row_group(group).column(index) for group in range(metadata.num_row_groups)]
        found = [group.statistics for group in groups]
        if any(each is None or not each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        bounded = [each for each in found if each.num_values]
        if bounded and all(each.has_min_max for each in bounded):
            low = _bound(min(each.min for each in bounded), upper=False)
            high = _bound(max(each.max for each in bounded), upper=True)
            if low is not None and high is not None:
                least[name], greatest[name] = low, high
    stats = {"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return json.dumps(stats, ensure_ascii=False, separators=(",", ":"))


def _bound(value: Any, upper: bool) -> Any | None:
    """A value as the log writes it, or ``None`` if it should not be written."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    if isinstance(value, dt.datetime):
        # The log has milliseconds: round outwards.
        floor = value.replace(microsecond=value.microsecond // 1000 * 1000)
        rounded = floor + _MILLISECOND if upper and floor != value else floor
        text = rounded.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text if value.tzinfo is None else text + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    return None


def partition_text(value: Any) -> str | None:
    """A partition value as the log writes it. Delta takes empty text for null, and so do its readers."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        utc = value if value.tzinfo is None else value.astimezone(dt.UTC)
        return utc.strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value)
