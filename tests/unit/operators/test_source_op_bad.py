"""Records that a reader could not decode, on their way through the source operator."""

from process_harness import opened
from test_source_op_reading import NONE, ListReader, ListSource, splits

from penstock.core.ids import MIN_TIME
from penstock.formats.bad_records import Diverted
from penstock.operators.source_operator import ERRORS_COUNTER, SourceOperator


class PickyReader(ListReader):
    """Cannot decode negative numbers; finds the last one only when it looks for the end."""

    bad = ()

    def poll(self, max_rows):
        batch = super().poll(max_rows)
        self.bad = [Diverted("s", self.split.id, row, b"", "negative", -row) for row in batch.rows if row < 0]
        return batch.take((batch.times >= 0).nonzero()[0])

    def take_diverted(self):
        taken, self.bad = self.bad, ()
        return list(taken)


class PickySource(ListSource):
    def open_split(self, split, position, clock):
        return PickyReader(self, split, position)


def test_bad_records_go_to_the_side_output_with_the_poll_that_found_them():
    source = PickySource()
    source.diverts_to = "bad"
    op, ctx, out = opened(SourceOperator(source, NONE))
    op.add_splits(splits(a=[1, -2, -3, -4, 5]))
    assert op.poll(2) == 2
    assert out.rows == [1]
    assert [(record.position, time) for record, time in out.sides["bad"]] == [(-2, 2)]
    assert op.poll(2) == 2, "only bad ones: the next poll is worth while all the same"
    op.prepare_barrier(1)
    assert [record.position for record, _ in out.sides["bad"]] == [-2, -3, -4]
    assert op.poll(2) == 1
    assert ctx.metrics.counter(ERRORS_COUNTER).count == 3


def test_without_a_side_output_they_are_only_counted():
    op, ctx, out = opened(SourceOperator(PickySource(), NONE))
    op.add_splits(splits(a=[-1, 2]))
    op.poll(5)
    assert out.sides == {} and out.rows == [2]
    assert ctx.metrics.counter(ERRORS_COUNTER).count == 1


def test_what_is_found_with_the_end_is_not_forgotten():
    class AtTheEnd(PickySource):
        def open_split(self, split, position, clock):
            reader = ListReader(self, split, position)
            found = [Diverted("s", split.id, 7, b"", "half a record")]
            reader.take_diverted = lambda: [found.pop()] if reader.at and found else []
            return reader

    source = AtTheEnd()
    source.diverts_to = "bad"
    op, _, out = opened(SourceOperator(source, NONE))
    op.add_splits(splits(a=[1]))
    op.no_more_splits()
    while not op.finished:
        op.poll(1)
    assert [(record.position, time) for record, time in out.sides["bad"]] == [(7, MIN_TIME)]
