"""Records that are watched: few, short, without secrets, and never in the way of the job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.core.batch import Batch
from penstock.core.ids import VertexId
from penstock.core.messages import TakeTail
from penstock.core.secret_fields import SecretFields
from penstock.exchange.outputs import OutputEdge
from penstock.exchange.partition import Routed, Router
from penstock.exchange.tail import MOST, PATIENCE, UNWATCHED, Tail
from penstock.task.watching import watch, watched


def tail() -> Tail:
    return Tail(VertexId("v"), SecretFields())


def batch(*rows: object) -> Batch:
    return Batch.of_rows(list(rows), [0] * len(rows))


def test_some_records_of_some_batches_are_taken() -> None:
    watched = tail()
    for start in range(0, 10_000, 100):
        watched.saw(batch(*range(start, start + 100)))
    assert len(watched.texts) == MOST and watched.texts[:5] == ["0", "25", "50", "75", "100"]
    watched.saw(batch())
    assert len(watched.texts) == MOST


def test_secrets_and_long_texts_stay_where_they_are() -> None:
    watched = tail()
    watched.saw(batch({"user": "ann", "password": "hunter2"}, "x" * 10_000_000))
    assert watched.texts[0] == "{'user': 'ann', 'password': ***}" and len(watched.texts[1]) == 503


def test_who_watches_gets_records_when_they_come_and_then_no_more() -> None:
    edge = OutputEdge(Nowhere(), {0: Full()}, 8, target=VertexId("v"))  # type: ignore[dict-item]
    task: Any = SimpleNamespace(subtask=SimpleNamespace(vertex=VertexId("u")), edges=[edge], tail=UNWATCHED)
    watch([task], TakeTail(VertexId("v"), False, ()))
    assert task.tail is UNWATCHED and edge.tail is UNWATCHED
    watch([task], TakeTail(VertexId("u"), True, ()))
    assert watched([task]) == {} and task.tail is UNWATCHED and edge.tail is not UNWATCHED
    edge.emit(batch(7))
    watch([task], TakeTail(VertexId("u"), True, ()))
    assert watched([task]) == {"u": ("7",)} and edge.tail is UNWATCHED
    watch([task], TakeTail(VertexId("u"), False, ()))
    assert task.tail is not UNWATCHED and edge.tail is UNWATCHED
    for _ in range(PATIENCE):
        assert task.tail is not UNWATCHED and watched([task]) == {}
    assert task.tail is UNWATCHED


class Nowhere(Router):
    def route(self, batch: Batch) -> Routed:
        return ()


class Full:
    limit = 1 << 20


def test_a_record_that_cannot_be_shown_does_no_harm() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    watched = tail()
    watched.saw(batch(Broken()))
    assert watched.texts == ["(Broken, which cannot be shown: RuntimeError)"]
