"""Ctrl-C in the start and in the run of a job on Spark; ``scripts/interrupt.py`` tries many more moments."""

from __future__ import annotations

import random
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import interrupt

from tests.patience import PROGRAM_S

pytestmark = [pytest.mark.spark, pytest.mark.kills]


@pytest.mark.parametrize("part", ["start", "run"])
def test_an_interrupt_is_heard_and_the_printed_command_goes_on_exactly(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupt, "PATIENCE_S", PROGRAM_S)
    at_s = random.Random(13).uniform(0.0, 3.0)
    done = interrupt.trial(tmp_path, part, at_s, signal.SIGINT, as_python=part == "run")
    assert done.wrong(signal.SIGINT) == [], done.said
    assert part == "start" or done.before is not None
