"""Properties of Flink's Kinesis connectors, those of 1.x and of 2.x, as settings of the source."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from penstock.connectors.kinesis.places import TRIM_HORIZON, Place, at_time
from penstock.connectors.kinesis.shards import LATEST
from penstock.core.durations import to_millis
from penstock.core.errors import ConfigError

_POSITION = ("source.init.position", "flink.stream.initpos")
_TIME = ("source.init.timestamp", "flink.stream.initpos.timestamp")
_TIME_FORMAT = ("source.init.timestamp.format", "flink.stream.initpos.timestamp.format")
_NUMBERS = {
    "most_records": ("source.shard.get-records.max-record-count", "flink.shard.getrecords.maxrecordcount"),
    "interval_ms": ("source.shard.get-records.interval", "flink.shard.getrecords.intervalmillis"),
    "discovery_ms": ("source.shard.discovery.interval", "flink.shard.discovery.intervalmillis"),
}
_FLINKS_OWN = ("aws.", "flink.", "source.", "sink.")
_STRPTIME = (
    ("yyyy", "%Y"),
    ("MM", "%m"),
    ("dd", "%d"),
    ("HH", "%H"),
    ("mm", "%M"),
    ("ss", "%S"),
    ("XXX", "%z"),
)


def start_of(properties: Mapping[str, str]) -> Place:
    """Where to begin without a snapshot: with what comes from now on, unless told otherwise, as in Flink."""
    chosen = (_first(properties, _POSITION) or LATEST).upper()
    if chosen == LATEST:
        return Place(LATEST)
    if chosen == TRIM_HORIZON:
        return Place(TRIM_HORIZON)
    if chosen == "AT_TIMESTAMP":
        return at_time(_time(properties))
    raise ConfigError(f"{_POSITION[1]} is LATEST, TRIM_HORIZON or AT_TIMESTAMP, not {chosen!r}")


def numbers_of(properties: Mapping[str, str]) -> dict[str, int]:
    """The settings of the source that are numbers, if they are there."""
    found = {}
    for setting, names in _NUMBERS.items():
        value = _first(properties, names)
        if value is not None:
            try:
                found[setting] = int(value) if setting == "most_records" else to_millis(value)
            except ValueError:
                raise ConfigError(f"{names[1]} is a whole number, not {value!r}") from None
    return found


def unknown_in(properties: Mapping[str, str]) -> list[str]:
    """Names that no connector of Flink has."""
    return [name for name in properties if not name.startswith(_FLINKS_OWN)]


def _first(properties: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((properties[name] for name in names if properties.get(name)), None)


def _time(properties: Mapping[str, str]) -> int:
    """Seconds since 1970, with a fraction perhaps, or a date in the pattern that stands beside it."""
    value = _first(properties, _TIME)
    if value is None:
        raise ConfigError(f"AT_TIMESTAMP needs {_TIME[1]}")
    try:
        return int(float(value) * 1000)
    except ValueError:
        pass
    pattern = _first(properties, _TIME_FORMAT)
    try:
        if pattern is None:
            moment = dt.datetime.fromisoformat(value)
        else:
            moment = dt.datetime.strptime(value, _strptime(pattern))  # noqa: DTZ007 - UTC follows
    except ValueError:
        raise ConfigError(
            f"{value!r} is no time to begin at: write seconds since 1970, or a date such as "
            "2026-01-31T12:00:00.000+00:00"
        ) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return int(aware.timestamp() * 1000)


def _strptime(pattern: str) -> str:
    """Java's pattern in Python's letters."""
    for java, python in _STRPTIME:
        pattern = pattern.replace(java, python)
    return pattern.replace("SSS", "%f").replace("'", "")
