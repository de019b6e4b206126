"""What a program meets that was written for another engine and is tried on one machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import run

pytestmark = pytest.mark.spark


def test_steps_that_nobody_reads_run(tmp_path: Path) -> None:
    run(tmp_path, "laptop.py", tmp_path)
    for mode in ("STREAMING", "BATCH"):
        for step in ("alone", "beside", "apart"):
            assert sorted((tmp_path / f"{step} {mode}").read_text().split()) == ["1", "2", "3"], (step, mode)
