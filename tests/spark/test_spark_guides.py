"""The code of the guides that need a Spark session runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import run

pytestmark = pytest.mark.spark


def test_the_code_of_the_guides(tmp_path: Path) -> None:
    assert run(tmp_path, "guides.py", "spark.md", "state-processor.md").wait_for("done")
