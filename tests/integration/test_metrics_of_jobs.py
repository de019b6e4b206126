"""``/metrics`` of a running job: user metrics, records of every step; no rule names what is not there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from local_jobs import environment, number_stream, until
from prometheus_client.parser import text_string_to_metric_families
from rest_client import Client

from penstock.datastream import MapFunction, RuntimeContext
from penstock.rest.serving import serve
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

DEPLOY = Path(__file__).parents[2] / "deploy"
COUNT, HALF = 1000, 599
STEP = "flink_taskmanager_job_task_operator_"
WITH_KAFKA_OR_LOG = {f"{STEP}pendingRecords", f"{STEP}KafkaSourceReader_topic_partition_records_lag"}
"""Only sources of Kafka and of the embedded log know it: docs/rest.md says so, and tests of theirs."""


class Counted(MapFunction):
    """Touches a metric of every kind."""

    def open(self, runtime_context: RuntimeContext) -> None:
        group = runtime_context.get_metrics_group()
        mine = group.add_group("mine")
        self._seen = mine.counter("seen")
        self._rate = mine.meter("rate", 10)
        self._sizes = mine.distribution("sizes")
        mine.gauge("last", lambda: self._last)
        self._kinds = [group.add_group("kind", kind).counter("records") for kind in ("even", "odd")]
        self._last = 0

    def map(self, value: int) -> int:
        self._last = value
        self._seen.inc()
        self._rate.mark_event()
        self._sizes.update(value)
        self._kinds[value % 2].inc()
        return value


@contextmanager
def scraped(tmp_path: Path) -> Iterator[Any]:
    """What reads ``/metrics`` of a job that stands at the gate: lists of labels and values by name."""
    settings = {"rest__port": "0", "state__backend__type": "rocksdb"}
    env = environment(tmp_path / "checkpoints", **settings)
    with local_cluster(2) as launcher:
        stream = number_stream(env, COUNT, gate=tmp_path / "gate").map(Counted()).map(lambda i: i)
        kept = stream.filter(lambda i: i % 3 == 0).key_by(lambda i: i % 7).reduce(lambda a, b: a + b)
        kept.map(lambda i: i).name("end").print()
        env.execute_async("measured")
        job = launcher.jobs[-1]
        serving = serve(job)
        assert serving is not None
        client = Client(serving.url, serving.token)

        def read() -> dict[str, list[tuple[dict[str, str], float]]]:
            return {
                family.name: [(sample.labels, sample.value) for sample in family.samples]
                for family in text_string_to_metric_families(client.get("/metrics"))
            }

        try:
            yield read, client, f"/jobs/{job.job_id.hex}"
        finally:
            (tmp_path / "gate").touch()
            job.cancel().result(PATIENCE_S)
            serving.close()


def total(found: dict[str, Any], name: str, **labels: str) -> float:
    samples = found.get(name, [])
    return sum(value for has, value in samples if labels.items() <= has.items())


def test_numbers_of_steps_and_functions_are_true(tmp_path: Path) -> None:
    with scraped(tmp_path) as (read, client, base):
        third = len(range(0, HALF, 3))
        until(lambda: total(read(), f"{STEP}numRecordsOut", operator_name="end") == third, "all is counted")
        found = read()
        outs = {"Source: numbers": HALF, "Filter": third, "Reduce": third}
        for step, count in outs.items():
            assert total(found, f"{STEP}numRecordsOut", operator_name=step) == count, step
        namesakes = [
            (has["operator_id"], value)
            for has, value in found[f"{STEP}numRecordsOut"]
            if has["operator_name"] == "Map"
        ]
        assert len({step for step, _ in namesakes}) == 2 and sum(value for _, value in namesakes) == 2 * HALF
        assert total(found, f"{STEP}numRecordsIn", operator_name="Source: numbers") == HALF
        _check_user_metrics(found)
        assert total(found, f"{STEP}rocksdb_block_cache_capacity") > 0
        assert f"{STEP}rocksdb_estimate_num_keys" in found
        names = {one["id"] for one in client.get(f"{base}/vertices/{_source(client, base)}/metrics")}
        assert {"0.Map.mine.seen", "0.Map.kind.even.records", "0.Map_2.numRecordsOut"} <= names


def _source(client: Client, base: str) -> str:
    return str(client.get(base)["vertices"][0]["id"])


def _check_user_metrics(found: dict[str, Any]) -> None:
    assert total(found, f"{STEP}mine_seen") == total(found, f"{STEP}mine_rate_count") == HALF
    assert total(found, f"{STEP}mine_sizes_count") == HALF
    assert total(found, f"{STEP}mine_sizes_sum") == sum(range(HALF))
    assert max(value for _, value in found[f"{STEP}mine_sizes_max"]) == HALF - 1
    assert max(value for _, value in found[f"{STEP}mine_last"]) == HALF - 1
    assert total(found, f"{STEP}kind_records", kind="even") == len(range(0, HALF, 2))


def test_rules_and_dashboard_name_only_what_is_there(tmp_path: Path) -> None:
    rules = (DEPLOY / "prometheus" / "rules.yml").read_text()
    board = (DEPLOY / "grafana" / "penstock.json").read_text()
    expressions = re.findall(r"expr: (.*(?:\n {10}.*)*)", rules) + list(_expressions(json.loads(board)))
    named = {name for expr in expressions for name in re.findall(r"\b(?:flink|penstock)_\w+", expr)}
    said = (DEPLOY.parent / "docs" / "rest.md").read_text()
    assert all(name.removeprefix(STEP).split("_")[-1] in said for name in WITH_KAFKA_OR_LOG | BY_STEPS)
    with scraped(tmp_path) as (read, _, _):
        left = named - WITH_KAFKA_OR_LOG - BY_STEPS
        until(lambda: left <= set(read()) | OF_TIME, f"all of {sorted(left)} are there")


BY_STEPS = {f"{STEP}numLateRecordsDropped"}
"""Only windows, joins and patterns drop late records."""
OF_TIME = {"penstock_watermark_held_by"}
"""Only with watermarks, which the job of ``test_alerts.py`` has."""


def _expressions(board: Any) -> Iterator[str]:
    if isinstance(board, dict):
        for key, value in board.items():
            if key == "expr":
                yield value
            else:
                yield from _expressions(value)
    elif isinstance(board, list):
        for value in board:
            yield from _expressions(value)
