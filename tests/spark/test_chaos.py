"""A short soak with a fixed seed: a worker is killed, one falls silent, and every record is there once."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import chaos

from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.spark, pytest.mark.kills]

SUMMARY = r"kills=2 recoveries=2 median_recovery_s=\S+ worst_recovery_s=\S+ lost=0 duplicated=0"


def test_two_troubles_and_nothing_lost_or_repeated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaos, "PATIENCE_S", PATIENCE_S)
    code = chaos.main(["--rounds", "2", "--seed", "4", "--master", "local[2]", "--kinds", "worker", "pause"])
    printed = capsys.readouterr().out
    assert code == 0 and re.search(SUMMARY, printed), printed
    assert {line.split()[2] for line in printed.splitlines() if line.startswith("round")} == {
        "worker,",
        "pause,",
    }
    assert re.search(r"^pause +1 .* 0 +0$", printed, re.MULTILINE), "a line per kind"
