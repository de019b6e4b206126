"""Frames that know their windows: which columns say where a window begins and ends.

The rows of such a frame have the last moment of their window as their event time.  So they are complete when
the watermark has come there, whatever windows they are: what groups or joins by both columns can wait for
that moment, and its results are final.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.core.errors import ConfigError
from penstock.expressions.nodes import Column, Node

if TYPE_CHECKING:
    from penstock.dataframe.frame import DataFrame

Bounds = tuple[str, str]
"""The names of the columns with the start and the end."""


def kept_bounds(bounds: Bounds | None, named: Mapping[str, Node] | None) -> Bounds | None:
    """What the columns are called behind a projection; nothing if one of them is gone."""
    if bounds is None or named is None:
        return bounds
    shown = {node.name: name for name, node in reversed(list(named.items())) if isinstance(node, Column)}
    start, end = (shown.get(name) for name in bounds)
    return None if start is None or end is None else (start, end)


def refuse_engine_names(frame: DataFrame) -> None:
    """Rows that are kept whole have columns of the engine beside their own, which must not clash."""
    for name in frame.columns:
        if name.startswith(("$", "__")):
            raise ConfigError(f"names such as {name!r} are taken by the engine here; rename the column")


def kept_time(time: str | None, named: Mapping[str, Node] | None) -> str | None:
    """What the column with the event times is called behind a projection; nothing if it is gone."""
    if time is None or named is None:
        return time
    return next((name for name, node in named.items() if node == Column(time)), None)


def common_bounds(frames: Iterable[DataFrame]) -> Bounds | None:
    """The bounds of several frames with the same columns, if all have the same."""
    found = {frame._bounds for frame in frames}
    return found.pop() if len(found) == 1 else None


def by_window(frame: DataFrame, names: Iterable[str]) -> bool:
    """Whether these columns of a frame contain the bounds of its windows."""
    return frame._bounds is not None and set(frame._bounds) <= set(names)
