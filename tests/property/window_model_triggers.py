"""Triggers in slow motion, and what a window is to them; see ``window_model``.

Each method answers a set of ``FIRE`` and ``PURGE``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

BEGINNING, END = -(2**63), 2**63 - 1
FIRE, PURGE = "fire", "purge"


@dataclass
class Window:
    key: str
    span: Any
    last: int
    """The largest time that belongs to it."""
    elements: list = field(default_factory=list)
    memory: dict = field(default_factory=dict)
    event_times: set = field(default_factory=set)
    clock_times: set = field(default_factory=set)


class Never:
    def element(self, w, value, time, now):
        return set()

    def event_time(self, w, time, now):
        return set()

    def clock_time(self, w, time, now):
        return set()

    def merge(self, olds, w, now):
        pass

    def end(self, w):
        """The window is over, or begins anew as far as this trigger is concerned."""


class EventTime(Never):
    def element(self, w, value, time, now):
        if w.last <= now.watermark:
            return {FIRE}
        w.event_times.add(w.last)
        return set()

    def event_time(self, w, time, now):
        return {FIRE} if time == w.last else set()

    def merge(self, olds, w, now):
        if w.last > now.watermark:
            w.event_times.add(w.last)

    def end(self, w):
        w.event_times.discard(w.last)


class ProcessingTime(Never):
    def element(self, w, value, time, now):
        w.clock_times.add(w.last)
        return set()

    def clock_time(self, w, time, now):
        return {FIRE}

    def merge(self, olds, w, now):
        if w.last > now.clock:
            w.clock_times.add(w.last)

    def end(self, w):
        w.clock_times.discard(w.last)


@dataclass
class Count(Never):
    size: int

    def element(self, w, value, time, now):
        w.memory["count"] = w.memory.get("count", 0) + 1
        if w.memory["count"] < self.size:
            return set()
        del w.memory["count"]
        return {FIRE}

    def merge(self, olds, w, now):
        counts = [old.memory["count"] for old in olds if "count" in old.memory]
        if counts:
            w.memory["count"] = sum(counts)

    def end(self, w):
        w.memory.pop("count", None)


@dataclass
class Continuous(Never):
    """Every multiple of ``interval``, and the end of the window."""

    interval: int
    by_clock: bool

    def element(self, w, value, time, now):
        if not self.by_clock:
            if w.last <= now.watermark:
                return {FIRE}
            w.event_times.add(w.last)
        if "next" not in w.memory:
            begin = now.clock if self.by_clock else time
            self.plan(w, begin // self.interval * self.interval, now)
        return set()

    def plan(self, w, time, now):
        due = time + self.interval
        if w.last == now.watermark == END and not self.by_clock:
            due = END
        w.memory["next"] = due if self.by_clock and time >= w.last else min(due, w.last)
        self.times(w).add(w.memory["next"])

    def times(self, w):
        return w.clock_times if self.by_clock else w.event_times

    def called(self, w, time, now):
        planned = w.memory.get("next") == time
        if planned:
            del w.memory["next"]
            if self.by_clock or time != w.last:
                self.plan(w, time, now)
        return {FIRE} if planned or time == w.last else set()

    def event_time(self, w, time, now):
        return set() if self.by_clock else self.called(w, time, now)

    def clock_time(self, w, time, now):
        return self.called(w, time, now) if self.by_clock else set()

    def merge(self, olds, w, now):
        planned = [old.memory["next"] for old in olds if "next" in old.memory]
        if planned:
            w.memory["next"] = min(planned)
            self.times(w).add(w.memory["next"])

    def end(self, w):
        if "next" in w.memory:
            self.times(w).discard(w.memory.pop("next"))
        if not self.by_clock:
            w.event_times.discard(w.last)


@dataclass
class Delta(Never):
    threshold: int

    def element(self, w, value, time, now):
        before = w.memory.get("fired")
        if before is not None and abs(value[1] - before) <= self.threshold:
            return set()
        w.memory["fired"] = value[1]
        return set() if before is None else {FIRE}

    def end(self, w):
        w.memory.pop("fired", None)


@dataclass
class Nested(Never):
    nested: Any

    def element(self, w, value, time, now):
        return self.nested.element(w, value, time, now)

    def event_time(self, w, time, now):
        return self.nested.event_time(w, time, now)

    def clock_time(self, w, time, now):
        return self.nested.clock_time(w, time, now)

    def merge(self, olds, w, now):
        self.nested.merge(olds, w, now)

    def end(self, w):
        self.nested.end(w)


class Purging(Nested):
    def element(self, *args):
        return self.purging(super().element(*args))

    def event_time(self, *args):
        return self.purging(super().event_time(*args))

    def clock_time(self, *args):
        return self.purging(super().clock_time(*args))

    def purging(self, result):
        return result | {PURGE} if FIRE in result else result


@dataclass
class Timeout(Nested):
    timeout: int
    from_latest: bool
    clears: bool

    def element(self, w, value, time, now):
        result = super().element(w, value, time, now)
        if FIRE in result or self.from_latest:
            self.stop(w)
        if FIRE not in result and "timeout" not in w.memory:
            w.memory["timeout"] = now.clock + self.timeout
            w.clock_times.add(w.memory["timeout"])
        return result

    def event_time(self, w, time, now):
        result = super().event_time(w, time, now)
        if FIRE in result:
            self.stop(w)
        return result

    def clock_time(self, w, time, now):
        is_over = w.memory.get("timeout") == time
        result = super().clock_time(w, time, now)
        if FIRE in result or is_over:
            self.stop(w)
        if is_over and self.clears:
            self.nested.end(w)
        return result | {FIRE} if is_over else result

    def stop(self, w):
        if "timeout" in w.memory:
            w.clock_times.discard(w.memory.pop("timeout"))

    def merge(self, olds, w, now):
        super().merge(olds, w, now)
        waits = [old.memory["timeout"] for old in olds if "timeout" in old.memory]
        if waits:
            w.memory["timeout"] = max(waits) if self.from_latest else min(waits)
            w.clock_times.add(w.memory["timeout"])

    def end(self, w):
        self.stop(w)
        super().end(w)


@dataclass
class EarlyAndLate(Never):
    early: Any
    late: Any

    def element(self, w, value, time, now):
        if w.last > now.watermark:
            w.event_times.add(w.last)
            return self.early.element(w, value, time, now) if self.early else set()
        return self.late.element(w, value, time, now) if self.late else {FIRE}

    def event_time(self, w, time, now):
        if time == w.last:
            if self.early:
                self.early.end(w)
            return {FIRE}
        nested = self.early if time < w.last else self.late
        return nested.event_time(w, time, now) if nested else set()

    def clock_time(self, w, time, now):
        nested = self.late if w.last <= now.watermark else self.early
        return nested.clock_time(w, time, now) if nested else set()

    def merge(self, olds, w, now):
        if w.last > now.watermark:
            w.event_times.add(w.last)
        nested = self.late if w.last <= now.watermark else self.early
        if nested:
            nested.merge(olds, w, now)
