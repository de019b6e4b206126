"""Counters and gauges of a task, cheap enough to touch per batch.

The engine reads them by :meth:`MetricGroup.marked` and sends them to the driver now and then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from penstock.core.discreet import log_of, shown
from penstock.core.errors import ConfigError
from penstock.core.metric_names import clean, key_value, meter, plain, unmarked

LATE_COUNTER = "numLateRecordsDropped"
"""Of a step: records that came too late for it and went nowhere. The driver tells people about them."""
RECORDS_COUNTER = "numRecordsIn"
"""Of a task and of each of its steps: records that have come in; of a source, those it has read."""
SPLITS_COUNTER = "numSplits"
"""Of a source: splits that it was given in this attempt."""
SPLITS_DONE_COUNTER = "numSplitsFinished"
"""Those of them that it has read to their ends."""
PENDING_GAUGE = "pendingRecords"
"""Of a source: records that are there and not read; not shown where its readers cannot tell."""
BUSY_COUNTER = "busyTimeMs"
EVENT_TIME_MIN, EVENT_TIME_MAX = "eventTimeMin", "eventTimeMax"
EVENT_TIME_SUM, EVENT_TIME_COUNT = "eventTimeSum", "eventTimeCount"
"""Of steps that make watermarks: of the records between the last two barriers."""
_EVENT_TIMES = (EVENT_TIME_MIN, EVENT_TIME_MAX, EVENT_TIME_SUM, EVENT_TIME_COUNT)
AT_BARRIERS = (RECORDS_COUNTER, LATE_COUNTER, BUSY_COUNTER, *_EVENT_TIMES)
"""What every snapshot tells, as it was when the barrier passed."""

_log = log_of(__name__)
_WHOLE = 2**63


class Counter:
    """A number that is counted up and down."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def inc(self, n: int = 1) -> None:
        """Count up."""
        self.count += n

    def dec(self, n: int = 1) -> None:
        """Count down."""
        self.count -= n

    def get_count(self) -> int:
        """The number now."""
        return self.count


class Meter(Counter):
    """Counts events; the rate is derived by whoever reads it twice."""

    __slots__ = ()

    def mark_event(self, value: int = 1) -> None:
        """Count ``value`` events."""
        self.count += value


class Distribution:
    """Count, sum, smallest and largest of the values seen."""

    __slots__ = ("count", "max", "min", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0
        self.min: int | None = None
        self.max: int | None = None

    def update(self, value: int) -> None:
        """Take one value."""
        self.count += 1
        self.sum += value
        self.min = value if self.min is None else min(self.min, value)
        self.max = value if self.max is None else max(self.max, value)


Gauge = Callable[[], float | None]
M = TypeVar("M", Counter, Meter, Distribution)


class MetricGroup:
    """Named metrics, nested by groups."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._metrics: dict[str, Counter | Distribution | Gauge] = {}
        self._groups: dict[str, MetricGroup] = {}
        self._parts: dict[str, MetricGroup] = {}
        self._failed: set[str] = set()

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A nested group; with ``extra``, that of the key ``name`` with this value, a label in Prometheus."""
        part = f"{clean(name)}." if extra is None else key_value(name, extra)
        group = self._groups.get(part)
        if group is None:
            group = self._groups[part] = MetricGroup(self._prefix + part)
        return group

    def remove_group(self, name: str, extra: str) -> None:
        """Forget what ``add_group`` made of the same names: it is about something that is over."""
        self._groups.pop(key_value(name, extra), None)

    def part(self, owner: str) -> MetricGroup:
        """A group whose names are those of this group itself, until :meth:`drop_part`."""
        return self._parts.setdefault(owner, MetricGroup(self._prefix))

    def drop_part(self, owner: str) -> None:
        """Forget all that is in that part."""
        self._parts.pop(owner, None)

    def counter(self, name: str) -> Counter:
        """The counter called ``name``."""
        return self._metric(name, Counter)

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """The meter called ``name``. Its rate is over the last seconds, whatever the time span."""
        return self._metric(name, Meter)

    def distribution(self, name: str) -> Distribution:
        """The distribution called ``name``."""
        return self._metric(name, Distribution)

    def gauge(self, name: str, obj: Gauge) -> None:
        """A number computed when read, about once a second; ``None`` is nothing to tell now.

        One that raises, or gives no finite number, is left out, and the log says so once.
        """
        self._metrics[clean(name)] = obj

    def _metric(self, name: str, kind: type[M]) -> M:
        found = self._metrics.get(clean(name))
        if found is None:
            found = self._metrics[clean(name)] = kind()
        if not isinstance(found, kind):
            there = type(found).__name__ if isinstance(found, Counter | Distribution) else "gauge"
            raise ConfigError(
                f"metric {name!r} is asked for as a {kind.__name__.lower()}, and is a {there.lower()} "
                "already; give the two different names, or a group of their own"
            )
        return found

    def snapshot(self) -> dict[str, float]:
        """All values by full name; of a meter the count."""
        return {plain(unmarked(name)): value for name, value in self.marked().items()}

    def marked(self) -> dict[str, float]:
        """The same by the names that travel, see :mod:`penstock.core.metric_names`; none is infinite."""
        return {name: value for name, value in self._values().items() if math.isfinite(value)}

    def _values(self) -> dict[str, float]:
        values: dict[str, float] = {}
        for name, metric in list(self._metrics.items()):
            full = self._prefix + name
            if isinstance(metric, Meter):
                values[meter(full)] = _number(metric.count)
            elif isinstance(metric, Counter):
                values[full] = _number(metric.count)
            elif isinstance(metric, Distribution):
                values |= _summary(full, metric)
            elif (value := self._read(name, metric)) is not None:
                values[full] = value
        for group in (*self._groups.values(), *self._parts.values()):
            values.update(group._values())
        return values

    def _read(self, name: str, gauge: Gauge) -> float | None:
        try:
            value = gauge()
            number = None if value is None else float(value)
            wrong = None if number is None or math.isfinite(number) else f"gave {number}"
        except Exception as error:
            number, wrong = None, f"raised {type(error).__name__}: {shown(str(error))}"
        if wrong is None:
            return number
        if name not in self._failed:
            self._failed.add(name)
            _log.warning("metric %r cannot be shown: its gauge %s", self._prefix + name, wrong)
        return None


def _summary(full: str, seen: Distribution) -> dict[str, float]:
    made = {f"{full}.count": _number(seen.count), f"{full}.sum": _number(seen.sum)}
    if seen.min is not None and seen.max is not None:
        made |= {f"{full}.min": _number(seen.min), f"{full}.max": _number(seen.max)}
        made[f"{full}.mean"] = _number(seen.sum) / seen.count
    return made


def _number(value: float) -> float:
    """A plain number, which may be infinite: users count with all kinds."""
    if type(value) is int and abs(value) < _WHOLE:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf
