"""Jobs that read from a real Kafka, with crashes: nothing is lost, nothing is doubled."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from flow_graphs import read_text, text_file_sink
from local_jobs import environment, finish, until, wait_for_snapshots

from penstock.common import Types, WatermarkStrategy
from penstock.common.time import Duration
from penstock.core.errors import ConnectorError, JobFailedError
from penstock.datastream import OutputTag, ProcessFunction
from penstock.datastream.connectors.kafka import (
    Diverted,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    OnError,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.testing.local import LocalLauncher, local_cluster
from tests.kafka_kit import T0, TestTopic, read_all
from tests.patience import PATIENCE_S

NO_TIME = WatermarkStrategy.no_watermarks()


@pytest.fixture
def launcher() -> Iterator[LocalLauncher]:
    with local_cluster() as running:
        yield running


def crash(launcher: LocalLauncher, slot: int) -> None:
    until(lambda: launcher.jobs[-1].status().name == "RUNNING", "the job runs")
    restarts = launcher.jobs[-1].driver.restarts
    launcher.clusters[-1].kill(slot)
    until(lambda: launcher.jobs[-1].driver.restarts > restarts, "the job restarts")


def test_many_producers_two_jobs_and_crashes(
    kafka_server: Any, tmp_path: Path, launcher: LocalLauncher
) -> None:
    """Two jobs of different groups read what four producers write meanwhile, each all of it once."""
    topic = TestTopic(kafka_server.bootstrap, partitions=3)
    jobs = []
    for group in ("one", "two"):
        env = environment(tmp_path / f"chk-{group}").set_parallelism(2)
        source = topic.source().set_group_id(f"{group}-{topic.name}").build()
        stream = env.from_source(source, NO_TIME, "kafka")
        stream.key_by(len).map(str).sink_to(text_file_sink(tmp_path / group))
        jobs.append(env.execute_async(f"reads for {group}"))

    def produce(number: int) -> None:
        producer = topic.transactional()
        for chunk in range(10):
            values = [f"{number}-{chunk}-{i}" for i in range(20)]
            if chunk % 2:
                topic.send(values, partition=(number + chunk) % 3)
            else:
                topic.begin([(i % 3, value) for i, value in enumerate(values)], producer)
                producer.commit_transaction(PATIENCE_S)
                topic.begin([(i % 3, f"aborted-{value}") for i, value in enumerate(values)], producer)
                producer.abort_transaction(PATIENCE_S)

    producers = [threading.Thread(target=produce, args=(number,)) for number in range(4)]
    for producer in producers:
        producer.start()
    for slot in (0, 1, 1):
        wait_for_snapshots(launcher, 3)
        crash(launcher, slot)
    for producer in producers:
        producer.join()
    expected = sorted(f"{n}-{chunk}-{i}" for n in range(4) for chunk in range(10) for i in range(20))
    for group, client in zip(("one", "two"), jobs, strict=True):
        until(lambda group=group: len(read_text(tmp_path / group)) >= len(expected), "all has arrived")
        client.cancel().result()
        assert read_text(tmp_path / group) == expected


def test_latest_loses_nothing_when_the_job_starts_over_before_its_first_checkpoint(
    kafka_server: Any, tmp_path: Path, launcher: LocalLauncher
) -> None:
    topic = TestTopic(kafka_server.bootstrap)
    topic.send(["before"])
    env = environment(tmp_path / "chk", execution__checkpointing__interval="1 h").set_parallelism(1)
    source = topic.source().set_starting_offsets(KafkaOffsetsInitializer.latest()).build()
    heard = tmp_path / "heard"
    heard.touch()

    def hear(value: str) -> str:
        with heard.open("a") as file:
            file.write(f"{value} ")
        return value

    env.from_source(source, NO_TIME, "kafka").map(hear).print()
    client = env.execute_async("latest")
    until(lambda: launcher.jobs[-1].status().name == "RUNNING", "the job runs")
    topic.send(["after"])
    until(lambda: heard.read_text() == "after ", "the record is read")
    crash(launcher, 0)
    until(lambda: heard.read_text() == "after after ", "the record is read again")
    client.cancel().result()


def test_a_partition_added_while_the_job_runs_is_read(
    kafka_server: Any, tmp_path: Path, launcher: LocalLauncher
) -> None:
    topic = TestTopic(kafka_server.bootstrap)
    topic.send(["old"])
    env = environment(tmp_path / "chk").set_parallelism(2)
    source = topic.source().set_property("partition.discovery.interval.ms", "50").build()
    env.from_source(source, NO_TIME, "kafka").sink_to(text_file_sink(tmp_path / "out"))
    client = env.execute_async("grows")
    until(lambda: read_text(tmp_path / "out") == ["old"], "the first partition is read")
    topic.grow(3)
    topic.send(["new"], 2)
    until(lambda: read_text(tmp_path / "out") == ["new", "old"], "the new partition is read")
    crash(launcher, 0)
    topic.send(["newer"], 2)
    until(lambda: len(read_text(tmp_path / "out")) >= 3, "it is read on")
    client.cancel().result()
    assert read_text(tmp_path / "out") == ["new", "newer", "old"]


class _Watermarks(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        watermark = max(ctx.timer_service().current_watermark() - T0, -1)
        yield f"{value} at {ctx.timestamp() - T0} after {watermark}"


def test_event_time_is_the_records_and_an_idle_partition_does_not_hold_it(
    kafka_server: Any, tmp_path: Path, launcher: LocalLauncher
) -> None:
    topic = TestTopic(kafka_server.bootstrap, partitions=2)
    topic.send(["a", "b"], 0, times=[T0 + 100, T0 + 200])
    env = environment(tmp_path / "chk").set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(300))
    stream = env.from_source(topic.source().build(), strategy, "kafka")
    stream.process(_Watermarks()).sink_to(text_file_sink(tmp_path / "out"))
    client = env.execute_async("times")
    until(lambda: len(read_text(tmp_path / "out")) == 2, "both are read")
    assert [line.partition(" after")[0] for line in sorted(read_text(tmp_path / "out"))] == [
        "a at 100",
        "b at 200",
    ]

    def written(number: int) -> str | None:
        return next((line for line in read_text(tmp_path / "out") if line.startswith(f"c{number} ")), None)

    # Each is sent behind the one before, until the idle partition is not waited for any more.
    for number in range(1000):
        topic.send([f"c{number}"], 0, times=[T0 + 300 + number])
        line = until(lambda number=number: written(number), "one more is read")
        assert line.startswith(f"c{number} at {300 + number} ")
        if int(line.rpartition(" ")[2]) >= 199:
            break
    else:
        pytest.fail("the partition without records holds the watermark")
    client.cancel().result()


def _json_source(topic: TestTopic) -> Any:
    kind = Types.ROW_NAMED(["n"], [Types.LONG()])
    schema = JsonRowDeserializationSchema.builder().type_info(kind).build()
    return topic.source().set_value_only_deserializer(schema)


def _text(record: Diverted) -> str:
    return f"{record.split.rpartition('-')[2]}/{record.position} {record.raw.decode()}"


def test_bad_records_are_diverted_exactly_once_whatever_crashes(
    kafka_server: Any, tmp_path: Path, launcher: LocalLauncher
) -> None:
    topic = TestTopic(kafka_server.bootstrap, partitions=2)
    good, bad = [], []
    env = environment(tmp_path / "chk").set_parallelism(2)
    tag = OutputTag("bad")
    stream = env.from_source(_json_source(topic).set_on_error(OnError.DIVERT, tag).build(), NO_TIME, "kafka")
    stream.map(lambda row: str(row.n)).sink_to(text_file_sink(tmp_path / "good"))
    stream.get_side_output(tag).map(_text).sink_to(text_file_sink(tmp_path / "bad"))
    client = env.execute_async("diverts")
    for chunk in range(4):
        for partition in (0, 1):
            values = []
            for i in range(25):
                number = (chunk * 2 + partition) * 25 + i
                if i % 4:
                    values.append(json.dumps({"n": number}))
                    good.append(str(number))
                else:
                    values.append(f"bad {number}")
                    bad.append(f"{partition}/{chunk * 25 + i} bad {number}")
            topic.send(values, partition)
        wait_for_snapshots(launcher, 2)
        crash(launcher, chunk % 2)
    until(lambda: len(read_text(tmp_path / "good")) >= len(good), "all good ones are there")
    until(lambda: len(read_text(tmp_path / "bad")) >= len(bad), "all bad ones are there")
    wait_for_snapshots(launcher, 2)
    client.cancel().result()
    assert read_text(tmp_path / "good") == sorted(good)
    assert read_text(tmp_path / "bad") == sorted(bad)


def test_a_bad_record_fails_the_job_by_default_and_is_named(
    kafka_server: Any, tmp_path: Path, launcher: LocalLauncher
) -> None:
    topic = TestTopic(kafka_server.bootstrap)
    topic.send(['{"n": 1}', "rubbish"])
    env = environment(tmp_path / "chk", restart_strategy__type="none")
    env.from_source(_json_source(topic).build(), NO_TIME, "kafka").print()
    with pytest.raises(JobFailedError) as caught:
        finish(env.execute_async("fails"))
    assert isinstance(caught.value.cause, ConnectorError)
    assert f"topic '{topic.name}' partition 0, offset 1: " in str(caught.value)
    assert "b'rubbish'" in str(caught.value)


def test_skipped_records_are_counted(kafka_server: Any, tmp_path: Path, launcher: LocalLauncher) -> None:
    topic = TestTopic(kafka_server.bootstrap)
    topic.send(['{"n": 1}', "rubbish", "", '{"n": 2}'])
    env = environment(tmp_path / "chk").set_parallelism(1)
    source = _json_source(topic).set_on_error("skip").set_bounded(KafkaOffsetsInitializer.latest()).build()
    stream = env.from_source(source, NO_TIME, "kafka")
    assert [row.n for row in stream.execute_and_collect()] == [1, 2]


def test_offsets_are_committed_for_the_group_to_see(
    kafka_server: Any, tmp_path: Path, launcher: LocalLauncher
) -> None:
    topic = TestTopic(kafka_server.bootstrap)
    group = uuid.uuid4().hex
    topic.send(["a", "b", "c"])
    env = environment(tmp_path / "chk").set_parallelism(1)
    env.from_source(topic.source().set_group_id(group).build(), NO_TIME, "kafka").print()
    client = env.execute_async("commits")
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": group})
    where = [TopicPartition(topic.name, 0)]
    until(lambda: consumer.committed(where, timeout=PATIENCE_S)[0].offset == 3, "the offset is committed")
    client.cancel().result()
    consumer.close()


def test_the_guide_to_reading_is_true(kafka_server: Any, tmp_path: Path, launcher: LocalLauncher) -> None:
    """Its programs run, and its dead letters arrive."""
    topic, dead = TestTopic(kafka_server.bootstrap), TestTopic(kafka_server.bootstrap)
    topic.send(['{"id": 1, "customer": "ann", "amount": 2}', "rubbish"])
    guide = Path(__file__).parents[2] / "docs" / "guides" / "kafka.md"
    reading, writing = guide.read_text(encoding="utf-8").split("## Writing")
    names = {"broker:9092": kafka_server.bootstrap, '"orders-dead"': repr(dead.name)}
    names['set_topics("orders")'] = f"set_topics({topic.name!r})"
    for old, new in names.items():
        assert old in reading
        reading = reading.replace(old, new)
    shown = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
    space: dict[str, Any] = {"__name__": "guide"}
    exec(compile("\n".join(shown.findall(reading)), "kafka.md", "exec"), space)
    space["env"].set_parallelism(1).enable_checkpointing(100)
    space["env"].get_checkpoint_config().set_checkpoint_storage_dir(str(tmp_path / "chk"))
    space["stream"].map(str).sink_to(text_file_sink(tmp_path / "out"))
    client = space["env"].execute_async("guide")
    until(lambda: read_text(tmp_path / "out"), "the good record is there")
    found = until(lambda: read_all(dead.bounded().set_deserializer(_Whole()).build()), "the bad one is")
    client.cancel().result()
    assert read_text(tmp_path / "out") == ["Row(id=1, customer='ann', amount=2.0)"]
    assert found[0].value == b"rubbish"
    assert dict(found[0].headers)["from"] == f"{topic.name}-0:1".encode()
    exec(compile("\n".join(shown.findall(writing)), "kafka.md", "exec"), space)
    assert space["Order"]().value({"deleted": True}) is None


class _Whole(KafkaRecordDeserializationSchema):
    def deserialize(self, record: KafkaRecord) -> Any:
        return record


def test_a_missing_topic_fails_before_the_job_starts(kafka_server: Any, launcher: LocalLauncher) -> None:
    topic = TestTopic(kafka_server.bootstrap)
    env = environment()
    env.from_source(topic.source().set_topics("missing").build(), NO_TIME, "kafka").print()
    with pytest.raises(ConnectorError, match="no Kafka topic 'missing'"):
        env.execute_async("never")
    assert launcher.jobs == []
