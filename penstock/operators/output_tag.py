"""``OutputTag``: the name of a side output, and how tagged results are told from plain ones.

A function sends a value to a side output by yielding the pair ``tag, value``.  Results of a whole
batch are gathered first and sorted out here once, so that programs without side outputs pay one
pass at C speed and nothing per call.
"""

from __future__ import annotations

from typing import Any, Generic

import numpy as np

from penstock.core.batch import Batch, Times
from penstock.core.errors import ConfigError
from penstock.core.type_tree import TypeInformation
from penstock.core.type_vars import T_co
from penstock.operators.operator import Output


class OutputTag(Generic[T_co]):
    """Names a side output; two tags with the same id are the same side output.

    A function sends to it with ``yield tag, value``; ``get_side_output(tag)`` on the step reads it.

    >>> SHORT = OutputTag("short", Types.STRING())
    >>> class ByLength(ProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         yield (SHORT, value) if len(value) < 3 else value
    >>> long = env.from_collection(["tea", "of"]).process(ByLength())
    >>> list(long.get_side_output(SHORT).execute_and_collect())
    ['of']
    """

    __slots__ = ("tag_id", "type_info")

    def __init__(self, tag_id: str, type_info: TypeInformation[T_co] | None = None) -> None:
        if not isinstance(tag_id, str) or not tag_id:
            raise ConfigError(f"an OutputTag needs an id, a string that is not empty; got {tag_id!r}")
        self.tag_id = tag_id
        self.type_info = type_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"


def emit_results(out: Output, items: list[Any], times: Times | None) -> None:
    """Send gathered results on: tagged pairs to their side outputs, the rest to the main output.

    ``times`` holds one entry per item, or is ``None`` if no item has a timestamp.
    """
    if not items:
        return
    tagged = _tagged_positions(items) if tuple in set(map(type, items)) else []
    if not tagged:
        out.emit(Batch(rows=items, times=times))
        return
    main = np.ones(len(items), dtype=np.bool_)
    main[tagged] = False
    # Side outputs first: there records are copied, which must come before the main output changes them.
    by_tag: dict[str, list[int]] = {}
    for position in tagged:
        by_tag.setdefault(items[position][0].tag_id, []).append(position)
    for tag_id, positions in by_tag.items():
        rows = [items[i][1] for i in positions]
        out.side(tag_id, Batch(rows=rows, times=None if times is None else times[positions]))
    if len(tagged) < len(items):
        kept = np.flatnonzero(main).tolist()
        out.emit(Batch(rows=[items[i] for i in kept], times=None if times is None else times[main]))


def _tagged_positions(items: list[Any]) -> list[int]:
    """Where the pairs of tag and value are; the first test rejects plain tuples quickly."""
    return [
        i
        for i, item in enumerate(items)
        if type(item) is tuple and item and type(item[0]) is OutputTag and len(item) == 2
    ]
