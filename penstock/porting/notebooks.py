"""Notebooks are looked into and not rewritten: what their cells need is listed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from penstock.porting.equivalents import FROM, TO
from penstock.porting.findings import Finding, Kind
from penstock.porting.program import port

_MAGIC = re.compile(r"^\s*[%!].*$", re.MULTILINE)


def look_into(text: str) -> list[Finding]:
    """What the code cells need. Raises ``ValueError`` for what is no notebook."""
    found: list[Finding] = []
    for number, cell in enumerate(_cells(json.loads(text)), 1):
        source = "".join(cell.get("source", ""))
        if cell.get("cell_type") != "code" or FROM not in source:
            continue
        found += [replace(finding, cell=number) for finding in _needs(_MAGIC.sub("pass", source))]
    return found


def _cells(notebook: Any) -> list[Any]:
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ValueError("this is no notebook of format 4")
    return cells


def _needs(source: str) -> list[Finding]:
    try:
        after, found = port(source)
    except SyntaxError as error:
        return [Finding(error.lineno or 1, "not Python", f"{error.msg}: change {FROM} by hand", Kind.BY_HAND)]
    lines = zip(source.splitlines(), after.splitlines(), strict=True)
    changed = [number for number, (old, new) in enumerate(lines, 1) if old != new]
    todo = f"notebooks are not rewritten: change {FROM} to {TO} here"
    return sorted([*found, *(Finding(number, FROM, todo, Kind.BY_HAND) for number in changed)])
