"""The daemon that workers are forked from is up whatever the files beside the program are called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UP = """
import runpy, sys
import penstock.spark.daemon as daemon
before = list(sys.path)
daemon.preload()
assert sys.path == before, sys.path
print("pandas" in sys.modules, "pyarrow.dataset" in sys.modules, sys.modules["numbers"].__file__)
"""


@pytest.mark.parametrize("by", [["-c", UP], ["-m", "started"]], ids=["by its text", "as a module"])
def test_files_beside_the_program_are_not_taken_for_modules_of_the_library(
    by: list[str], tmp_path: Path
) -> None:
    for name in ("numbers", "decimal", "fractions", "statistics"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a program of the user was run')\n")
    (tmp_path / "started.py").write_text(UP)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONSAFEPATH", None)
    done = subprocess.run(
        [sys.executable, *by], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pandas_is, arrow_is, numbers = done.stdout.split()
    assert (pandas_is, arrow_is) == ("True", "True") and not numbers.startswith(str(tmp_path))
