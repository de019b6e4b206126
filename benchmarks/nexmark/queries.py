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
