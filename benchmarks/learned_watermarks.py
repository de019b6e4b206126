"""Learned watermarks against the best fixed bound, on three patterns of lateness.

``python benchmarks/learned_watermarks.py`` prints the table of ``docs/guides/time.md`` and draws
``docs/images/learned_watermarks.png``.  Made-up streams of a thousand records a second go through the
tracker that runs in a source; the clock is that of the stream, so an hour takes seconds.  The fixed bound
to compare with is found afterwards, with the stream known: the one that lets just as many records come
too late.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.common import WatermarkStrategy
from penstock.core.batch import Batch
from penstock.event_time.watermark_tracker import WatermarkTracker

TARGET = 0.001
RATE = 1000
PROBE_MS = 200
WINDOW_MS = 9_973
"""No multiple of the probes, so that their rounding favours nobody."""
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "learned_watermarks.png"

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """Event times in order of arrival, and how many had arrived at each probe."""

    times: Numbers
    arrived: Numbers


@dataclass(frozen=True)
class Run:
    """What a strategy made of a stream."""

    late: float
    """Share of the records at or behind the watermark."""
    delay_ms: float
    """How long after the end of a window its result came, on average."""
    lag: Numbers
    """Largest timestamp less watermark, at each probe."""


def stream(pattern: str, minutes: int, seed: int = 7) -> Stream:
    """``stable``: exponential, 300 ms on average. ``drifting``: from 200 ms to 1800 ms and back.

    ``bursty``: 200 ms; for half a minute in ten a fifth of the records is 1.5 s later still.
    """
    rng = np.random.default_rng(seed)
    length = minutes * 60_000
    times = np.sort(rng.uniform(0, length, minutes * 60 * RATE))
    late = rng.exponential(1.0, len(times))
    if pattern == "stable":
        late *= 300
    elif pattern == "drifting":
        late *= 200 + 800 * (1 - np.cos(2 * np.pi * times / length))
    else:
        burst = (times % 600_000 > 300_000) & (times % 600_000 < 330_000) & (rng.random(len(times)) < 0.2)
        late = 200 * late + np.where(burst, rng.exponential(1500, len(times)), 0)
    arrivals = times + late
    order = np.argsort(arrivals, kind="stable")
    probes = np.arange(PROBE_MS, arrivals.max() + PROBE_MS, PROBE_MS)
    return Stream(times[order].astype(np.int64), np.searchsorted(arrivals[order], probes))


def run(strategy: WatermarkStrategy, data: Stream) -> Run:
    """Send the stream through a tracker, a probe at a time."""
    tracker = WatermarkTracker(strategy)
    latest = late = start = 0
    marks, lag = [], []
    for number, end in enumerate(data.arrived.tolist(), start=1):
        times = data.times[start:end]
        start = end
        if len(times):
            late += int(np.count_nonzero(times <= tracker.watermark))
            latest = max(latest, int(times.max()))
            tracker.on_batch(Batch.of_rows(times.tolist(), times))
        tracker.probe(number * PROBE_MS)
        marks.append(tracker.watermark)
        lag.append(latest - tracker.watermark)
    return Run(late / len(data.times), _delay(np.array(marks)), np.array(lag))


def _delay(marks: Numbers) -> float:
    ends = np.arange(WINDOW_MS, marks[-1], WINDOW_MS)
    fired = (np.searchsorted(marks, ends - 1) + 1) * PROBE_MS
    return float((fired - ends).mean())


def same_late_share(late: float, data: Stream) -> tuple[int, Run]:
    """The smallest fixed bound with at most this share of late records."""
    low, high = 0, 60_000
    while high - low > 10:
        middle = (low + high) // 2
        found = run(WatermarkStrategy.for_bounded_out_of_orderness(middle), data)
        low, high = (middle, high) if found.late > late else (low, middle)
    return high, run(WatermarkStrategy.for_bounded_out_of_orderness(high), data)


def compare(pattern: str, minutes: int) -> tuple[Run, int, Run]:
    """The learned run, the matching fixed bound, and the run with it."""
    data = stream(pattern, minutes)
    learned = run(WatermarkStrategy.for_learned_lateness(TARGET), data)
    bound, fixed = same_late_share(learned.late, data)
    return learned, bound, fixed


def draw(results: dict[str, tuple[Run, int, Run]]) -> None:
    """One panel per pattern: how far the watermark is behind, over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3), dpi=72, layout="constrained")
    for number, (pattern, (learned, bound, _)) in enumerate(results.items(), start=1):
        axes = figure.add_subplot(1, 3, number)
        minutes = np.arange(len(learned.lag)) * PROBE_MS / 60_000
        axes.plot(minutes[50::25], learned.lag[50::25] / 1000, linewidth=1, label="learned")
        axes.axhline(
            bound / 1000, color="tab:red", linestyle="--", linewidth=1, label="fixed, same late share"
        )
        axes.set_title(pattern)
        axes.set_xlabel("minutes")
        axes.set_ylim(bottom=0)
    figure.axes[0].set_ylabel("watermark behind, s")
    figure.axes[0].legend(fontsize="small")
    figure.savefig(PICTURE)


def main(scale: float = 1.0) -> dict[str, tuple[Run, int, Run]]:
    """Compare all; the table goes to the output."""
    lengths = {"stable": 30, "drifting": 30, "bursty": 60}
    results = {pattern: compare(pattern, max(1, int(n * scale))) for pattern, n in lengths.items()}
    print("| pattern | late, target 0.1 % | delay of results | fixed bound, same late share | its delay |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for pattern, (learned, bound, fixed) in results.items():
        print(
            f"| {pattern} | {learned.late:.3%} | {learned.delay_ms:,.0f} ms | {bound:,} ms | "
            f"{fixed.delay_ms:,.0f} ms ({learned.delay_ms / fixed.delay_ms - 1:+.1%}) |"
        )
    return results


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(float(sys.argv[1]))
    else:
        draw(main())
