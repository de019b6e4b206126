"""Spans of time of many keys, merged all at once: the arithmetic of vectorised sessions. Pure.

A span is a start and an end, not included.  Two spans of one key that overlap or touch are one, so the spans
of a key fall into *runs*: sorted by key and start, a run ends where the next span begins behind all ends so
far.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.batch import Times
from penstock.core.ids import MAX_TIME

Numbers = npt.NDArray[np.int64]

_ROOM = 1 << 62


class Runs(NamedTuple):
    """Which spans are one."""

    of_row: Numbers
    """The run of each span; runs are numbered by key, then by start."""
    first: Numbers
    """A span of each run."""
    starts: Times
    ends: Times


def key_codes(columns: Sequence[Any]) -> Numbers:
    """A number per row, the same for rows with the same key; a null is a key's part like any other."""
    codes: Any = None
    for column in columns:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        encoded = column.dictionary_encode(null_encoding="encode")
        part = encoded.indices.to_numpy().astype(np.int64)
        if codes is not None:
            paired = pa.array(codes * len(encoded.dictionary) + part)
            part = paired.dictionary_encode().indices.to_numpy().astype(np.int64)
        codes = part
    return codes  # type: ignore[no-any-return]


def span_ends(starts: Times, gap: int) -> Times:
    """``start + gap``, held inside 64 bits."""
    return np.minimum(starts, MAX_TIME - gap) + gap


def find_runs(codes: Numbers, starts: Times, ends: Times) -> Runs:
    """The runs of spans, of which there is at least one."""
    order = _order(codes, starts)
    codes, starts = codes[order], starts[order]
    other = np.ones(len(order), np.bool_)
    np.not_equal(codes[1:], codes[:-1], out=other[1:])
    reach = _reach(other, ends[order])
    opens = other
    opens[1:] |= starts[1:] > reach[:-1]
    heads = np.flatnonzero(opens)
    of_row = np.empty(len(order), np.int64)
    of_row[order] = np.cumsum(opens) - 1
    return Runs(of_row, order[heads], starts[heads], reach[np.append(heads[1:], len(order)) - 1])


def _order(codes: Numbers, starts: Times) -> Numbers:
    """The order by code, then by start; as one number each, where they fit into it."""
    low = int(starts.min())
    width = int(starts.max()) - low + 1
    if (int(codes.max()) + 1) * width < _ROOM:
        return np.argsort(codes * width + (starts - low))
    return np.lexsort((starts, codes))


def _reach(other: npt.NDArray[np.bool_], ends: Times) -> Times:
    """The latest end so far within each key, given where another key begins."""
    if (other[1:] | (ends[1:] >= ends[:-1])).all():
        return ends
    # By rank, and each key above the ones before it: no sum of times can then overflow.
    known, ranks = np.unique(ends, return_inverse=True)
    floor = (np.cumsum(other) - 1) * len(known)
    latest: Times = known[np.maximum.accumulate(ranks + floor) - floor]
    return latest


Span = tuple[int, int]


def rescued(known: Iterable[Span], arriving: Iterable[Span], horizon: int) -> list[bool]:
    """Which spans of one key are taken, one after the other, if the ``known`` ones are there already.

    A span is taken if what it becomes part of ends behind ``horizon``.
    """
    there = list(known)
    verdicts = []
    for start, end in arriving:
        touching = [span for span in there if span[0] <= end and span[1] >= start]
        start = min(start, *(span[0] for span in touching), start)
        end = max(end, *(span[1] for span in touching), end)
        taken = end - 1 > horizon
        verdicts.append(taken)
        if taken:
            there = [span for span in there if span not in touching]
            there.append((start, end))
    return verdicts
