"""A real server of Spark Connect: every way into Penstock says why it cannot be used, and what can."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import run

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


def test_connect_is_refused_by_every_door(tmp_path: Path) -> None:
    """What stands in the way is not that slots could not call: they can."""
    for package in ("grpc", "grpc_status", "zstandard"):
        pytest.importorskip(package, reason="Spark Connect is not here: pip install 'pyspark[connect]'")
    said = run(tmp_path, "connect.py").lines
    assert "called back: 2" in said
    refused = {line.partition(": ")[0] for line in said if "classic session" in line}
    ways = {"job", "batch", "frame_in", "frame_out", "epochs", "state_in", "state_changed", "state_out"}
    assert refused == ways, said
