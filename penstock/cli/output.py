"""What several commands print alike: tables, ages, sizes."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

_WIDE = 240


def console() -> Console:
    """Standard output, looked up now: tests and scripts replace it. Nothing is cut for programs."""
    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _WIDE)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> Table:
    """A plain table; ``right`` names the columns of numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(str(cell) for cell in row))
    return made


def size(count: float) -> str:
    """Bytes, as a person reads them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def age(milliseconds: float) -> str:
    """A length of time, in its two largest units."""
    seconds = max(0, int(milliseconds / 1000))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    if seconds < 86400:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86400} d {seconds % 86400 // 3600} h"


def stages(progress: Mapping[str, int]) -> str:
    """How far a BATCH job is."""
    if not progress["stages"]:
        return "finding its input"
    tasks = f", tasks {progress['tasks_done']} of {progress['tasks']}" if progress["tasks"] else ""
    return f"stages {progress['stages_done']} of {progress['stages']}{tasks}"


def moment(ms: int) -> str:
    """A time of the calendar, in UTC."""
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
