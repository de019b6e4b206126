"""What a driver does grows as its slots do: counted in steps, messages and bytes, not in time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.played_slots import Job
from penstock.core.documents import load
from penstock.exchange.control_frames import from_bytes
from penstock.graph.budget import NetworkBudget

FEW, MANY = 12, 48
VERTICES = 10


def steps(work: Callable[[], Any]) -> int:
    """How many lines of Python are run for it."""
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return seen

    before = sys.gettrace()
    sys.settrace(seen)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@dataclass
class Counted:
    """What a job did."""

    steps: dict[str, int] = field(default_factory=dict)
    deploy: bytes = b""
    said: int = 0
    said_bytes: int = 0
    heard: int = 0
    heard_bytes: int = 0


def played(slots: int, directory: Path) -> Counted:
    """Start, a second of heartbeats, a checkpoint, a restart from it; and what a slot does to begin."""
    job, found = Job(slots, directory), Counted()
    found.steps["start"] = steps(job.start)
    found.deploy = job.wires.deploy
    found.steps["heartbeats"] = steps(job.beat)
    job.checkpoint()
    job.wires.messages = job.wires.bytes = job.heard = job.heard_bytes = 0
    found.steps["checkpoint"] = steps(lambda: job.checkpoint(in_files=True))
    found.said, found.said_bytes = job.wires.messages, job.wires.bytes
    found.heard, found.heard_bytes = job.heard, job.heard_bytes
    found.steps["restart"] = steps(job.restart)
    found.steps["slot"] = steps(lambda: (from_bytes(job.wires.deploy), NetworkBudget(job.plan)))
    return found


@pytest.fixture(scope="module")
def few_and_many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Counted, Counted]:
    few, many = (played(slots, tmp_path_factory.mktemp(f"of-{slots}")) for slots in (FEW, MANY))
    return few, many


@pytest.mark.parametrize("phase", ["start", "heartbeats", "checkpoint", "restart", "slot"])
def test_four_times_the_slots_are_four_times_the_work(few_and_many: Any, phase: str) -> None:
    few, many = few_and_many
    assert many.steps[phase] <= 1.25 * MANY / FEW * few.steps[phase], (few.steps, many.steps)


def test_messages_and_bytes_of_a_checkpoint(few_and_many: tuple[Counted, Counted]) -> None:
    """Each slot is told when it begins and when it is published, and each subtask answers once."""
    for counted, slots in zip(few_and_many, (FEW, MANY), strict=True):
        assert (counted.said, counted.heard) == (2 * slots, VERTICES * slots)
    few, many = few_and_many
    assert many.said_bytes == MANY // FEW * few.said_bytes
    assert many.heard_bytes <= 1.01 * MANY / FEW * few.heard_bytes, "numbers have more digits"


def test_a_deployment_grows_by_the_addresses_alone(few_and_many: tuple[Counted, Counted]) -> None:
    rests = []
    for counted, slots in zip(few_and_many, (FEW, MANY), strict=True):
        deploy = from_bytes(counted.deploy)
        assert len(load(deploy.peers)) == slots and len(deploy.peers) <= 64 * slots
        rests.append(len(counted.deploy) - len(deploy.peers))
    assert abs(rests[1] - rests[0]) <= 100, "the plan says how many there are"
