"""The guide to testing is true: its code runs, and the bug it plants is found."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import Faults, SimSink, SimSource, SimulationFailed, simulate
from penstock.testing.sim.simulation import Simulation

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guides" / "testing.md"
EXAMPLE = ROOT / "examples" / "testing" / "session_bug.py"


def test_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec("\n".join(blocks), {"__name__": "guide"})
    assert "sink 'sessions' lacks" in capsys.readouterr().out


def test_the_planted_bug_is_found_by_verify_and_by_simulate(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    told = capsys.readouterr().out
    for tool in ("verify", "simulate"):
        assert f"{tool}: NumberSessions is right" in told
        assert f"{tool}: NumberSessionsWrong is wrong" in told
    assert "restored after item 3" in told and "sink 'sessions' lacks" in told


def forgetful(env: Any) -> None:
    seen: list[int] = []

    def count(value: int) -> int:
        seen.append(value)
        return len(seen)

    source = env.add_source(SimSource([list(range(100))])).set_parallelism(1)
    source.map(count).set_parallelism(1).sink_to(SimSink("out"))


def test_a_failure_tells_how_to_see_it_again() -> None:
    with pytest.raises(SimulationFailed) as caught:
        simulate(forgetful, range(50), Faults(slot_crash=0.05))
    failed = caught.value
    text = str(failed)
    assert f"simulate(..., seeds=[{failed.seed}])" in text
    for part in ("FAULT slot crash", "triggered by driver 1", "acknowledged by", "committed out/"):
        assert part in text
    with pytest.raises(SimulationFailed) as again:
        simulate(forgetful, [failed.seed], Faults(slot_crash=0.05))
    assert str(again.value) == text


def test_a_job_that_fails_by_itself_is_reported_at_once() -> None:
    def broken(env: Any) -> None:
        env.add_source(SimSource([[1, 0]])).map(lambda i: 1 // i).sink_to(SimSink("out"))

    with pytest.raises(
        SimulationFailed, match=r"(?s)without any fault: driver 1 ended as FAILED: .*ZeroDivision"
    ):
        assert Simulation(broken).expected


def test_simulation_ends_are_for_simulations() -> None:
    with pytest.raises(RuntimeError, match="only inside"):
        SimSink("out").create_committer().commit(["x"])
