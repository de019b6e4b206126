"""The queries by name: what each reads, and how many events it is measured with."""

from __future__ import annotations

from benchmarks.nexmark import frames, joined_frames
from benchmarks.nexmark.frames import Query
from benchmarks.nexmark.truth import QUERIES

TABLES: dict[str, tuple[str, ...]] = {
    query: {
        **dict.fromkeys(("q3", "q8"), ("person", "auction")),
        **dict.fromkeys(("q4", "q9", "q20"), ("auction", "bid")),
    }.get(query, ("bid",))
    for query in QUERIES
}
"""Which tables a query reads."""
CHANGING = frozenset({"q4", "q9", "q15", "q16", "q17", "q18", "q19"})
"""Queries whose rows are replaced by later ones, so that more rows leave than there are in the end."""


_MILLION = 1_000_000
EVENTS: dict[str, tuple[int, int]] = {
    query: {
        **dict.fromkeys(("q0", "q1", "q2", "q10"), (40 * _MILLION, 6 * _MILLION)),
        **dict.fromkeys(("q13", "q14", "q21", "q22"), (20 * _MILLION, 6 * _MILLION)),
        **dict.fromkeys(("q3", "q8"), (100 * _MILLION, 25 * _MILLION)),
        **dict.fromkeys(("q11", "q12"), (20 * _MILLION, 4 * _MILLION)),
        **dict.fromkeys(("q5", "q7"), (10 * _MILLION, 2 * _MILLION)),
        **dict.fromkeys(("q15", "q17", "q18"), (4 * _MILLION, 4 * _MILLION)),
    }.get(query, (2 * _MILLION, 2 * _MILLION))
    for query in QUERIES
}
"""Of all kinds, where it is measured: by Penstock, and by Flink.  On two quiet cores each takes some seconds,
so that the start of a job is not what is seen; where state grows with the events, both get as many."""


def frame_of(query: str) -> Query:
    """The query as a DataFrame."""
    found: Query = getattr(frames if hasattr(frames, query) else joined_frames, query)
    return found
