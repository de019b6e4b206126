"""The rig of the coordinator's tests is used here, too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "coordinator"))
