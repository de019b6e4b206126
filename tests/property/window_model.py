"""Windows in slow motion: what every window, trigger and evictor must give, written to be read.

One object per key and window holds its elements, what its trigger remembers, and the times at which it
wants to be called.  Event time and the clock move from one such time to the next, the earliest first.
Nothing here is shared with the engine: no state tables, no namespaces, no panes, no batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from window_model_triggers import BEGINNING, END, FIRE, PURGE, Window

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
