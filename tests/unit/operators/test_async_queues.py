"""The queues of asynchronous I/O: whatever is answered when, order is kept where it must be."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.ids import EventTime
from penstock.operators.async_io.queues import Mark, OrderedQueue, Request, RequestQueue, UnorderedQueue

SCRIPTS = st.lists(st.sampled_from(["record", "record", "mark", "answer", "answer", "take"]), max_size=60)


def play(
    queue: RequestQueue, script: list[str], data: st.DataObject
) -> tuple[list[Any], list[Any], list[Any]]:
    """What went in, what came out, and which requests were answered, in order."""
    went_in: list[Any] = []
    came_out: list[Any] = []
    waiting: list[Request] = []
    answered: list[Request] = []
    for n, action in enumerate([*script, "take"]):
        if action == "record":
            waiting.append(Request(n, n))
            went_in.append(waiting[-1])
            queue.add(waiting[-1])
        elif action == "mark":
            went_in.append(Mark(idle=True))
            queue.add(went_in[-1])
        elif action == "answer" and waiting:
            request = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
            answered.append(request)
            queue.answered(request)
        elif action == "take":
            came_out += queue.take()
    assert {id(r) for r in queue.requests()} == {id(r) for r in went_in if isinstance(r, Request)} - {
        id(r) for r in came_out
    }
    assert queue.is_empty() == (len(came_out) == len(went_in))
    return went_in, came_out, answered


@given(SCRIPTS, st.data())
def test_in_order_exactly_the_answered_beginning_comes_out(script: list[str], data: st.DataObject) -> None:
    went_in, came_out, answered = play(OrderedQueue(), script, data)
    ready = 0
    while ready < len(went_in) and (isinstance(went_in[ready], Mark) or went_in[ready] in answered):
        ready += 1
    assert came_out == went_in[:ready]


@given(SCRIPTS, st.data())
def test_out_of_order_nothing_passes_a_mark(script: list[str], data: st.DataObject) -> None:
    went_in, came_out, answered = play(UnorderedQueue(), script, data)
    assert len(set(map(id, came_out))) == len(came_out)
    position = {id(item): n for n, item in enumerate(came_out)}
    open_before = False
    for n, item in enumerate(went_in):
        if isinstance(item, Request):
            assert (id(item) in position) == (item in answered and not open_before), "no later than needed"
            continue
        if id(item) in position:
            before = {id(other) for other in went_in[:n]}
            assert {id(other) for other in came_out[: position[id(item)]]} == before
        open_before = open_before or any(
            isinstance(other, Request) and other not in answered for other in went_in[:n]
        )


def test_of_watermarks_without_records_between_them_the_last_one_counts() -> None:
    for queue in (OrderedQueue(), UnorderedQueue()):
        request = Request("a", 1)
        queue.add(request)
        for time in (1, 2, 3):
            queue.add(Mark(watermark=EventTime(time)))
        queue.answered(request)
        first, second = queue.take()
        assert first is request and isinstance(second, Mark) and second.watermark == 3
