"""Properties of Kafka clients, what a source is built of, and the offsets it would start from; no broker."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.kafka.client import ClientKind, client_settings, new_client, redacted
from penstock.connectors.kafka.enumerator import KafkaEnumerator, Subscription
from penstock.connectors.kafka.offsets import Offsets
from penstock.core.errors import ConfigError, ConnectorError
from penstock.datastream import OutputTag
from penstock.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
    OnError,
)

SERVERS = {"bootstrap.servers": "host:9092"}
JAAS = (
    'org.apache.kafka.common.security.scram.ScramLoginModule required username="al\\"ice" password="a;b c";'
)


def settings(**properties: Any) -> dict[str, Any]:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    found = dict(client_settings({**SERVERS, **given}))
    del found["bootstrap.servers"]
    return found


def test_java_names_are_translated() -> None:
    assert settings(max_poll_records=5, key_deserializer="org.X") == {}
    assert settings(fetch_max_wait_ms=5) == {"fetch.wait.max.ms": 5}
    assert settings(buffer_memory="65536") == {"queue.buffering.max.kbytes": 64}
    assert settings(session_timeout_ms=5, linger_ms=3) == {"session.timeout.ms": 5, "linger.ms": 3}
    assert settings(sasl_jaas_config=JAAS) == {"sasl.username": 'al"ice', "sasl.password": "a;b c"}
    assert settings(sasl_jaas_config="X required username=al password=pw;") == {
        "sasl.username": "al",
        "sasl.password": "pw",
    }
    assert settings(ssl_endpoint_identification_algorithm="") == {
        "ssl.endpoint.identification.algorithm": "none"
    }
    pem = settings(ssl_truststore_type="PEM", ssl_truststore_location="/ca.pem", ssl_truststore_password="x")
    assert pem == {"ssl.ca.location": "/ca.pem"}
    assert settings(ssl_keystore_type="PKCS12", ssl_keystore_location="/k.p12") == {
        "ssl.keystore.location": "/k.p12"
    }


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("ssl.truststore.location", "/t.jks", "ssl.ca.location"),
        ("ssl.keystore.location", "/k.jks", "PKCS#12"),
        ("ssl.keystore.type", "JKS", "PKCS#12"),
        ("sasl.jaas.config", "Krb5LoginModule required;", "sasl.kerberos"),
        ("interceptor.classes", "X", "Java classes"),
    ],
)
def test_what_has_no_translation_is_refused_with_the_name_to_use(name: str, value: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=name) as error:
        client_settings({**SERVERS, name: value})
    assert hint in str(error.value)


def test_ours_win_and_properties_of_the_source_are_not_the_clients() -> None:
    found = client_settings(
        {**SERVERS, "enable.auto.commit": True, "partition.discovery.interval.ms": 5},
        enable_auto_commit=False,
    )
    assert found == {**SERVERS, "enable.auto.commit": False}
    with pytest.raises(ConfigError, match="set_bootstrap_servers"):
        client_settings({})


def test_unknown_properties_are_named() -> None:
    with pytest.raises(ConfigError, match='No such configuration property: "no.such"'):
        new_client(ClientKind.CONSUMER, client_settings({**SERVERS, "no.such": 1}, group_id="g"))


def builder() -> KafkaSourceBuilder:
    made = KafkaSource.builder().set_bootstrap_servers("host:9092").set_topics("t")
    return made.set_value_only_deserializer(SimpleStringSchema())


def test_secrets_show_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    secrets = {
        "sasl.password": "hush1",
        "ssl.key.password": "hush2",
        "sasl.oauthbearer.client.secret": "hush3",
        "ssl.key.pem": "hush4",
    }
    source = builder().set_properties(secrets).build()
    jaas = builder().set_property("sasl.jaas.config", JAAS.replace("a;b c", "hush5")).build()
    texts = [repr(source), repr(jaas), repr(source.__dict__), repr(jaas.__dict__)]
    texts += [repr(client_settings({**SERVERS, **secrets})), repr(redacted(secrets))]
    texts += [repr(builder().set_property("ssl.keystore.key", "hush6").build())]
    texts += [repr(redacted({"sasl.oauthbearer.assertion.private.key.passphrase": "hush7"}))]
    with caplog.at_level(logging.DEBUG), pytest.raises(ConfigError) as error:
        new_client(ClientKind.CONSUMER, client_settings({**SERVERS, **secrets, "no.such": 1}, group_id="g"))
    assert "hush" not in f"{texts}{error.value!r}{caplog.text}"
    assert pickle.loads(pickle.dumps(source))._client["sasl.password"] == "hush1"


def test_a_builder_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match="set_value_only_deserializer"):
        KafkaSource.builder().set_bootstrap_servers("h").set_topics("t").build()
    with pytest.raises(ConfigError, match="set_topics"):
        KafkaSource.builder().set_value_only_deserializer(SimpleStringSchema()).build()
    with pytest.raises(ConfigError, match="call one of"):
        builder().set_topic_pattern("x").build()
    with pytest.raises(ConfigError, match="no regular expression"):
        builder().set_topics().set_topic_pattern("(").build()
    with pytest.raises(ConfigError, match="needs a group"):
        builder().set_property("commit.offsets.on.checkpoint", "true").build()
    with pytest.raises(ConfigError, match="is no value format"):
        builder().set_value_only_deserializer(5)


def test_bounded_and_unbounded_and_where_bad_records_go() -> None:
    latest = KafkaOffsetsInitializer.latest()
    assert not builder().build().bounded
    assert builder().set_bounded(latest).build().bounded
    assert not builder().set_unbounded(latest).build().bounded
    assert builder().build().diverts_to is None
    assert builder().set_on_error(OnError.DIVERT, OutputTag("bad")).build().diverts_to == "bad"


def test_the_consumer_of_old_refuses_a_reset_it_does_not_know() -> None:
    with pytest.raises(ConfigError, match="auto.offset.reset"):
        FlinkKafkaConsumer("t", SimpleStringSchema(), {**SERVERS, "auto.offset.reset": "sometimes"})
    made = FlinkKafkaConsumer(["t", "u"], SimpleStringSchema(), {**SERVERS, "group.id": "g"})
    assert made.set_commit_offsets_on_checkpoints(False).source is not None
    assert made.get_produced_type() == SimpleStringSchema().get_produced_type()


def test_value_only_uses_the_schema_itself() -> None:
    schema = KafkaRecordDeserializationSchema.value_only(SimpleStringSchema())
    source = builder().set_deserializer(schema).build()
    assert source.produced_type() == SimpleStringSchema().get_produced_type()


T0, T1 = KafkaTopicPartition("t", 0), KafkaTopicPartition("t", 1)


class FakeBrokers:
    """Two partitions of 10 to 20 and 0 to 5; the group is at 12 in the first. May be out of reach."""

    def __init__(self) -> None:
        self.out_of_reach = False

    def topics(self) -> dict[str, list[int]]:
        if self.out_of_reach:
            raise ConnectorError("no answer")
        return {"t": [0, 1], "__consumer_offsets": [0]}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return {}

    def _of(self, partitions: Iterable[KafkaTopicPartition], found: Offsets) -> Offsets:
        return {where: found[where] for where in partitions if where in found}

    def earliest(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        return self._of(partitions, {T0: 10, T1: 0})

    def latest(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        return self._of(partitions, {T0: 19, T1: 5})

    def high_watermarks(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        return self._of(partitions, {T0: 20, T1: 5})

    def at_time(self, partitions: Iterable[KafkaTopicPartition], timestamp: int) -> Offsets:
        return self._of(partitions, {T0: 15})

    def committed(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        return self._of(partitions, {T0: 12})


EARLIEST, LATEST = KafkaOffsetResetStrategy.EARLIEST, KafkaOffsetResetStrategy.LATEST
GIVEN = KafkaOffsetsInitializer.offsets


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (KafkaOffsetsInitializer.earliest(), (10, 0)),
        (KafkaOffsetsInitializer.latest(), (19, 5)),
        (KafkaOffsetsInitializer.timestamp(7), (15, 5)),
        (KafkaOffsetsInitializer.committed_offsets(EARLIEST), (12, 0)),
        (KafkaOffsetsInitializer.committed_offsets(LATEST), (12, 5)),
        (GIVEN({T0: 20, T1: 3}), (20, 3)),
        (GIVEN({T0: 21, T1: 5}), (10, 5)),
        (GIVEN({T0: 9, T1: 6}, LATEST), (19, 5)),
        (GIVEN({KafkaTopicPartition("other", 0): 9}), (12, 0)),
    ],
)
def test_offsets_are_resolved(start: KafkaOffsetsInitializer, expected: tuple[int, int]) -> None:
    assert start.resolve([T0, T1], FakeBrokers()) == dict(zip((T0, T1), expected, strict=True))


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (GIVEN({T0: 100, T1: 3}), (100, 3)),
        (GIVEN({T0: 2, T1: 6}), (2, 6)),
        (GIVEN({T0: 100}, LATEST), (100, 5)),
        (KafkaOffsetsInitializer.latest(), (19, 5)),
    ],
)
def test_an_end_may_lie_ahead(stop: KafkaOffsetsInitializer, expected: tuple[int, int]) -> None:
    """The source waits for it. Moved to the first record, as a start would be, nothing would be read."""
    assert stop.resolve_end([T0, T1], FakeBrokers()) == dict(zip((T0, T1), expected, strict=True))


def test_offsets_are_checked_when_given() -> None:
    with pytest.raises(ConfigError, match="KafkaTopicPartition"):
        GIVEN({"t": 5})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="no offset -1"):
        GIVEN({T0: -1})


def test_a_failed_look_for_new_partitions_is_told_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    brokers = FakeBrokers()
    start = KafkaOffsetsInitializer.earliest()
    enumerator = KafkaEnumerator(lambda: brokers, Subscription(("t",)), start, None)  # type: ignore[arg-type, return-value]
    brokers.out_of_reach = True
    with pytest.raises(ConnectorError, match="no answer"):
        enumerator.discover()
    brokers.out_of_reach = False
    assert [split.id for split in enumerator.discover()] == ["t-0", "t-1"]
    brokers.out_of_reach = True
    assert list(enumerator.discover()) == []
    assert "are looked for later: no answer" in caplog.text
