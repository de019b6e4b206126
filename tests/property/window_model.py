"""Windows in slow motion: what every window, trigger and evictor must give, written to be read.

One object per key and window holds its elements, what its trigger remembers, and the times at which it
wants to be called.  Event time and the clock move from one such time to the next, the earliest first.
Nothing here is shared with the engine: no state tables, no namespaces, no panes, no batches.
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


# --- triggers: each answers a set of FIRE and PURGE ---------------------------------------------------


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


# --- assigners: spans of an element; a span is (start, end), a number, or None for the global window ----


@dataclass
class Fixed:
    size: int
    slide: int
    offset: int
    by_clock: bool = False
    merges = False

    def spans(self, key, value, time, now):
        at = now.clock if self.by_clock else time
        starts = [s for s in range(at - self.size + 1, at + 1) if (s - self.offset) % self.slide == 0]
        return [(s, s + self.size) for s in starts]


@dataclass
class Session:
    gap: int | None
    """``None``: the element's number plus 1."""
    by_clock: bool = False
    merges = True

    def spans(self, key, value, time, now):
        at = now.clock if self.by_clock else time
        return [(at, at + (value[1] + 1 if self.gap is None else self.gap))]


class Global:
    merges = False
    by_clock = True

    def spans(self, key, value, time, now):
        return [None]


@dataclass
class Counting:
    """Window n holds the elements of the key numbered n * slide up to n * slide + size."""

    size: int
    slide: int
    merges = False
    by_clock = True

    def spans(self, key, value, time, now):
        number = now.seen[key] = now.seen.get(key, -1) + 1
        return [n for n in range(number + 1) if n * self.slide <= number < n * self.slide + self.size]


class ByNumber:
    """The custom assigner: even numbers into windows of 10, odd ones into windows of 4."""

    merges = False
    by_clock = False

    def spans(self, key, value, time, now):
        size = 4 if value[1] % 2 else 10
        return [(time // size * size, time // size * size + size)]


# --- evictors --------------------------------------------------------------------------------------------


@dataclass
class Evict:
    kind: str
    limit: int
    after: bool

    def left(self, elements):
        if self.kind == "count":
            return elements[len(elements) - self.limit :] if len(elements) > self.limit else elements
        if self.kind == "time":
            newest = max((time for _, time in elements), default=0)
            return [(value, time) for value, time in elements if time > newest - self.limit]
        return [(v, t) for v, t in elements if abs(v[1] - elements[-1][0][1]) < self.limit]


# --- the operator ----------------------------------------------------------------------------------------


@dataclass
class Model:
    assigner: Any
    trigger: Any
    lateness: int
    evict: Evict | None
    evaluate: Any
    """From key, span and the values of the elements to a list of results."""
    watermark: int = BEGINNING
    clock: int = 0
    seen: dict = field(default_factory=dict)
    windows: list = field(default_factory=list)
    results: list = field(default_factory=list)
    """Side (None or "late"), value, time."""

    def cleanup(self, w):
        return min(w.last + (0 if self.assigner.by_clock else self.lateness), END)

    def is_over(self, w):
        return not self.assigner.by_clock and self.cleanup(w) <= self.watermark

    def element(self, value, time):
        key = value[0]
        spans = self.assigner.spans(key, value, time, self)
        placed = False
        for span in spans:
            w = self.merged(key, span) if self.assigner.merges else self.window(key, span)
            if self.is_over(w):
                self.windows.remove(w)
                continue
            placed = True
            w.elements.append((value, time))
            self.act(w, self.trigger.element(w, value, time, self))
        if not placed and not self.assigner.by_clock and time + self.lateness <= self.watermark:
            self.results.append(("late", value, time))

    def window(self, key, span):
        for w in self.windows:
            if (w.key, w.span) == (key, span):
                return w
        w = Window(key, span, span[1] - 1 if isinstance(span, tuple) else END)
        self.windows.append(w)
        return w

    def merged(self, key, span):
        """The session that ``span`` belongs to, made of all that it touches."""
        olds = sorted((w for w in self.windows if w.key == key and touch(w.span, span)), key=lambda w: w.span)
        cover = (
            min(s for s, _ in [span, *(w.span for w in olds)]),
            max(e for _, e in [span, *(w.span for w in olds)]),
        )
        if len(olds) == 1 and olds[0].span == cover:
            return olds[0]
        self.windows = [w for w in self.windows if w not in olds]
        w = self.window(key, cover)
        if olds:
            w.elements = [element for old in olds for element in old.elements]
            self.trigger.merge(olds, w, self)
        return w

    def act(self, w, result):
        if FIRE in result and w.elements:
            before, after = (self.evict.after is False, self.evict.after) if self.evict else (False, False)
            shown = self.evict.left(w.elements) if before else w.elements
            results = self.evaluate(w.key, w.span, [value for value, _ in shown])
            self.results += [(None, value, w.last) for value in results]
            w.elements = self.evict.left(shown) if after else shown
        if PURGE in result:
            w.elements = []

    def watermark_to(self, time):
        self.watermark = time
        while due := self.due("event_times", time, not self.assigner.by_clock):
            at, w = due
            w.event_times.discard(at)
            self.act(w, self.trigger.event_time(w, at, self))
            if not self.assigner.by_clock and at == self.cleanup(w):
                self.windows.remove(w)

    def clock_to(self, time):
        while due := self.due("clock_times", time - 1, self.assigner.by_clock):
            at, w = due
            self.clock = max(self.clock, at + 1)
            w.clock_times.discard(at)
            self.act(w, self.trigger.clock_time(w, at, self))
            if self.assigner.by_clock and at == self.cleanup(w):
                self.windows.remove(w)
        self.clock = max(self.clock, time)

    def due(self, kind, until, cleans):
        """The earliest time up to ``until`` that a window waits for."""
        waits = [(at, n) for n, w in enumerate(self.windows) for at in getattr(w, kind)]
        if cleans:
            waits += [(self.cleanup(w), n) for n, w in enumerate(self.windows) if self.cleanup(w) != END]
        waits = [wait for wait in waits if wait[0] <= until]
        if not waits:
            return None
        at, n = min(waits)
        return at, self.windows[n]


def touch(left, right):
    return left[0] <= right[1] and left[1] >= right[0]
