"""Keys and values of the script's own classes, without Spark: killed, and started again in every way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import script_keys
from flow_graphs import read_text

JOBS = Path(script_keys.__file__).parent
RUNS = {
    "python": [],
    "python -m": ["-m"],
    "penstock run": ["-c", "from penstock.cli.main import main; main()", "run"],
}


def command(how: str, work: Path, backend: str) -> list[str]:
    script = "script_keys" if how == "python -m" else str(JOBS / "script_keys.py")
    return [sys.executable, *RUNS[how], script, "here", str(work), backend]


@pytest.mark.parametrize(("how", "backend"), [(how, "hashmap") for how in RUNS] + [("python", "rocksdb")])
def test_a_script_that_is_killed_goes_on_with_its_keys(tmp_path: Path, how: str, backend: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(JOBS), *sys.path])}
    again = command(how, tmp_path, backend)
    with subprocess.Popen([*again, "wait"], env=environment, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert any(line == "ready\n" for line in first.stdout), "the program ended before it was ready"
        first.kill()
    done = subprocess.run(again, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert read_text(tmp_path / "out") == script_keys.expected()
