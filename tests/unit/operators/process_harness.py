"""What the operator tests share: an output that remembers, contexts, and snapshot-and-restore."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.ids import OperatorId
from penstock.core.metrics import MetricGroup
from penstock.operators.operator import OperatorContext, OperatorRuntime, RuntimeInfo
from penstock.state.heap.backend import heap_state
from penstock.state.keyed import KeyedState
from penstock.state.operator_state import OperatorStateStore


class RecordingOutput:
    """Remembers everything, in order."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.batches: list[Batch] = []
        self.sides: dict[str, list[tuple[Any, int]]] = {}

    def emit(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.log.extend(zip(batch.to_rows(), batch.time_list(), strict=True))

    def side(self, tag: str, batch: Batch) -> None:
        self.sides.setdefault(tag, []).extend(zip(batch.to_rows(), batch.time_list(), strict=True))

    def watermark(self, time: int) -> None:
        self.log.append(("WM", time))

    def idle(self, is_idle: bool) -> None:
        self.log.append(("IDLE", is_idle))

    @property
    def rows(self) -> list[Any]:
        return [row for batch in self.batches for row in batch.to_rows()]


def make_ctx(
    clock: ManualClock | None = None,
    keyed: KeyedState | None = None,
    store: OperatorStateStore | None = None,
    subtask: int = 0,
    parallelism: int = 1,
    **runtime: Any,
) -> OperatorContext:
    return OperatorContext(
        operator_id=OperatorId("op"),
        info=RuntimeInfo("job", "task", "step", subtask, parallelism, 128, 0, {"a": "b"}),
        out=RecordingOutput(),
        clock=clock or ManualClock(),
        keyed=keyed or heap_state(),
        operator_state=store or OperatorStateStore(),
        metrics=MetricGroup(),
        runtime=OperatorRuntime(**runtime),
    )


def opened(operator: Any, **kwargs: Any) -> tuple[Any, OperatorContext, Any]:
    """The operator, opened, its context and its output."""
    ctx = make_ctx(**kwargs)
    operator.open(ctx)
    return operator, ctx, ctx.out


def copy_of(keyed: KeyedState) -> KeyedState:
    """Freeze, pickle as a snapshot would, rebuild."""
    frozen = keyed.freeze()
    dump = pickle.dumps([(f.name, f.shape, list(f.items())) for f in frozen])
    for f in frozen:
        f.release()
    rebuilt = heap_state()
    for name, shape, items in pickle.loads(dump):
        table = rebuilt.table(name, shape)
        for entry, value in items:
            table.put(entry, value)
    return rebuilt


def batch(rows: list[Any], times: list[int] | None = None, keys: list[Any] | None = None) -> Batch:
    return Batch.of_rows(rows, None if times is None else np.array(times, np.int64), keys)
