"""What a Kafka sink says before its job starts."""

from __future__ import annotations

import ssl
import uuid
from pathlib import Path
from typing import Any

import pytest

from penstock.connectors.kafka.sink import producer_settings
from penstock.connectors.kafka.wire import wire_settings
from penstock.connectors.sink import CommitOutcome
from penstock.core.errors import ConfigError, ConnectorError
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaSink
from tests.unit.connectors.kafka_sinks import commit, context, epoch_of, exactly_once, schema_for
from tests.unit.connectors.kafka_topics import new_topic

SERVERS = {"bootstrap.servers": "a:1, b:2"}


def test_a_good_sink_is_quiet(kafka_server: Any) -> None:
    exactly_once(kafka_server.bootstrap, new_topic(kafka_server.bootstrap)).build().check()


@pytest.mark.slow
def test_nobody_answers() -> None:
    sink = KafkaSink.builder().set_bootstrap_servers("127.0.0.1:1").set_record_serializer(schema_for("t"))
    with pytest.raises(ConnectorError, match=r"127\.0\.0\.1:1 do not answer"):
        sink.build().check()


def test_a_topic_that_the_brokers_create_is_no_error(kafka_server: Any) -> None:
    exactly_once(kafka_server.bootstrap, f"sink-new-{uuid.uuid4().hex}").build().check()


def test_a_timeout_that_brokers_do_not_allow(kafka_server: Any) -> None:
    builder = exactly_once(kafka_server.bootstrap, new_topic(kafka_server.bootstrap))
    builder.set_property("transaction.timeout.ms", 3_600_000)
    with pytest.raises(ConfigError, match=r"is 3600000 and the brokers allow 900000.*set_property"):
        builder.build().check()


def test_the_default_timeout_is_what_brokers_allow(
    kafka_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Flink's is an hour, and brokers that nobody has told otherwise refuse that."""
    builder = exactly_once(kafka_server.bootstrap, new_topic(kafka_server.bootstrap))
    del builder._properties["transaction.timeout.ms"]
    sink = builder.build()
    sink.check()
    assert sink._settings["transaction.timeout.ms"] == 900_000
    assert caplog.text.count("is 900000, all that the brokers allow") == 1
    writer = sink.create_writer(context())
    [prepared] = epoch_of(writer, 1, "x")
    assert prepared.timeout_ms == 900_000
    assert commit(sink, [prepared]) == [CommitOutcome.COMMITTED]
    writer.close()


@pytest.mark.parametrize(
    ("told", "timeout", "delivery"),
    [("7200000", 3_600_000, 120_000), ("60000", 60_000, 60_000), (None, 900_000, 120_000)],
)
def test_what_the_brokers_say_is_taken(
    told: str | None, timeout: int, delivery: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {} if told is None else {"transaction.max.timeout.ms": told}
    monkeypatch.setattr("penstock.connectors.kafka.sink.check_brokers", lambda *_: answers)
    monkeypatch.setattr("penstock.connectors.kafka.sink.check_transactions", lambda *_: None)
    builder = exactly_once("x:1", "t")
    del builder._properties["transaction.timeout.ms"]
    sink = builder.build()
    sink.check()
    assert sink._settings["transaction.timeout.ms"] == timeout
    assert sink._settings["message.timeout.ms"] == delivery
    sink.check_interval(timeout - 1)
    with pytest.raises(ConfigError, match="interval"):
        sink.check_interval(timeout)


def test_a_timeout_that_bad_times_may_exceed_is_told(caplog: pytest.LogCaptureFixture) -> None:
    sink = exactly_once("x:1", "t").build()
    sink.check_patience(60_000)
    assert not caplog.text
    sink.check_patience(60_001)
    assert "is 60000, and a transaction may have to wait for 60001 ms" in caplog.text


def test_checkpoints_must_come_before_the_timeout() -> None:
    sink = exactly_once("x:1", "t").build()
    sink.check_interval(59_999)
    sink.check_interval(None)
    with pytest.raises(ConfigError, match=r"interval is 60000 ms and transaction\.timeout\.ms.*60000"):
        sink.check_interval(60_000)
    KafkaSink.builder().set_bootstrap_servers("x:1").set_record_serializer(
        schema_for("t")
    ).build().check_interval(10**9)


def test_a_setting_the_client_does_not_take(kafka_server: Any) -> None:
    sink = exactly_once(kafka_server.bootstrap, "t").set_property("lingerr.ms", 3).build()
    with pytest.raises(ConfigError, match=r"lingerr\.ms"):
        sink.check()


def test_defaults_of_producers() -> None:
    plain = producer_settings(SERVERS, DeliveryGuarantee.AT_LEAST_ONCE)
    assert plain["partitioner"] == "murmur2_random" and plain["enable.idempotence"] is True
    assert plain["message.timeout.ms"] == 120_000
    assert "enable.idempotence" not in producer_settings({**SERVERS, "acks": "1"}, DeliveryGuarantee.NONE)
    once = producer_settings({**SERVERS, "transaction.timeout.ms": "9000"}, DeliveryGuarantee.EXACTLY_ONCE)
    assert once["message.timeout.ms"] == 9000
    assert producer_settings(SERVERS, DeliveryGuarantee.EXACTLY_ONCE)["transaction.timeout.ms"] == 3_600_000
    with pytest.raises(ConfigError, match="number of milliseconds"):
        producer_settings({**SERVERS, "transaction.timeout.ms": "1 h"}, DeliveryGuarantee.EXACTLY_ONCE)


@pytest.mark.parametrize("given", [{"acks": "0"}, {"acks": 0}, {"request.required.acks": "0"}])
def test_what_is_never_acknowledged_is_not_at_least_once(given: dict[str, Any]) -> None:
    name = next(iter(given))
    sink = KafkaSink.builder().set_bootstrap_servers("x:1").set_record_serializer(schema_for("t"))
    sink.set_property(name, given[name])
    sink.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    with pytest.raises(ConfigError, match=f"waits for acknowledgements.*{name!r} = 0.*lost"):
        sink.build()
    assert producer_settings({**SERVERS, **given}, DeliveryGuarantee.NONE)[name] == given[name]
    for enough in ("1", "all", "-1"):
        producer_settings({**SERVERS, name: enough}, DeliveryGuarantee.AT_LEAST_ONCE)


def test_settings_for_coordinators(tmp_path: Path) -> None:
    assert wire_settings(SERVERS, 5)["bootstrap_servers"] == ["a:1", "b:2"]
    login = {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512"}
    user = {"sasl.username": "u", "sasl.password": "hunter2"}
    found = wire_settings({**SERVERS, **login, **user}, 5)
    assert found["sasl_mechanism"] == "SCRAM-SHA-512" and found["sasl_plain_username"] == "u"
    assert found["ssl_context"].verify_mode is ssl.CERT_REQUIRED and found["ssl_context"].check_hostname
    lax = {"ssl.endpoint.identification.algorithm": "none"}
    assert not wire_settings({**SERVERS, **login, **lax}, 5)["ssl_context"].check_hostname
    blind = {"enable.ssl.certificate.verification": False}
    assert wire_settings({**SERVERS, **login, **blind}, 5)["ssl_context"].verify_mode is ssl.CERT_NONE
    with pytest.raises(ConfigError, match="not with OAUTHBEARER"):
        wire_settings({**SERVERS, **login, "sasl.mechanism": "OAUTHBEARER"}, 5)
    with pytest.raises(ConfigError, match=r"ssl\.certificate\.location"):
        wire_settings({**SERVERS, **login, "ssl.keystore.location": "x.p12"}, 5)
