"""Operators of changing streams in one process, over subtasks, with snapshots between any two batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.changes import CHANGE
from penstock.core.clock import ManualClock
from penstock.core.codes import KEY_HASH
from penstock.core.ids import OperatorId
from penstock.core.keygroups import hash_array, key_groups
from penstock.core.metrics import MetricGroup
from penstock.dataframe.collecting import FinalTable
from penstock.operators.changes.key_hash import KeyHashOperator
from penstock.operators.operator import OperatorContext, OperatorRuntime, RuntimeInfo
from penstock.state.chunks import FrozenChunks
from penstock.state.heap.backend import heap_state
from penstock.state.operator_state import OperatorStateStore

MAX_PARALLELISM = 128


class Gathered:
    """An output that keeps all batches."""

    def __init__(self):
        self.batches = []

    def emit(self, batch):
        self.batches.append(batch)

    def side(self, tag, batch):
        raise AssertionError(tag)

    def watermark(self, time):
        self.time = time

    def idle(self, is_idle):
        raise AssertionError("nobody is idle here")

    def take(self):
        taken, self.batches = self.batches, []
        return taken


def context(keyed=None, subtask=0, parallelism=1, clock=None, batch=False):
    info = RuntimeInfo("job", "task", "step", subtask, parallelism, MAX_PARALLELISM, 0)
    return OperatorContext(
        OperatorId("step"),
        info,
        Gathered(),
        clock or ManualClock(),
        keyed or heap_state(),
        OperatorStateStore(),
        MetricGroup(),
        runtime=OperatorRuntime(batch=batch),
    )


class Rig:
    """``make`` makes the operator; ``inputs`` are pairs of a schema and key columns."""

    def __init__(self, make, *inputs, parallelism=2, clock=None, batch=False):
        self.make = make
        self.clock = clock or ManualClock()
        self.batch_mode = batch
        self.hashing = []
        for schema, keys in inputs:
            hashing = KeyHashOperator(schema, keys)
            hashing.open(context())
            self.hashing.append(hashing)
        self.rows = []
        self.start(parallelism, [])

    def start(self, parallelism, frozen):
        self.parallelism = parallelism
        self.operators = []
        for subtask in range(parallelism):
            keyed = heap_state()
            for part in frozen:
                for batch in part.record_batches():
                    assert batch.schema.names[0] == "__key_group"
                    owners = batch.column(0).to_numpy() * parallelism // MAX_PARALLELISM
                    keyed.restore_chunks(part.name, [batch.filter(pa.array(owners == subtask))])
            operator = self.make()
            operator.open(context(keyed, subtask, parallelism, self.clock, self.batch_mode))
            self.operators.append(operator)

    def rescale(self, parallelism):
        frozen = [part for operator in self.operators for part in operator.ctx.keyed.freeze()]
        assert all(isinstance(part, FrozenChunks) for part in frozen)
        self.start(parallelism, frozen)

    def batch(self, columns, input_index=0):
        hashing = self.hashing[input_index]
        hashing.process(Batch.of_columns(columns))
        for batch in hashing.ctx.out.take():
            hashes = hash_array(batch.columns.column(KEY_HASH))
            owners = key_groups(hashes, MAX_PARALLELISM) * self.parallelism // MAX_PARALLELISM
            for subtask, operator in enumerate(self.operators):
                operator.process(batch.take(np.flatnonzero(owners == subtask)), input_index)
        self.gather()

    def watermark(self, time):
        for operator in self.operators:
            operator.on_watermark(time)
        self.gather()

    def gather(self):
        for operator in self.operators:
            for batch in operator.ctx.out.take():
                assert len(batch)
                self.rows += batch.columns.to_pylist()

    def take(self):
        taken, self.rows = self.rows, []
        return taken

    def final(self, key=None):
        """The table that is left."""
        table = FinalTable(key)
        for row in self.take():
            table.apply({CHANGE: 0, **row})
        return table.rows()
