"""Shared test set-up: the graphs of the exactly-once tests are importable everywhere."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "spark" / "jobs"))
