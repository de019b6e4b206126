"""The code in the guides to joins and asynchronous I/O runs, and does what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from penstock.testing.local import local_cluster

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def names_of(page: str) -> dict[str, Any]:
    """What the code of a page defines, run as one program."""
    names: dict[str, Any] = {"__name__": "__main__"}
    code = "\n".join(PYTHON.findall((GUIDES / page).read_text(encoding="utf-8")))
    exec(compile(code, page, "exec"), names)
    return names


def collected(page: str, stream: str) -> list[Any]:
    """The records of one of a page's streams; the program is built anew for each."""
    with local_cluster(2):
        return sorted(names_of(page)[stream].execute_and_collect(), key=repr)


def test_the_guide_to_joins() -> None:
    assert collected("joins.md", "delays") == [("book", 60_000)]
    assert collected("joins.md", "pairs") == [
        ("left", "home"),
        ("left", None),
        ("right", "home"),
        (None, "cart"),
    ]
    assert collected("joins.md", "sizes") == [(0, 1), (1, 0), (2, 1)]
    assert collected("joins.md", "priced") == [("early", 10), ("late", 12), ("unknown", None)]
    kept = collected("joins.md", "kept")
    assert len(kept) == 580 and sum(row["amount_back"] is None for row in kept) == 10
    assert collected("joins.md", "named") == [("book", "ann"), ("pen", "bob")]
    assert collected("joins.md", "found") == [("book", "ann"), ("pen", None)]


def test_the_guide_to_joins_of_columns() -> None:
    rows = collected("joins.md", "returned")
    assert len(rows) == 290 + 280
    assert {row["amount_back"] - row["amount"] for row in rows} == {10, 20}


def test_the_guide_to_asynchronous_io() -> None:
    with local_cluster(2):
        squares = list(names_of("async.md")["squares"].execute_and_collect())
        assert sorted(squares) == [(n, n * n) for n in range(100)]
        repeated = names_of("async.md")["repeated"].execute_and_collect()
        assert sorted(repeated) == [(n, n * n) for n in range(100)]
