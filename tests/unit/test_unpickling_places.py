"""Every place that unpickles without a guard is known, and who wrote the bytes there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "penstock"

UNGUARDED = {
    "exchange/control_frames.py": "messages of the driver and of slots that hold objects of the program",
    "core/pickling.py": "programs on their way to slots, and what peers of the job send",
    "core/stand_ins.py": "tools that were told that the snapshot is trusted",
    "core/unpickling.py": "the guard itself",
    "exchange/codec.py": "records of peers that know the job's secret",
    "state/rocks/values.py": "rows that this process has written itself; the guard comes with a snapshot",
    "task/slot.py": "the plan, from the driver",
    "spark/state_frames.py": "results of Spark's tasks",
    "spark/batch/task.py": "the work of a vertex, from the driver",
    "batch/wire.py": "records in Spark's shuffles",
    "batch/pieces.py": "pieces of records in Spark's shuffles, and in this process's own nameless files",
    "batch/job.py": "results of Spark's tasks",
}


def unpickles(file: Path) -> Iterator[int]:
    """Lines that unpickle with nothing to stop them; what is loaded from text, or JSON, is none of them."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    plain = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module in ("pickle", "cloudpickle", "penstock.core.pickling")
        for alias in node.names
        if alias.name in ("loads", "load", "Unpickler")
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("loads", "load", "Unpickler"):
            if isinstance(node.value, ast.Name) and node.value.id in ("pickle", "cloudpickle", "by_value"):
                yield node.lineno
        elif isinstance(node, ast.Name) and node.id in plain and isinstance(node.ctx, ast.Load):
            yield node.lineno


def test_nobody_else_unpickles() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if file.relative_to(PACKAGE).parts[0] != "testing"]
    found = {str(file.relative_to(PACKAGE)): list(unpickles(file)) for file in files}
    unknown = {name: lines for name, lines in found.items() if lines and name not in UNGUARDED}
    assert not unknown, (
        f"use penstock.core.unpickling.loads_stored, or say here who wrote the bytes: {unknown}"
    )
    assert not [name for name in UNGUARDED if not found[name]], "these do not unpickle any more"
