"""The queries by name, and what each needs of Penstock: where a part is not there, its queries are named."""

from __future__ import annotations

import dataclasses
from importlib.util import find_spec

from benchmarks.nexmark import frames, joined_frames
from benchmarks.nexmark.frames import Query
from benchmarks.nexmark.truth import QUERIES
from penstock.dataframe import DataFrame, Tumble

NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("q3", "q20"), ("regular join",)),
    "q4": ("regular join", "changes"),
    **dict.fromkeys(("q5", "q7", "q8"), ("join",)),
    "q9": ("regular join", "changes", "top_n"),
    "q12": ("clock windows",),
    "q13": ("join_lookup",),
    **dict.fromkeys(("q15", "q16", "q17"), ("changes",)),
    "q18": ("changes", "drop_duplicates"),
    "q19": ("changes", "top_n"),
}
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


def _is_there(part: str) -> bool:
    if part == "regular join":
        return _has_module("penstock.dataframe.regular_join") and hasattr(DataFrame, "join")
    if part == "changes":
        return _has_module("penstock.core.changes")
    if part == "clock windows":
        return "processing_time" in {field.name for field in dataclasses.fields(Tumble)}
    return hasattr(DataFrame, part)


def _has_module(name: str) -> bool:
    return find_spec(name) is not None


def missing(query: str) -> list[str]:
    """The parts that a query needs and this Penstock does not have."""
    return [part for part in NEEDS.get(query, ()) if not _is_there(part)]


def frame_of(query: str) -> Query:
    """The query as a DataFrame."""
    found: Query = getattr(frames if hasattr(frames, query) else joined_frames, query)
    return found
