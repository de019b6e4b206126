"""PyFlink's names for Kinesis, and the properties that programs give them."""

from __future__ import annotations

import logging

import pytest

from penstock.common import Configuration
from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.kinesis.client import KinesisAccess
from penstock.connectors.kinesis.places import TRIM_HORIZON, Place, at_time
from penstock.core.errors import ConfigError
from penstock.datastream.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisDeserializationSchema,
    KinesisShardAssigner,
    KinesisStreamsSink,
    KinesisStreamsSource,
    PartitionKeyGenerator,
    WatermarkTracker,
)

KEYS = {
    "aws.credentials.provider.basic.accesskeyid": "AKIASECRET",
    "aws.credentials.provider.basic.secretkey": "topsecret",
}


def settings_of(properties):
    consumer = FlinkKinesisConsumer("s", SimpleStringSchema(), {"aws.region": "us-east-1", **properties})
    return consumer.source._settings


@pytest.mark.parametrize(
    ("properties", "start"),
    [
        ({}, Place("LATEST")),
        ({"flink.stream.initpos": "LATEST"}, Place("LATEST")),
        ({"flink.stream.initpos": "trim_horizon"}, Place(TRIM_HORIZON)),
        ({"source.init.position": "TRIM_HORIZON"}, Place(TRIM_HORIZON)),
        (
            {"flink.stream.initpos": "AT_TIMESTAMP", "flink.stream.initpos.timestamp": "1459799926.480"},
            at_time(1459799926480),
        ),
        (
            {
                "source.init.position": "AT_TIMESTAMP",
                "source.init.timestamp": "2016-04-04T19:58:46.480-00:00",
            },
            at_time(1459799926480),
        ),
        (
            {
                "flink.stream.initpos": "AT_TIMESTAMP",
                "flink.stream.initpos.timestamp": "2016-04-04 21",
                "flink.stream.initpos.timestamp.format": "yyyy-MM-dd HH",
            },
            at_time(1459803600000),
        ),
    ],
)
def test_where_a_source_begins(properties, start):
    assert settings_of(properties).start == start


@pytest.mark.parametrize(
    "properties",
    [
        {"flink.stream.initpos": "EARLIEST"},
        {"flink.stream.initpos": "AT_TIMESTAMP"},
        {"flink.stream.initpos": "AT_TIMESTAMP", "flink.stream.initpos.timestamp": "yesterday"},
        {"flink.shard.getrecords.maxrecordcount": "many"},
        {"flink.shard.getrecords.maxrecordcount": "10001"},
        {"aws.credentials.provider": "ASSUME_ROLE"},
        {"aws.credentials.provider": "BASIC"},
    ],
)
def test_wrong_properties_are_refused(properties):
    with pytest.raises(ConfigError):
        settings_of(properties)


def test_numbers_are_taken_from_either_version(caplog):
    old = settings_of({"flink.shard.getrecords.intervalmillis": 500, "flink.stream.recordpublisher": "EFO"})
    new = settings_of({"source.shard.discovery.interval": "30 s"})
    assert (old.interval_ms, new.discovery_ms, new.interval_ms) == (500, 30_000, 200)
    with caplog.at_level(logging.WARNING, "penstock"):
        settings_of({"stream.initial.position": "LATEST"})
    assert "stream.initial.position" in caplog.text


def test_credentials_are_used_and_not_shown():
    access = KinesisAccess({"aws.region": "us-east-1", **KEYS})
    client = access.open()
    assert client._request_signer._credentials.access_key == "AKIASECRET"
    assert "secret" not in repr(access).lower()
    assert "secret" not in repr(settings_of(KEYS)).lower()
    empty = dict.fromkeys(KEYS, "")
    assert KinesisAccess({"aws.region": "us-east-1", **empty})._credentials() == {}


def test_the_builder_of_flink_2():
    builder = KinesisStreamsSource.builder().set_stream_arn("arn:aws:kinesis:us-east-1:1:stream/s")
    config = Configuration()
    config.set_string("aws.region", "us-east-1")
    builder.set_source_config(config.to_dict()).set_kinesis_shard_assigner(
        KinesisShardAssigner.uniform_shard_assigner()
    )
    with pytest.raises(ConfigError, match="set_deserialization_schema"):
        builder.build()
    source = builder.set_deserialization_schema(SimpleStringSchema()).set_bounded().build()
    assert source.bounded and "topsecret" not in repr(source)
    with pytest.raises(ConfigError, match="each once"):
        builder.set_streams("a", "a").build()


def test_what_only_java_can_do_is_refused_and_the_rest_is_taken():
    consumer = FlinkKinesisConsumer(["a", "b"], SimpleStringSchema(), {"aws.region": "us-east-1"})
    assert consumer.set_shard_assigner(KinesisShardAssigner.default_shard_assigner()) is consumer
    tracker = WatermarkTracker.job_manager_watermark_tracker("name")
    assert consumer.set_watermark_tracker(tracker) is consumer
    with pytest.raises(ConfigError, match="assign_timestamps_and_watermarks"):
        consumer.set_periodic_watermark_assigner(None)
    with pytest.raises(ConfigError, match="DeserializationSchema"):
        KinesisDeserializationSchema(None)


def test_a_sink_says_what_it_lacks():
    builder = KinesisStreamsSink.builder().set_stream_name("s").set_kinesis_client_properties(KEYS)
    builder.set_serialization_schema(SimpleStringSchema()).set_max_in_flight_requests(9)
    with pytest.raises(ConfigError, match="set_partition_key_generator"):
        builder.build()
    builder.set_partition_key_generator(PartitionKeyGenerator.fixed()).set_max_buffered_requests(9)
    assert repr(builder.set_max_batch_size(9).build()) == "KinesisSink(s)"
    with pytest.raises(ConfigError, match="set_max_batch_size"):
        builder.set_max_batch_size(9000).build()
