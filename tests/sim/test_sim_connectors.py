"""Real sinks in a simulated job: their files are on this machine, everything else is simulated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from flow_graphs import log_sink, read_log, read_text, text_file_sink
from sim_graphs import Env, numbers, untimed

from penstock.connectors.sink import Sink
from penstock.testing import Faults, SimSource
from penstock.testing.sim.run import tell_story
from penstock.testing.sim.simulation import Simulation

DATA = numbers(2, 80)
Make, Read = Callable[[Path], Sink], Callable[[Path], list[str]]


@pytest.mark.parametrize(
    ("make", "read"), [(text_file_sink, read_text), (log_sink, read_log)], ids=["files", "log"]
)
def test_real_sinks_are_exact_too(make: Make, read: Read, tmp_path: Path) -> None:
    for seed in range(20):
        out = tmp_path / f"{seed}"

        def job(env: Env, out: Path = out) -> None:
            stream = env.from_source(SimSource(DATA), untimed(), "numbers").uid("numbers")
            stream.map(str).sink_to(make(out)).uid("out")

        result = Simulation(job).play(seed, Faults.all())
        assert result.problem is None, tell_story(result.story)
        assert read(out) == sorted(str(i) for part in DATA for i in part), tell_story(result.story)
