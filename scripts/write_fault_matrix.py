"""Run the fault matrix and rewrite the table in ``docs/guides/fault-matrix.md`` from its results.

python scripts/write_fault_matrix.py [arguments for pytest]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guides" / "fault-matrix.md"
TABLE = "| Sink |"
TEST = "tests/spark/test_fault_matrix.py"


def main(arguments: Sequence[str]) -> int:
    """Run the tests; if all are well, keep what stands before the table and replace the table."""
    with tempfile.TemporaryDirectory() as out:
        environment = {**os.environ, "PENSTOCK_MATRIX_OUT": out}
        command = [sys.executable, "-m", "pytest", TEST, *arguments]
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        lines = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(Path(out).glob("*.json"))]
    if code != 0 or not lines:
        print(f"the tests ended with {code}: {PAGE.name} is left as it was", file=sys.stderr)
        return code or 1
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index(TABLE)] + table(lines), encoding="utf-8")
    return 0


def table(lines: Sequence[dict[str, Any]]) -> str:
    """One line per sink and victim, one column per point.

    A line exists if its content was exact; a cell if its kill was seen, and it tells after which checkpoint.
    """
    points = ["1 before barrier", "2 flushed", "3 prepared", "4 published", "5 in the middle"]
    head = ["Sink", "Killed", *points, "Rows"]
    rows = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for line in lines:
        cells = [f"exact ({cell['epoch']})" for cell in line["cells"]]
        rows.append(f"| {' | '.join([line['sink'], line['victim'], *cells])} | {line['rows']} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
