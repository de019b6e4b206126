"""Program: copies a Kafka topic into two others, exactly once and at least once, until it is killed.

    kafka_copy.py MASTER WORK BOOTSTRAP SOURCE ONCE OFTEN

Prints ``running`` when it is submitted.  Started again with the same arguments, it goes on where it was
killed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from progress import environment

from penstock.common import WatermarkStrategy
from penstock.common.serialization import SimpleStringSchema
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)


def sink(bootstrap: str, topic: str, guarantee: DeliveryGuarantee) -> KafkaSink:
    """Text to a topic."""
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(bootstrap)
        .set_delivery_guarantee(guarantee)
        .set_transactional_id_prefix(topic)
        .set_property("transaction.timeout.ms", "600000")
        .set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
        .build()
    )


def main(master: str, work: Path, bootstrap: str, source: str, once: str, often: str) -> None:
    """Run it."""
    restarts = {"restart_strategy__fixed_delay__attempts": "1000"}
    times = {"execution__checkpointing__interval": "250 ms", "penstock__slots__timeout": "120 s"}
    env = environment(master, work / "chk", **restarts, **times).set_parallelism(2)
    topic = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(source)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    records = env.from_source(topic, WatermarkStrategy.no_watermarks(), "in").uid("in")
    records.sink_to(sink(bootstrap, once, DeliveryGuarantee.EXACTLY_ONCE)).uid("once")
    records.sink_to(sink(bootstrap, often, DeliveryGuarantee.AT_LEAST_ONCE)).uid("often")
    client = env.execute_async("kafka-copy")
    print("running", flush=True)
    client.get_job_execution_result().result()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
