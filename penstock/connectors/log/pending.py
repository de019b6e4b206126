"""Names of staged transactions, in the directory ``pending`` of a partition."""

from __future__ import annotations

import re
from pathlib import Path

PENDING = "pending"
NAME = re.compile(
    r"(?P<sink>[0-9a-f]{16})-(?P<subtask>\d+)-(?P<run>\w+)-(?P<generation>\d+)(-(?P<epoch>\d+))?\.\w+"
)


def staged_runs(partition: Path) -> set[str]:
    """The runs of all writers that have a file there."""
    names = (NAME.fullmatch(path.name) for path in (partition / PENDING).iterdir())
    return {name["run"] for name in names if name is not None}
