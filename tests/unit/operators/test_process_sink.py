"""The operator at the end of a chain."""

from process_harness import batch, opened

from penstock.connectors.sink import Sink, SinkWriter
from penstock.core.clock import ManualClock
from penstock.operators.sink_operator import SinkOperator
from penstock.snapshot.state_assignment import redistribute
from penstock.state.operator_state import ListMode, ListSnapshot, OperatorStateStore


class FileLikeWriter(SinkWriter):
    """Remembers each call; hands rows out as one committable per epoch; keeps a file number."""

    def __init__(self, context):
        self.context = context
        self.calls = []
        self.rows = []
        self.number = max(context.restored_state, default=0)
        self.due = None

    def write(self, batch):
        self.rows.extend(batch.to_rows())
        self.due = 1000

    def flush(self, end_of_input):
        self.calls.append(("flush", end_of_input))

    def prepare_commit(self, epoch):
        self.calls.append(("prepare", epoch))
        self.number += 1
        rows, self.rows = self.rows, []
        return [(self.number, tuple(rows))]

    def snapshot(self, epoch):
        self.calls.append(("snapshot", epoch))
        return [self.number]

    def next_flush_ms(self):
        return self.due

    def on_time(self, now_ms):
        self.calls.append(("time", now_ms))
        self.due = None

    def close(self):
        self.calls.append(("close",))


class FileLikeSink(Sink):
    def create_writer(self, context):
        return FileLikeWriter(context)


def start(**kwargs):
    sent = []
    settings = {"generation": 3, "checkpointing": True, "to_driver": sent.append}
    op, ctx, _ = opened(SinkOperator(FileLikeSink()), **settings, **kwargs)
    return op, ctx, sent


def test_barrier_order_and_committables():
    op, ctx, _ = start()
    writer = op.writer
    op.process(batch([1, 2]))
    op.process(batch([]))
    op.prepare_barrier(7)
    assert writer.calls == [("flush", False), ("prepare", 7), ("snapshot", 7)]
    assert op.committables(7) == [(1, (1, 2))]
    assert op.committables(7) == []
    assert ctx.operator_state.snapshot()["writer"].items == (1,)
    op.process(batch([3]))
    op.finish()
    op.prepare_barrier(8)
    assert ("flush", True) in writer.calls
    assert op.committables(8) == [(2, (3,))]
    op.close()
    op.close()
    assert writer.calls.count(("close",)) == 1


def test_writer_learns_where_it_runs_and_gets_its_state_back():
    op, ctx, sent = start(subtask=1, parallelism=2)
    op.prepare_barrier(1)
    store = OperatorStateStore(ctx.operator_state.snapshot())
    again, _, sent = start(store=store, subtask=1, parallelism=2)
    context = again.writer.context
    assert (context.job_name, context.sink_id, context.subtask, context.parallelism) == (
        "job",
        "op",
        1,
        2,
    )
    assert (context.generation, context.checkpointing, context.restored_state) == (3, True, (1,))
    context.to_driver("hello")
    assert sent == ["hello"]
    again.prepare_barrier(2)
    assert again.committables(2) == [(2, ())]


def test_writer_is_called_when_its_time_has_come():
    op, _, _ = start(clock=ManualClock(0))
    assert op.next_processing_time() is None
    op.process(batch([1]))
    assert op.next_processing_time() == 1000
    op.on_processing_time(999)
    assert op.writer.calls == []
    op.on_processing_time(1000)
    assert op.writer.calls == [("time", 1000)] and op.next_processing_time() is None


def test_what_a_writer_notes_reaches_every_writer_of_the_next_attempt():
    class Noting(FileLikeWriter):
        def notes(self):
            return [("from", self.context.subtask)]

    class NotingSink(Sink):
        def create_writer(self, context):
            return Noting(context)

    held = []
    for subtask in range(2):
        settings = {"generation": 1, "checkpointing": True, "to_driver": print}
        op, ctx, _ = opened(SinkOperator(NotingSink()), subtask=subtask, parallelism=2, **settings)
        op.prepare_barrier(1)
        found = ctx.operator_state.snapshot()
        held.append({name: (state.mode.value, state.items) for name, state in found.items()})
    for share in redistribute(held, 3):
        restored = {name: ListSnapshot(ListMode(mode), tuple(items)) for name, (mode, items) in share.items()}
        again, _, _ = start(store=OperatorStateStore(restored), parallelism=3)
        assert again.writer.context.restored_notes == (("from", 0), ("from", 1))
    assert start()[0].writer.context.restored_notes == ()
