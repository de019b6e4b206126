"""Jobs without a name: the same program goes on, and no two programs share anything."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from local_jobs import environment, finish, until

from penstock.core.errors import ConfigError
from penstock.core.job import JobID
from penstock.testing.local import LocalLauncher, local_cluster

PROGRAM = """
from pathlib import Path
from flow_graphs import Pace, log_sink
from local_jobs import NO_TIME, environment

HERE = Path(__file__).parent
ROOT = HERE.parent


def start(first, gate):
    keep = {"execution__checkpointing__externalized_checkpoint_retention": "RETAIN_ON_CANCELLATION"}
    env = environment(ROOT / "chk", **keep)
    env.set_parallelism(1)
    source = Pace(4000.0, HERE / gate).source(lambda i: str(first + i), 600)
    numbers = env.from_source(source, NO_TIME, "numbers").uid("numbers")
    numbers.sink_to(log_sink(HERE / f"out-{first}")).uid("out")
    return env.execute_async()


clients = [start(first, f"gate-{first}") for first in FIRST]
"""


def program(place: Path, *first: int) -> Path:
    place.mkdir(exist_ok=True)
    (place / "main.py").write_text(f"FIRST = {first}\n{PROGRAM}", encoding="utf-8")
    return place / "main.py"


def run(script: Path) -> list[Any]:
    clients: list[Any] = runpy.run_path(str(script), run_name="__main__")["clients"]
    return clients


def wait_for(launcher: LocalLauncher, job: int) -> None:
    until(lambda: launcher.jobs[job].facts()["checkpoints"] >= 2, "snapshots are published")


def test_a_program_started_again_goes_on(tmp_path: Path) -> None:
    script = program(tmp_path / "a", 0)
    with local_cluster() as launcher:
        (client,) = run(script)
        wait_for(launcher, 0)
        client.cancel().result()
    (tmp_path / "a" / "gate-0").touch()
    with local_cluster() as launcher:
        (client,) = run(script)
        finish(client)
        assert launcher.jobs[0].coordinator._restored is not None
        assert launcher.jobs[0].job.plan.job_name == f"main.py ({tmp_path / 'a'})"


def test_programs_of_one_name_in_two_places_are_two_jobs(tmp_path: Path) -> None:
    """Also those that look the same to the last step: only what they read differs."""
    with local_cluster() as launcher:
        clients = [*run(program(tmp_path / "a", 0)), *run(program(tmp_path / "b", 0))]
        for job, place in enumerate("ab"):
            wait_for(launcher, job)
            (tmp_path / place / "gate-0").touch()
        for client in clients:
            finish(client)
        ids: set[JobID] = {job.job_id for job in launcher.jobs}
        assert len(ids) == 2
        assert all(job.coordinator._restored is None for job in launcher.jobs)


def test_two_jobs_of_one_program_are_two_jobs(tmp_path: Path) -> None:
    """The second fenced the first; started again, the first began with the state of the second."""
    script = program(tmp_path / "a", 0, 1000)
    with local_cluster() as launcher:
        clients = run(script)
        for job in (0, 1):
            wait_for(launcher, job)
        names = [job.job.plan.job_name for job in launcher.jobs]
        for client in clients:
            client.cancel().result()
    for first in (0, 1000):
        (tmp_path / "a" / f"gate-{first}").touch()
    with local_cluster() as launcher:
        for client in run(script):
            finish(client)
        assert [job.job.plan.job_name for job in launcher.jobs] == names
        assert all(job.coordinator._restored is not None for job in launcher.jobs)
    assert names[1] == f"{names[0]}, job 2"


def test_a_job_from_no_file_needs_a_name_for_its_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a notebook or a shell there is nothing to tell two programs by."""
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    scope: dict[str, Any] = {"env": environment(tmp_path / "chk")}
    exec(compile("env.from_collection([1]).print()", "<cell 1>", "exec"), scope)
    with local_cluster():
        exec(compile("text = env.explain()", "<cell 2>", "exec"), scope)
        with pytest.raises(ConfigError, match="no name and comes from no file"):
            exec(compile("env.execute()", "<cell 3>", "exec"), scope)
        exec(compile("env.execute('named')", "<cell 4>", "exec"), scope)
        scope["env"] = environment()
        exec(compile("env.from_collection([1]).print(); env.execute()", "<cell 5>", "exec"), scope)
