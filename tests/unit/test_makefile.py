"""``make test`` leaves no test out."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_directory_of_tests_is_in_one_run() -> None:
    runs = re.findall(r"\$\(PYTEST\) (tests/(?!.*\.py).*)", (ROOT / "Makefile").read_text())
    named = sorted(place for run in runs for place in run.split())
    there = {path.relative_to(ROOT).parts[1] for path in (ROOT / "tests").rglob("test_*.py")}
    assert named == sorted(f"tests/{place}" for place in there)
