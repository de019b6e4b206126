"""State with a time to live and state of declared rows: what tables show, and that a job goes on from it."""

from __future__ import annotations

import time

import pyarrow as pa
from click_job import CLICK, click, run_until, settings

from penstock.common import Row, Time, Types, WatermarkStrategy
from penstock.connectors.log import LogSink, LogSource, Text
from penstock.coordinator.job_directory import job_directory
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from penstock.state_processor import SavepointWriter, open_snapshot
from penstock.testing.local import local_cluster

PROFILE = ValueStateDescriptor("profile", Types.ROW_NAMED(["name", "clicks"], [Types.STRING(), Types.LONG()]))


def timed(descriptor):
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    return descriptor


class Profiles(KeyedProcessFunction):
    def open(self, runtime_context):
        self.profile = runtime_context.get_state(PROFILE)
        self.last = runtime_context.get_state(timed(ValueStateDescriptor("last", Types.LONG())))
        self.hours = runtime_context.get_map_state(
            timed(MapStateDescriptor("hours", Types.LONG(), Types.LONG()))
        )

    def process_element(self, value, ctx):
        before = self.profile.value()
        clicks = 1 if before is None else before.clicks + 1
        self.profile.update(Row(name=value.user.upper(), clicks=clicks))
        last = self.last.value() or 0
        self.last.update(value.hour)
        self.hours.put(value.hour, clicks)
        yield f"{value.user} {clicks} {last}"


def run_job(place, clicks, savepoint=None):
    click(place, clicks)
    with local_cluster(slots=2):
        env = StreamExecutionEnvironment.get_execution_environment(settings(place, savepoint))
        source = LogSource(place / "log", "clicks", CLICK)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "clicks").uid("clicks")
        results = stream.key_by("user").process(Profiles()).uid("profiles")
        results.sink_to(LogSink(place / "log", "totals", Text())).uid("totals")
        return run_until(place, env.execute_async("click job"), len(clicks))


def test_types_and_times_are_shown_and_survive_changes(tmp_path):
    now = time.time_ns() // 1_000_000
    run_job(tmp_path / "a", [("ann", 1), ("ann", 2), ("bob", 3)])
    job = str(tmp_path / "a" / "checkpoints" / job_directory("click job"))
    snapshot = open_snapshot(job)
    profiles = {row["key"]: row["value"] for row in snapshot.read("profiles", "profile").to_pylist()}
    assert profiles == {"ann": {"name": "ANN", "clicks": 2}, "bob": {"name": "BOB", "clicks": 1}}
    last = snapshot.read("profiles", "last")
    assert last.schema.field("value").type == pa.struct([("value", pa.int64()), ("time", pa.int64())])
    (ann,) = [row["value"] for row in last.to_pylist() if row["key"] == "ann"]
    assert ann["value"] == 2 and now - 1000 <= ann["time"] < now + 60_000
    hours = {row["key"]: dict(row["value"]) for row in snapshot.read("profiles", "hours").to_pylist()}
    assert {hour: cell["value"] for hour, cell in hours["ann"].items()} == {1: 1, 2: 2}

    writer = SavepointWriter.from_existing(job)
    writer.change("profiles", "profile", lambda key, value: Row(name=value.name, clicks=value.clicks + 10))
    writer.change("profiles", "last", last)
    changed = writer.remove_operator("clicks").remove_operator("totals").write(str(tmp_path / "changed"))
    assert open_snapshot(changed).operators()["pickled"].to_pylist() == [False]
    results = run_job(tmp_path / "b", [("ann", 5), ("bob", 6)], changed)
    assert sorted(results) == ["ann 13 2", "bob 12 3"]


def test_new_state_may_have_a_time_to_live(tmp_path):
    rows = pa.table({"key": ["ann"], "value": [7]})
    profiles = pa.table({"key": ["ann"], "value": [{"name": "A", "clicks": 9}]})
    descriptor = timed(ValueStateDescriptor("last", Types.LONG()))
    writer = SavepointWriter.new().with_operator("profiles", {descriptor: rows, PROFILE: profiles})
    results = run_job(tmp_path, [("ann", 5)], writer.write(str(tmp_path / "savepoint")))
    assert results == ["ann 10 7"]
