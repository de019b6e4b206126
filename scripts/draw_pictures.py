"""Draw the pictures of barriers and of event time in ``docs/images``: ``python scripts/draw_pictures.py``.

What they show is what the engine's own parts do with a few records (``picture_barriers.py``,
``picture_times.py``); a test draws them again and compares.  Each is one SVG, readable in light and dark.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

from picture_barriers import BARRIER, NAMES, Step, Watched, barriers
from picture_times import SIZE, Arrival, arrivals, valve

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH = 760
STYLE = """
svg { --ground: #ffffff; --band: #f3f6f8; --ink: #1f2328; --soft: #6a737d; --line: #d0d7de; }
svg { --a: #0b7285; --b: #b35900; --bad: #c92a2a; }
@media (prefers-color-scheme: dark) {
  svg { --ground: #1e2129; --band: #272b35; --ink: #e2e4e9; --soft: #9aa4af; --line: #4a5160; }
  svg { --a: #4dc4d6; --b: #f0a04b; --bad: #ff7b72; }
}
text { font: 13px system-ui, sans-serif; fill: var(--ink); }
.soft { fill: var(--soft); font-size: 12px; }
.in { font-size: 12px; text-anchor: middle; }
.end { text-anchor: end; }
.bad { fill: var(--bad); }
.box { fill: var(--ground); stroke-width: 1.5; }
.line { stroke: var(--line); fill: none; }
.mark { stroke: var(--ink); stroke-width: 2; fill: none; }
"""


class Drawing:
    """An SVG that grows downwards."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """A line of text, from its left end."""
        self._parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>')

    def line(self, x: float, y: float, to_x: float, to_y: float, style: str = "stroke: var(--line)") -> None:
        """A straight line."""
        self._parts.append(f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" style="{style}"/>')

    def area(self, x: float, y: float, width: float, height: float, style: str) -> None:
        """A filled rectangle."""
        shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self._parts.append(f'<rect {shape} style="{style}"/>')

    def path(self, points: list[tuple[float, float]], kind: str) -> None:
        """A line of several pieces."""
        said = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._parts.append(f'<polyline class="{kind}" points="{said}"/>')

    def record(self, x: float, y: float, name: str, style: str = "") -> None:
        """A record, or a barrier, in a box of 26 by 20."""
        if name == BARRIER:
            self.area(x + 9, y, 8, 20, "fill: var(--ink)")
            return
        shape = f'class="box" x="{x:g}" y="{y:g}" width="26" height="20" rx="4"'
        self._parts.append(f'<rect {shape} style="stroke: var(--{name[0]}); {style}"/>')
        self.text(x + 13, y + 14, name, "in")

    def records(self, x: float, y: float, names: tuple[str, ...], style: str = "") -> None:
        """Several, from left to right."""
        for place, name in enumerate(names):
            self.record(x + 30 * place, y, name, style)

    def svg(self, height: float) -> str:
        """The whole picture."""
        shape = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" role="img"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {shape}>'
        ground = f'<rect width="{WIDTH}" height="{height:g}" rx="8" style="fill: var(--ground)"/>'
        title = f"<title>{escape(self._title)}</title>"
        return "\n".join([head, title, f"<style>{STYLE}</style>", ground, *self._parts, "</svg>", ""])


GATE, STATE, KEPT = 250, 290, 530
ROW = 84


def barrier_picture(kind: str, title: str) -> str:
    """What two channels bring, what the task has counted, and what is in the snapshot; step by step."""
    watched = barriers(kind)
    drawing = Drawing(title)
    drawing.text(16, 24, "two channels")
    drawing.text(GATE, 24, "gate", "end")
    drawing.text(STATE, 24, "counted so far")
    drawing.text(KEPT, 24, "in the snapshot")
    for place, step in enumerate(watched.steps):
        _step(drawing, 38 + place * ROW, place + 1, step)
    return drawing.svg(_after_a_crash(drawing, 38 + len(watched.steps) * ROW, watched) + 16)


def _step(drawing: Drawing, top: float, number: int, step: Step) -> None:
    drawing.line(16, top, WIDTH - 16, top)
    drawing.text(16, top + 18, f"{number}. {step.said}", "soft")
    for channel, queue in enumerate(step.queues):
        lane = top + 28 + channel * 26
        drawing.text(16, lane + 14, NAMES[channel], "soft")
        for place, name in enumerate(queue):
            drawing.record(GATE - 34 - 30 * place, lane, name)
        held = channel in step.held
        colour, width = ("var(--bad)", 5) if held else ("var(--line)", 2)
        drawing.line(GATE, lane, GATE, lane + 20, f"stroke: {colour}; stroke-width: {width}")
        if held:
            drawing.text(34, lane + 14, "held", "bad")
    drawing.records(STATE, top + 40, step.counted)
    if step.snapshot is not None:
        drawing.records(KEPT, top + 28, step.snapshot)
        drawing.records(KEPT, top + 54, step.recorded, "stroke-dasharray: 3 2")
        if step.recorded:
            drawing.text(KEPT + 30 * len(step.recorded) + 4, top + 68, "on their way", "soft")


def _after_a_crash(drawing: Drawing, top: float, watched: Watched) -> float:
    """What a restart makes of it; gives back how far down it goes."""
    last = watched.steps[-1]
    assert last.snapshot is not None
    drawing.line(16, top, WIDTH - 16, top, "stroke: var(--ink)")
    found = (*last.snapshot, *last.recorded)
    drawing.text(16, top + 20, "After a crash: what the snapshot has, and what the sources send again")
    drawing.records(16, top + 32, last.snapshot)
    drawing.records(16 + 30 * len(last.snapshot), top + 32, last.recorded, "stroke-dasharray: 3 2")
    beyond = 16 + 30 * len(found)
    drawing.text(beyond + 8, top + 46, "and")
    for place, name in enumerate(watched.again):
        style = "stroke: var(--bad); stroke-width: 3" if name in watched.twice else ""
        drawing.record(beyond + 44 + 30 * place, top + 32, name, style)
    x = beyond + 52 + 30 * len(watched.again)
    assert not watched.lost, "a picture of lost records would need other words"
    if watched.twice:
        drawing.text(x, top + 46, f"{' and '.join(watched.twice)} count twice", "bad")
    else:
        drawing.text(x, top + 46, "each counts once")
    return top + 56


LEFT, BOTTOM, STEP, SECOND = 70, 330, 50, 11


def watermark_picture() -> str:
    """Records by arrival and event time, the watermark below them, and the windows that it closes."""
    found = arrivals()
    drawing = Drawing("Records, the watermark behind them, the windows that it closes, and a late record")
    drawing.text(
        16,
        24,
        "event time in seconds of records, in the order in which they arrive, and the watermark behind each",
    )
    for start in (0, SIZE):
        shade = "fill: var(--band)" if start else "fill: none"
        drawing.area(LEFT, _high(start + SIZE), WIDTH - LEFT - 16, SIZE * SECOND, shade)
        drawing.text(LEFT + 8, _high(start + SIZE) + 16, f"window {start} to {start + SIZE}", "soft")
    for time in range(0, 30, 5):
        drawing.line(LEFT - 4, _high(time), LEFT, _high(time))
        drawing.text(LEFT - 10, _high(time) + 4, str(time), "soft end")
    _watermark_line(drawing, found)
    for place, arrival in enumerate(found):
        _arrival(drawing, LEFT + 20 + place * STEP, arrival)
    return drawing.svg(BOTTOM + 44)


def _high(time: float) -> float:
    return BOTTOM - max(time, -1) * SECOND


def _watermark_line(drawing: Drawing, found: list[Arrival]) -> None:
    points: list[tuple[float, float]] = []
    for place, arrival in enumerate(found):
        if arrival.watermark is not None:
            x = LEFT + 20 + place * STEP
            points += [(x, _high(arrival.watermark)), (x + STEP, _high(arrival.watermark))]
    drawing.path([(min(x, WIDTH - 16), y) for x, y in points], "mark")
    drawing.text(LEFT + 26, _high(-1) + 16, "watermark", "soft")


def _arrival(drawing: Drawing, x: float, arrival: Arrival) -> None:
    y = _high(arrival.time)
    style = "stroke: var(--bad); stroke-width: 3" if arrival.is_late else ""
    drawing.area(x - 11, y - 9, 22, 18, f"fill: var(--ground); stroke: var(--a); stroke-width: 1.5; {style}")
    drawing.text(x, y + 4, str(arrival.time), "in")
    if arrival.is_late:
        drawing.text(x - 11, y + 24, "late", "bad")
    for start, count in arrival.closed:
        drawing.line(x, _high(start), x, _high(start + SIZE), "stroke: var(--b); stroke-width: 3")
        drawing.text(x - 6, _high(start) - 6, f"closed with {count}", "soft end")


def valve_picture() -> str:
    """Watermarks of two channels, and the one that is made of them."""
    drawing = Drawing("Watermarks of two channels, one of which is idle for a while, and what comes out")
    for x, text in ((16, "comes"), (290, "A"), (400, "B"), (680, "out")):
        drawing.text(x, 24, text)
    for place, mark in enumerate(valve()):
        top = 36 + place * 34
        drawing.line(16, top, WIDTH - 16, top)
        drawing.text(16, top + 22, f"{place + 1}. {mark.said}", "soft")
        for x, text in zip((290, 400), mark.channels, strict=True):
            drawing.text(x, top + 22, text, "" if text.isdigit() else "soft")
        drawing.text(680, top + 22, mark.output)
    return drawing.svg(36 + len(valve()) * 34 + 8)


PICTURES: dict[str, Callable[[], str]] = {
    "barrier_aligned.svg": lambda: barrier_picture("aligned", "A barrier's way, aligned: exactly once"),
    "barrier_unaligned.svg": lambda: barrier_picture("unaligned", "A barrier's way, unaligned: exactly once"),
    "barrier_at_least_once.svg": lambda: barrier_picture("at_least_once", "A barrier's way, at least once"),
    "watermark_windows.svg": watermark_picture,
    "watermark_channels.svg": valve_picture,
}


def main() -> None:
    """Draw all of them."""
    for name, draw in PICTURES.items():
        (IMAGES / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
