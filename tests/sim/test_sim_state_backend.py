"""A state backend that is handed in, and knows nothing but the contract: exact output under all faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sim_graphs import GRAPHS, faults_of
from sim_graphs_rocks import DISK, on_disk

from penstock.state.backend import FileBackend
from penstock.state.registry import BUILT_IN, OpenBackend, StateBackends
from penstock.state.rocks.backend import RocksBackend
from penstock.testing import Faults, simulate
from tests.log_backend import LogBackend

SEEDS = range(6)
STATEFUL = ("repartition", "two_inputs", "tumbling", "session", "shared_panes", "interval_join", "patterns")
"""Values, timers, lists in windows, merging windows, panes, join buffers and dicts that change in place."""
MOVING = ("two_inputs", "session")


def open_log(options: Mapping[str, Any], max_parallelism: int, shares_files: bool) -> LogBackend:
    return LogBackend(Path(DISK), max_parallelism, shares_files)


def watched(open_backend: OpenBackend, counts: Counter[str]) -> OpenBackend:
    """Counts what the backends are used for: ``restore`` of own files, and ``read`` for others."""

    def opened(*arguments: Any) -> FileBackend:
        backend: Any = open_backend(*arguments)
        checkpoint, restore, read = backend.checkpoint, backend.restore_files, backend.read_files
        doing = ["read"]

        def restore_files(*given: Any) -> Any:
            doing[0] = "restore"
            return restore(*given)

        backend.checkpoint = lambda schemas: (counts.update(["checkpoint"]), checkpoint(schemas))[1]
        backend.restore_files = restore_files
        backend.read_files = lambda *given: (counts.update(doing), read(*given))[1]
        found: FileBackend = backend
        return found

    return opened


@pytest.mark.parametrize("graph", STATEFUL)
def test_output_is_exact_with_another_backend(graph: str) -> None:
    counts: Counter[str] = Counter()
    backends = StateBackends(
        {**BUILT_IN.openers, LogBackend.name: watched(open_log, counts)}, LogBackend.name
    )
    report = simulate(GRAPHS[graph], SEEDS, faults_of(graph), name=graph, backends=backends)
    assert report.seeds == len(SEEDS) and report.snapshots > 4 * len(SEEDS)
    assert counts["checkpoint"] > report.snapshots and counts["restore"] and not counts["read"]


def test_state_moves_between_backends() -> None:
    """New drivers keep state in RocksDB, and then in the log again: each reads the files of the other."""
    logs: Counter[str] = Counter()
    databases: Counter[str] = Counter()
    openers = {
        LogBackend.name: watched(open_log, logs),
        RocksBackend.name: watched(RocksBackend.open, databases),
    }
    backends = StateBackends(openers, LogBackend.name)
    faults = Faults(driver_crash=0.05, other_settings=3.0, rescale=0.3)
    for graph in MOVING:
        build = GRAPHS[graph]
        simulate(build, range(16), faults, name=graph, other=on_disk(build), backends=backends)
    assert logs["read"] > 5 and databases["read"] > 3
