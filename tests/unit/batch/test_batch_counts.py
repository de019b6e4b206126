"""Records of every step of a BATCH job, as its subtasks counted them when they ended."""

from __future__ import annotations

from penstock.core import metric_names
from penstock.datastream import MapFunction, RuntimeContext, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.testing.local import local_cluster


class Counted(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_metrics_group().add_group("kind", "any").counter("seen")

    def map(self, value: int) -> int:
        self._seen.inc()
        return value


def test_steps_and_functions_are_counted() -> None:
    with local_cluster(slots=2) as launcher:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2).set_runtime_mode(RuntimeExecutionMode.BATCH)
        numbers = env.from_collection(list(range(30))).map(Counted()).filter(lambda i: i % 3 == 0)
        numbers.key_by(lambda i: i % 2).map(lambda i: i).name("last").print()
        env.execute("counted")
        history = launcher.jobs[-1].history.view()
    totals: dict[str, float] = {}
    for values in history.metrics.values():
        for name, value in values.items():
            totals[metric_names.plain(name)] = totals.get(metric_names.plain(name), 0) + value
    assert totals["Map.numRecordsIn"] == totals["Map.numRecordsOut"] == totals["Map.kind.any.seen"] == 30
    assert totals["Filter.numRecordsOut"] == totals["last.numRecordsIn"] == totals["last.numRecordsOut"] == 10
    source = "Source: Collection Source"
    assert totals[f"{source}.numRecordsIn"] == totals[f"{source}.numRecordsOut"] == 30
