"""A Kafka of one node: broker and controller in one Java process, without ZooKeeper or containers."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from penstock.core.optional import require
from penstock.testing.servers.java import Jars
from penstock.testing.servers.ports import ask, free_port
from penstock.testing.servers.server import Server

_JARS = Jars("PENSTOCK_KAFKA_LIBS", "kafka-*", "kafka_2.*.jar", "the libs of any Kafka 4 download")
_API_VERSIONS = bytes.fromhex("0000000b 0012 0000 00000001 0001 70")
"""Request 18, version 0, which a broker of any release answers; ours is number 1 and from client ``p``."""

_BACK_SOON = {"broker.heartbeat.interval.ms": "500", "broker.session.timeout.ms": "3000"}
"""A killed broker is let in again only when its old session is over: by default after 9 s."""


class KafkaServer(Server):
    """Kafka: ``bootstrap`` is what clients want. ``settings`` are those of ``server.properties``."""

    title = "Kafka"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._controller = free_port()

    @property
    def bootstrap(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.port}"

    @classmethod
    def why_not(cls) -> str | None:
        if reason := _JARS.why_not(cls.title):
            return reason
        if find_spec("confluent_kafka") is None:
            return f"{cls.title} cannot be asked whether it is up: pip install 'penstock[kafka]'"
        return None

    def _prepare(self) -> None:
        listeners = f"PLAINTEXT://{self.bootstrap},CONTROLLER://{self.host}:{self._controller}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self.host}:{self._controller}",
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            **_BACK_SOON,
            **self._settings,
        }
        self._write("server.properties", "".join(f"{name}={value}\n" for name, value in settings.items()))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._run(
            [*_JARS.java(), "kafka.tools.StorageTool", "format", "-t", "x" + cluster[1:], "-c", self._file]
        )

    @property
    def _file(self) -> str:
        return str(self.directory / "server.properties")

    def _command(self) -> Sequence[str]:
        return [*_JARS.java(), "kafka.Kafka", self._file]

    def _answers(self) -> bool:
        if not ask(self.port, _API_VERSIONS, 1):
            return False
        client = require("confluent_kafka.admin", "kafka").AdminClient({"bootstrap.servers": self.bootstrap})
        try:
            return bool(client.list_topics(timeout=5).brokers)
        except require("confluent_kafka", "kafka").KafkaException:
            return False
