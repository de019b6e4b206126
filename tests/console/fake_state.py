"""State of a job that does not exist: what its newest snapshot would hold."""

from __future__ import annotations

import time
from typing import Any

SNAPSHOT = {"id": 40, "path": "file:/data/chk/clicks/chk-40", "created": int(time.time() * 1000) - 4000}
HOSTILE = "{'user': '<img src=x onerror=alert(1)>', 'token': ***}"


def states() -> Any:
    """``/jobs/:id/penstock/state``."""
    rows = [
        ("totals", "count", "keyed, per window", 1_204, 48_000, "key string, value int64", []),
        ("users", "profile", "keyed", 40, 9_000, "key string", ["value"]),
        ("Source: clicks", "", "list", None, 812, "", ["item"]),
    ]
    names = ("operator", "state", "kind", "entries", "bytes", "typed", "pickled")
    made = [dict(zip(names, row, strict=True), operator_id=f"{at}" * 32) for at, row in enumerate(rows)]
    return {"snapshot": SNAPSHOT, "note": None, "states": made, "truncated": False}


def looked_up(operator: str, state: str, key: str) -> Any:
    """``/jobs/:id/penstock/state/:operator/:state?key=``."""
    rows = [{"key": "'ann'", "value": HOSTILE}] if key == "ann" else []
    return {
        "snapshot": SNAPSHOT,
        "operator": operator,
        "state": state,
        "key": key,
        "rows": rows,
        "truncated": False,
    }


def tail() -> Any:
    """``/jobs/:id/vertices/:v/penstock/tail``."""
    records = [{"slot": at, "at": SNAPSHOT["created"], "text": f"{HOSTILE} {at}"} for at in range(3)]
    return {"enabled": True, "note": None, "of": "input", "records": records}
