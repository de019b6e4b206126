"""The chart of the demo: clicks per hour of the busiest countries, with a mark for every alert.

:func:`bars` draws with letters and needs nothing; :func:`draw` makes a picture and needs matplotlib.
"""

from __future__ import annotations

from pathlib import Path

from penstock.core.optional import require
from penstock.demo.clicks import FIRST_MS, HOUR_MS, HOURS
from penstock.demo.verdict import Verdict

_FULL = " ▁▂▃▄▅▆▇█"
_HOURS = [FIRST_MS + number * HOUR_MS for number in range(HOURS)]


def top_countries(verdict: Verdict, count: int) -> list[tuple[str, int]]:
    """The countries with most clicks."""
    totals: dict[str, int] = {}
    for (country, _), clicks in verdict.counts.items():
        totals[country] = totals.get(country, 0) + clicks
    return sorted(totals.items(), key=lambda item: -item[1])[:count]


def bars(verdict: Verdict, country: str, most: int) -> str:
    """A country's clicks of each hour as a row of bars; ``most`` is what a full one stands for."""
    return "".join(_bar(verdict.counts.get((country, hour), 0), most) for hour in _HOURS)


def _bar(clicks: int, most: int) -> str:
    """At least the lowest bar if there is a click at all."""
    height = -(-clicks * (len(_FULL) - 1) // max(most, 1))
    return _FULL[min(height, len(_FULL) - 1)]


def check_can_draw() -> None:
    """A ``ConfigError`` if the package that makes pictures is missing."""
    require("matplotlib", "charts")


def draw(verdict: Verdict, threshold: int, path: Path) -> None:
    """Write the chart as a picture to ``path``."""
    figure = require("matplotlib.figure", "charts").Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    for country, _ in top_countries(verdict, 5):
        clicks = [verdict.counts.get((country, hour), 0) for hour in _HOURS]
        (line,) = axes.plot(range(HOURS), clicks, label=country, linewidth=1.6)
        alerts = [number for number, hour in enumerate(_HOURS) if (country, hour) in verdict.alerts]
        axes.scatter(alerts, [clicks[number] for number in alerts], color=line.get_color(), marker="^", s=36)
    axes.axhline(threshold, color="grey", linewidth=0.8, linestyle="--", label=f"alert at {threshold}")
    axes.set(
        xlabel="hour of event time", ylabel="clicks", title="Clicks per country and hour (▲ alert raised)"
    )
    axes.set_xlim(-0.5, HOURS - 0.5)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
