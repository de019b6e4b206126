"""The Kafka sink over TLS with a login, and what it says where it is not allowed to write."""

from __future__ import annotations

import datetime as dt
import ipaddress
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.connectors.sink import CommitOutcome
from penstock.core.errors import ConnectorError
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaSinkBuilder
from penstock.testing.servers import KafkaServer
from tests.patience import PATIENCE_S
from tests.servers import skip_without
from tests.unit.connectors.kafka_sinks import commit, context, epoch_of, exactly_once

ADMIN, WRITER, PASSWORD = "admin", "writer", "correct-horse"


def certificate() -> tuple[str, str]:
    """Key and certificate for loopback, signed by itself, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = (
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return key.private_bytes(*form).decode(), made.public_bytes(form[0]).decode()


class SecuredKafka(KafkaServer):
    """Clients come by TLS and say who they are; nobody but the administrator may do anything unasked."""

    def __init__(self) -> None:
        key, chain = certificate()
        self.certificate = chain
        users = f'user_{ADMIN}="{PASSWORD}" user_{WRITER}="{PASSWORD}"'
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        super().__init__(
            {
                "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.plaintext.plain.sasl.jaas.config": f'{login} username="{ADMIN}" '
                f'password="{PASSWORD}" {users};',
                "ssl.keystore.type": "PEM",
                "ssl.truststore.type": "PEM",
                "ssl.keystore.key": one_line(key),
                "ssl.keystore.certificate.chain": one_line(chain),
                "ssl.truststore.certificates": one_line(chain),
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": f"User:{ADMIN};User:ANONYMOUS",
                "auto.create.topics.enable": "false",
            }
        )

    def client(self, user: str) -> dict[str, Any]:
        """Settings of a client."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": PASSWORD,
            "ssl.ca.pem": self.certificate,
        }

    def _answers(self) -> bool:
        try:
            return bool(AdminClient(self.client(ADMIN)).list_topics(timeout=2).brokers)
        except Exception:
            return False


def one_line(pem: str) -> str:
    return pem.strip().replace("\n", "\\n")


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredKafka]:
    skip_without(KafkaServer)
    with SecuredKafka() as server:
        yield server


@pytest.fixture(scope="module")
def topic(secured: SecuredKafka) -> str:
    admin = AdminClient(secured.client(ADMIN))
    for made in admin.create_topics([NewTopic("secured", 1, 1), NewTopic("other", 1, 1)]).values():
        made.result(PATIENCE_S)
    return "secured"


def allow(secured: SecuredKafka, kind: ResourceType, name: str, operation: AclOperation) -> None:
    binding = AclBinding(
        kind,
        name,
        ResourcePatternType.PREFIXED,
        f"User:{WRITER}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient(secured.client(ADMIN))
    admin.create_acls([binding])[binding].result(PATIENCE_S)


def sink_of(secured: SecuredKafka, topic: str, user: str, prefix: str, **more: Any) -> KafkaSinkBuilder:
    builder = exactly_once(secured.bootstrap, topic, prefix)
    for name, value in {**secured.client(user), **more}.items():
        builder.set_property(name, value)
    return builder


def test_written_and_committed_over_tls(secured: SecuredKafka, topic: str) -> None:
    sink = sink_of(secured, topic, ADMIN, uuid.uuid4().hex).build()
    sink.check()
    writer = sink.create_writer(context())
    prepared = epoch_of(writer, 1, "a")
    assert commit(sink, prepared) == [CommitOutcome.COMMITTED]
    writer.close()


def test_a_wrong_password(secured: SecuredKafka, topic: str) -> None:
    sink = sink_of(secured, topic, ADMIN, "p", **{"sasl.password": "hunter2"}).build()
    with pytest.raises(ConnectorError, match="refused the login") as caught:
        sink.check()
    assert "hunter2" not in str(caught.value)


def test_what_must_be_allowed_is_said_step_by_step(secured: SecuredKafka, topic: str) -> None:
    prefix = uuid.uuid4().hex
    sink = sink_of(secured, topic, WRITER, prefix).build()
    with pytest.raises(ConnectorError, match=r"'secured' does not exist, or this user may not see it.*WRITE"):
        sink.check()
    allow(secured, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    with pytest.raises(ConnectorError, match="may not write the Kafka topic 'secured'"):
        sink.check()
    with pytest.raises(ConnectorError, match="(?i)allow WRITE|cannot go on"):
        at_least_once = sink_of(secured, topic, WRITER, prefix)
        at_least_once.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        epoch_of(at_least_once.build().create_writer(context()), 1, "a")
    allow(secured, ResourceType.TOPIC, "other", AclOperation.WRITE)
    sink = sink_of(secured, "other", WRITER, prefix).build()
    with pytest.raises(ConnectorError, match=rf"{prefix}.*allow WRITE and DESCRIBE on transactional ids"):
        sink.check()
    allow(secured, ResourceType.TRANSACTIONAL_ID, prefix, AclOperation.DESCRIBE)
    sink.check()
    writer = sink.create_writer(context())
    with pytest.raises(ConnectorError, match="allow WRITE and DESCRIBE on transactional ids"):
        epoch_of(writer, 1, "a")
    writer.close()
    allow(secured, ResourceType.TRANSACTIONAL_ID, prefix, AclOperation.WRITE)
    writer = sink.create_writer(context())
    assert commit(sink, epoch_of(writer, 1, "a")) == [CommitOutcome.COMMITTED]
    writer.close()


def test_a_topic_that_may_not_be_written_in_the_middle_of_a_transaction(
    secured: SecuredKafka, topic: str
) -> None:
    prefix = uuid.uuid4().hex
    allow(secured, ResourceType.TRANSACTIONAL_ID, prefix, AclOperation.WRITE)
    writer = sink_of(secured, topic, WRITER, prefix).build().create_writer(context())
    with pytest.raises(ConnectorError, match="'secured' was not delivered.*WRITE and DESCRIBE on"):
        epoch_of(writer, 1, "a")
    writer.close()


def test_certificates_from_files(secured: SecuredKafka, topic: str, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(secured.certificate)
    builder = sink_of(secured, topic, ADMIN, "p", **{"ssl.ca.location": str(tmp_path / "ca.pem")})
    del builder._properties["ssl.ca.pem"]
    builder.build().check()
