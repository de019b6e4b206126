"""What functions count, in ``/metrics`` and in REST: rates of meters, labels of groups, hostile names."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from test_rest_views import running

from penstock.core.ids import Subtask, SubtaskIndex
from penstock.core.messages import Heartbeat
from penstock.core.metrics import MetricGroup
from penstock.rest import metric_views, prometheus
from penstock.rest.look import Look

STEP = "flink_taskmanager_job_task_operator_"


def told_by(make: Any, marks: tuple[int, int] = (0, 0)) -> Look:
    """A look at a job whose sink has these metrics, a second after the meter ``m`` was marked again."""
    told, group = running(), MetricGroup()
    mine = group.add_group("sink")
    make(mine)
    sink = told.plan.vertices[-1]
    for second, count in enumerate(marks, 1):
        mine.meter("m").mark_event(count)
        values = {**group.marked(), "busyTimeMs": 1000.0 * second}
        told.said(Heartbeat({Subtask(sink.id, SubtaskIndex(0)): values}), 0, 1000)
    return told.look()


def scraped(look: Look) -> dict[str, list[tuple[dict[str, str], float]]]:
    text = prometheus.exposed(look).decode()
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def by_rest(look: Look) -> dict[str, float]:
    vertex = look.plan.vertices[-1]
    return metric_views.subtask_metrics(look, vertex, Subtask(vertex.id, SubtaskIndex(0)))


def test_a_meter_shows_its_rate_and_its_count() -> None:
    look = told_by(lambda group: None, (10, 30))
    ((_, rate),) = scraped(look)[f"{STEP}m"]
    assert (rate, scraped(look)[f"{STEP}m_count"][0][1]) == (30, 40)
    assert by_rest(look)["Sink__sink.m"] == 30 and by_rest(look)["Sink__sink.m.count"] == 40


def test_groups_of_key_and_value_are_labels() -> None:
    def make(group: MetricGroup) -> None:
        for shop, sold in (("north", 3), ('so"uth\\', 4)):
            group.add_group("shop", shop).counter("sold").inc(sold)

    look = told_by(make)
    found = {labels["shop"]: value for labels, value in scraped(look)[f"{STEP}shop_sold"]}
    assert found == {"north": 3, 'so"uth\\': 4}
    assert by_rest(look)["Sink__sink.shop.north.sold"] == 3


def test_a_user_cannot_take_the_labels_of_the_engine() -> None:
    def make(group: MetricGroup) -> None:
        group.add_group("job_id", "another").add_group("__name__", "x").add_group("9", "y").counter("c").inc()

    ((labels, _),) = scraped(told_by(make))[f"{STEP}job_id___name___9_c"]
    assert labels["user_job_id"] == "another" and labels["job_id"] != "another"
    assert labels["user___name__"] == "x" and labels["user_9"] == "y"


def test_two_names_that_are_one_to_prometheus_are_shown_once() -> None:
    def make(group: MetricGroup) -> None:
        group.counter("a.b").inc(1)
        group.counter("a_b").inc(2)

    look = told_by(make)
    assert [value for _, value in scraped(look)[f"{STEP}a_b"]] == [1]
    assert by_rest(look)["Sink__sink.a.b"] == 1 and by_rest(look)["Sink__sink.a_b"] == 2
