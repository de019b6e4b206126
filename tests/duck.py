"""DuckDB, which says what queries are worth: to open a database costs as much as ten small queries."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest


@cache
def _opened() -> Any:
    return pytest.importorskip("duckdb").connect(config={"threads": 1})


def connected() -> Any:
    """A connection to close: what it registers nobody else sees."""
    return _opened().cursor()
