"""The two pictures of the guide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from benchmarks.sinks.report import DELIVERIES

_COLOURS = {"upsert": "#4c78a8", "two-phase": "#e45756", "bulk load": "#54a24b"}


def draw(results: dict[str, Any], directory: Path) -> list[Path]:
    """Draw both; where they are."""
    directory.mkdir(parents=True, exist_ok=True)
    return [
        _draw_small(results, directory / "mysql_sink_small.png"),
        _draw_large(results, directory / "mysql_sink_large.png"),
    ]


def _bars(axes: Any, cells: list[dict[str, Any]], value: str, scale: float = 1.0) -> None:
    """A group of three bars per interval."""
    intervals = sorted({cell["interval_s"] for cell in cells})
    for place, delivery in enumerate(DELIVERIES):
        found = {cell["interval_s"]: cell[value] * scale for cell in cells if cell["delivery"] == delivery}
        heights = [found.get(interval, 0.0) for interval in intervals]
        spots = [number + (place - 1) * 0.27 for number in range(len(intervals))]
        axes.bar(spots, heights, 0.25, label=delivery, color=_COLOURS[delivery])
    axes.set_xticks(range(len(intervals)), [f"{interval:g} s" for interval in intervals])
    axes.set_xlabel("checkpoint interval")
    axes.spines[["top", "right"]].set_visible(False)


def _databases(results: dict[str, Any], workload: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for cell in results["cells"]:
        if cell["workload"] == workload:
            found.setdefault(cell["database"], []).append(cell)
    return found


def _draw_small(results: dict[str, Any], path: Path) -> Path:
    databases = _databases(results, "small aggregates")
    figure, axes = plt.subplots(2, len(databases), figsize=(9, 6.4), squeeze=False, sharey="row")
    for column, (name, cells) in enumerate(databases.items()):
        _bars(axes[0][column], cells, "latency_p50_s")
        axes[0][column].set_title(f"{name}: event to visible row, p50")
        _bars(axes[1][column], cells, "wait_max_ms")
        axes[1][column].set_title(f"{name}: longest competing update")
    axes[0][0].set_ylabel("seconds")
    axes[1][0].set_ylabel("milliseconds")
    axes[0][0].legend(frameon=False)
    return _save(figure, path)


def _draw_large(results: dict[str, Any], path: Path) -> Path:
    databases = _databases(results, "raw volume")
    figure, axes = plt.subplots(1, len(databases), figsize=(9, 3.4), squeeze=False, sharey="row")
    for column, (name, cells) in enumerate(databases.items()):
        _bars(axes[0][column], cells, "rows_per_s", 1e-3)
        axes[0][column].set_title(f"{name}: raw volume")
    axes[0][0].set_ylabel("thousand rows a second")
    axes[0][0].legend(frameon=False)
    return _save(figure, path)


def _save(figure: Any, path: Path) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
