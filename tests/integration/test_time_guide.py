"""The guide to event time is true: its code runs, its benchmark says what it says."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.local import local_cluster

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guides" / "time.md").read_text(encoding="utf-8")


def test_the_code_runs() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL))
    with local_cluster(slots=2):
        exec(compile(code, "<guide>", "exec"), names)
    assert sum(count for _, count in names["results"]) == 5_000
    assert len(names["results"]) == 3 * 5
    assert len(names["timed"]) == 3
    assert names["guarded"].max_ahead_ms == 600_000
    assert names["aligned"].alignment.update_ms == 200


@pytest.mark.parametrize(("pattern", "earlier"), [("stable", -0.03), ("drifting", 0.15), ("bursty", 0.2)])
def test_learned_watermarks_meet_the_target_and_are_early(pattern: str, earlier: float) -> None:
    """A shorter run than the page's, with another seed."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    bench = importlib.import_module("learned_watermarks")
    data = bench.stream(pattern, 10, seed=21)
    learned = bench.run(bench.WatermarkStrategy.for_learned_lateness(bench.TARGET), data)
    assert bench.TARGET / 2 <= learned.late <= bench.TARGET * 2
    _, fixed = bench.same_late_share(learned.late, data)
    assert learned.delay_ms < fixed.delay_ms * (1 - earlier)
