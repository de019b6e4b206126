"""``make test`` leaves no test out."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_is_in_one_run() -> None:
    runs = re.findall(r"\$\(PYTEST\) (tests/(?!.*\.py).*)", (ROOT / "Makefile").read_text())
    places = sorted(place for run in runs for place in run.partition(" -m ")[0].split())
    there = {path.relative_to(ROOT).parts[1] for path in (ROOT / "tests").rglob("test_*.py")}
    assert places == sorted([*(f"tests/{place}" for place in there), "tests/spark"])
    assert {run for run in runs if "spark" in run} == {"tests/spark -m kills", 'tests/spark -m "not kills"'}
