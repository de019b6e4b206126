"""Jobs between Kinesis streams, on moto's server, and on a double where moto does less than AWS."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import read_text, text_file_sink
from local_jobs import NO_TIME, environment, kill_slot, until, wait_for_snapshots

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.kinesis.places import TRIM_HORIZON, Place
from penstock.connectors.kinesis.source import KinesisSettings, KinesisSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisStreamsSink,
    KinesisStreamsSource,
    PartitionKeyGenerator,
)
from penstock.testing.local import local_cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "connectors"))

from kinesis_double import Access, Stream  # noqa: E402


@pytest.fixture(scope="module")
def properties() -> Iterator[dict[str, str]]:
    moto = pytest.importorskip("moto.server", reason="needs moto[server]")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        "aws.region": "us-east-1",
        "aws.endpoint": f"http://{host}:{port}",
        "aws.credentials.provider.basic.accesskeyid": "test",
        "aws.credentials.provider.basic.secretkey": "test",
        "flink.stream.initpos": "TRIM_HORIZON",
        "flink.shard.getrecords.intervalmillis": "1",
    }
    server.stop()


def client_of(properties: dict[str, str]) -> Any:
    return (
        KinesisStreamsSource.builder()
        .set_streams("x")
        .set_source_config(properties)
        .set_deserialization_schema(SimpleStringSchema())
        .build()
        ._open()
    )


def bounded(properties: dict[str, str], *streams: str) -> KinesisStreamsSource:
    builder = KinesisStreamsSource.builder().set_streams(*streams).set_source_config(properties)
    return builder.set_deserialization_schema(SimpleStringSchema()).set_bounded().build()


def test_from_stream_to_stream(properties: dict[str, str]) -> None:
    client = client_of(properties)
    for name in ("in", "out"):
        client.create_stream(StreamName=name, ShardCount=3)
    keys = [f"k{n % 7}" for n in range(70)]
    client.put_records(
        StreamName="in",
        Records=[{"Data": f"{key} {n}".encode(), "PartitionKey": key} for n, key in enumerate(keys)],
    )
    sink = (
        KinesisStreamsSink.builder()
        .set_stream_name("out")
        .set_kinesis_client_properties(properties)
        .set_serialization_schema(SimpleStringSchema())
        .set_partition_key_generator(PartitionKeyGenerator.of(lambda record: record.split()[0]))
        .build()
    )
    with local_cluster(2):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_source(bounded(properties, "in"), NO_TIME, "in").map(str.upper).sink_to(sink)
        env.execute("copy")
        env = StreamExecutionEnvironment.get_execution_environment()
        found = list(env.from_source(bounded(properties, "out"), NO_TIME, "out").execute_and_collect())
    assert sorted(found) == sorted(f"{key} {n}".upper() for n, key in enumerate(keys))
    of_one_key = [int(record.split()[1]) for record in found if record.startswith("K3")]
    assert of_one_key == sorted(of_one_key)


def test_an_old_consumer_follows_a_stream(properties: dict[str, str], tmp_path: Path) -> None:
    client = client_of(properties)
    client.create_stream(StreamName="live", ShardCount=1)
    with local_cluster(1):
        env = environment(tmp_path / "chk")
        consumer = FlinkKinesisConsumer("live", SimpleStringSchema(), properties)
        env.add_source(consumer).sink_to(text_file_sink(tmp_path / "out"))
        job = env.execute_async("following")
        for n in range(3):
            client.put_record(StreamName="live", Data=f"r{n}".encode(), PartitionKey="k")
            until(lambda n=n: len(read_text(tmp_path / "out")) > n, "the record comes out")
        job.cancel().result()
    assert sorted(read_text(tmp_path / "out")) == ["r0", "r1", "r2"]


def test_a_stream_that_is_not_there_is_said_before_the_job_starts(properties: dict[str, str]) -> None:
    with local_cluster(1):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_source(bounded(properties, "nowhere"), NO_TIME, "in").print()
        with pytest.raises(Exception, match="'nowhere' does not exist"):
            env.execute()


def slowly(value: str) -> str:
    time.sleep(0.002)
    return value


def test_shards_that_split_under_crashes_come_out_once(tmp_path: Path) -> None:
    stream = Stream("splitting", shards=2, now=int(time.time() * 1000))
    first, second = stream.shards
    stream.put(first, *(f"a{n}" for n in range(150)))
    stream.put(second, *(f"b{n}" for n in range(150)))
    settings = KinesisSettings(
        ["splitting"],
        SimpleStringSchema(),
        Access(),
        Place(TRIM_HORIZON),
        interval_ms=1,
        discovery_ms=1,
        most_records=20,
    )
    with local_cluster(2) as launcher:
        env = environment(tmp_path / "chk")
        env.set_parallelism(2)
        source = env.from_source(KinesisSource(settings), NO_TIME, "in")
        source.map(slowly).sink_to(text_file_sink(tmp_path / "out"))
        job = env.execute_async("splitting")
        wait_for_snapshots(launcher, 1)
        left, right = stream.add_shard(first), stream.add_shard(first)
        merged = stream.add_shard(right, second)
        stream.put(left, *(f"c{n}" for n in range(100)))
        stream.put(merged, *(f"d{n}" for n in range(100)))
        for slot in (0, 1):
            wait_for_snapshots(launcher, 1)
            until(lambda: launcher.jobs[-1].status().name == "RUNNING", "the job runs")
            kill_slot(launcher, slot)
        until(lambda: len(read_text(tmp_path / "out")) >= 500, "all records come out")
        job.cancel().result()
    wanted = [
        f"{letter}{n}"
        for letter, count in zip("abcd", (150, 150, 100, 100), strict=True)
        for n in range(count)
    ]
    assert sorted(read_text(tmp_path / "out")) == sorted(wanted)
