"""Settings of Flink's planner (``table.*``, ``sql-client.*``): what may be passed over, and what may not.

How a plan is made is our own affair, so most of them mean nothing here.  Those that change which rows come
out, or how much state is kept, are refused unless they say what is so anyway.
"""

from __future__ import annotations

from penstock.core.durations import to_millis
from penstock.core.errors import ConfigError

_LATER = "windows, joins with bounds of time and join(..., ttl=...) of DataFrames let state go"
_SAME: dict[str, tuple[tuple[str, ...], str]] = {
    "table.local-time-zone": (
        ("utc", "etc/utc", "gmt", "z", "+00:00", "utc+00:00", "gmt+00:00", "default"),
        "times are shown, cast and cut into days in UTC; convert them in the query",
    ),
    "table.sql-dialect": (("default",), "there is one dialect"),
    "table.exec.sink.not-null-enforcer": (("error",), "a null in a NOT NULL column is an error; filter"),
    "table.exec.sink.type-length-enforcer": (("ignore",), "lengths mean nothing; CAST(x AS VARCHAR(n)) cuts"),
    "table.exec.legacy-cast-behaviour": (("disabled",), "what does not fit is an error; TRY_CAST is null"),
}
"""Settings with the values that say what is so, and the way to another."""
_REFUSED = {
    "table.exec.emit.": "windows are shown once, when they are complete; CUMULATE shows them as they grow",
    "table.exec.source.idle-timeout": "silent sources are idle by WatermarkStrategy.with_idleness on a "
    "stream: session.register(name, from_data_stream(stream, schema))",
}


def planner_setting(key: str, value: str) -> bool:
    """Whether it is one of these settings; refused if results would be others than it asks for."""
    if not key.startswith(("table.", "sql-client.")):
        return False
    if key == "table.exec.state.ttl" and _millis(value):
        raise ConfigError(f"{key} is not there, and state would never expire: {_LATER}")
    same, way = _SAME.get(key, ((), ""))
    if same and value.strip().lower() not in same:
        raise ConfigError(f"{key} cannot be changed: {way}")
    for beginning, instead in _REFUSED.items():
        if key.startswith(beginning):
            raise ConfigError(f"{key} is not there: {instead}")
    return True


def _millis(value: str) -> int:
    try:
        return to_millis(value)
    except (ConfigError, ValueError):
        return 1
