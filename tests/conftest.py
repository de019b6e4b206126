"""Shared test set-up: the graphs of the exactly-once tests are importable everywhere."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["tests.servers"]

sys.path.insert(0, str(Path(__file__).parent / "spark" / "jobs"))


@pytest.fixture
def quick_disk() -> Iterator[Path]:
    """A directory for files that are synced often and not kept: in memory, where there is such a place."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        yield Path(place)
