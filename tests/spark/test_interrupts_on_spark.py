"""Ctrl-C in the start and in the run of a job on Spark, and a JVM that dies under a running one.

``scripts/interrupt.py`` tries many more moments.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import interrupt
from processes import command_line, descendants, kill

from penstock.cli.main import SPARK_LOST
from tests.patience import PATIENCE_S, PROGRAM_S

pytestmark = [pytest.mark.spark, pytest.mark.kills]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "PATIENCE_S", PROGRAM_S)
    monkeypatch.setattr(interrupt, "GONE_S", PATIENCE_S)


@pytest.mark.parametrize("part", ["start", "run"])
def test_an_interrupt_is_heard_and_the_printed_command_goes_on_exactly(part: str, tmp_path: Path) -> None:
    at_s = random.Random(13).uniform(0.0, 3.0)
    done = interrupt.trial(tmp_path, part, at_s, signal.SIGINT, as_python=part == "run")
    assert done.wrong(signal.SIGINT) == [], done.said
    assert part == "start" or done.before is not None


def test_a_driver_whose_jvm_is_killed_ends_and_goes_on_when_it_is_started_again(tmp_path: Path) -> None:
    """It used to restart its job for ever."""
    place = interrupt.Place(tmp_path, as_python=False)
    process = place.start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while place.newest() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        kill(*[pid for pid in descendants(process.pid) if "java" in command_line(pid).partition(" ")[0]])
        status, said = interrupt.ended(process)
        assert status == SPARK_LOST and "start the program again" in said, said
        assert place.left() == () and place.newest() is not None
        subprocess.run(place.command, cwd=tmp_path, env=place.environment(), timeout=PROGRAM_S, check=True)
        assert place.is_exact()
    finally:
        place.kill()
