"""Counters and gauges of a task, cheap enough to touch per batch.

The engine reads them by :meth:`MetricGroup.snapshot` and sends them to the driver now and then.
"""

from __future__ import annotations

from collections.abc import Callable

LATE_COUNTER = "numLateRecordsDropped"
"""Of a step: records that came too late for it and went nowhere. The driver tells people about them."""
RECORDS_COUNTER = "numRecordsIn"
"""Of a task and of each of its steps: records that have come in; of a source, those it has read."""
SPLITS_COUNTER = "numSplits"
"""Of a source: splits that it was given in this attempt."""
SPLITS_DONE_COUNTER = "numSplitsFinished"
"""Those of them that it has read to their ends."""
BUSY_COUNTER = "busyTimeMs"
AT_BARRIERS = (RECORDS_COUNTER, LATE_COUNTER, BUSY_COUNTER)
"""What every snapshot tells, as it was when the barrier passed."""


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


class MetricGroup:
    """Named metrics, nested by groups."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._metrics: dict[str, Counter | Distribution | Callable[[], float]] = {}
        self._groups: dict[str, MetricGroup] = {}

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A nested group; ``extra`` nests once more, as key and value."""
        group = self._groups.setdefault(name, MetricGroup(f"{self._prefix}{name}."))
        return group if extra is None else group.add_group(extra)

    def remove_group(self, name: str, extra: str) -> None:
        """Forget what ``add_group`` made of the same names: it is about something that is over."""
        self.add_group(name)._groups.pop(extra, None)

    def counter(self, name: str) -> Counter:
        """The counter called ``name``."""
        found = self._metrics.setdefault(name, Counter())
        assert isinstance(found, Counter)
        return found

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """The meter called ``name``."""
        found = self._metrics.setdefault(name, Meter())
        assert isinstance(found, Meter)
        return found

    def distribution(self, name: str) -> Distribution:
        """The distribution called ``name``."""
        found = self._metrics.setdefault(name, Distribution())
        assert isinstance(found, Distribution)
        return found

    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        """A number computed when read."""
        self._metrics[name] = obj

    def snapshot(self) -> dict[str, float]:
        """All values by full name."""
        values: dict[str, float] = {}
        for name, metric in self._metrics.items():
            full = self._prefix + name
            if isinstance(metric, Counter):
                values[full] = metric.count
            elif isinstance(metric, Distribution):
                values[full + ".count"] = metric.count
                values[full + ".sum"] = metric.sum
            else:
                values[full] = float(metric())
        for group in self._groups.values():
            values.update(group.snapshot())
        return values
