"""Servers that are Java programs: Kafka and HDFS, each of one process, without an installation.

A Kafka is a broker and a controller, without ZooKeeper or containers; an HDFS a name node and a data node.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from penstock.core.optional import require
from penstock.testing.servers.process import ask, free_port
from penstock.testing.servers.server import MISSING, Server, find_program

_CACHES = (Path.cwd(), Path(__file__).resolve().parents[3])
_OPTIONS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)
"""A server with a short life and little to do."""


def find_java() -> str | None:
    """The Java of ``JAVA_HOME``, or else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return find_program(["java"]) if home is None else f"{home}/bin/java"


@dataclass(frozen=True, slots=True)
class Jars:
    """The class path of a server."""

    variable: str
    """Names the directory, if the jars are not where ``make servers`` puts them."""
    folders: str
    """Where it puts them, below ``.servers``; the newest counts."""
    must_have: str
    what: str
    """In words, for somebody who has to find them."""

    def directory(self) -> Path | None:
        """Where they are."""
        named = os.environ.get(self.variable)
        found = (sorted(cache.glob(f".servers/{self.folders}"), reverse=True) for cache in _CACHES)
        candidates = [Path(named)] if named else [place for places in found for place in places]
        return next((place.resolve() for place in candidates if any(place.glob(self.must_have))), None)

    def why_not(self, title: str) -> str | None:
        """Why the server cannot run; ``None`` if it can."""
        if find_java() is None:
            return f"{title} cannot run here: there is no Java; install a JRE of version 17 or newer"
        if self.directory() is None:
            missing = MISSING.format(title=title, what="a directory with its jars")
            return f"{missing}, or {self.variable} names one ({self.what})"
        return None

    def java(self, *options: str) -> list[str]:
        """The command up to the main class."""
        return [find_java() or "java", *_OPTIONS, *options, "-cp", f"{self.directory()}/*"]


_HDFS = Jars(
    "PENSTOCK_HDFS_LIBS",
    "hadoop-*",
    "hadoop-client-minicluster-*.jar",
    "hadoop-client-minicluster and what it depends on",
)
_MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"
_SETTINGS = {
    "dfs.permissions.enabled": "false",
    "dfs.namenode.safemode.extension": "0",
    "dfs.replication": "1",
}
_GOOD = b"HTTP/1.1 200"


class HdfsServer(Server):
    """HDFS: ``url`` is for Python, ``spark_url`` for Spark. ``settings`` are those of ``hdfs-site.xml``."""

    title = "HDFS"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._name_node = free_port()

    @property
    def url(self) -> str:
        """``webhdfs://host:port``, the REST interface, which needs no library of Hadoop."""
        return f"webhdfs://{self.host}:{self.port}"

    @property
    def spark_url(self) -> str:
        """``hdfs://host:port``, the protocol that Hadoop's own clients speak."""
        return f"hdfs://{self.host}:{self._name_node}"

    @classmethod
    def why_not(cls) -> str | None:
        if reason := _HDFS.why_not(cls.title):
            return reason
        if find_spec("fsspec") is None or find_spec("requests") is None:
            return f"{cls.title} cannot be used: pip install fsspec requests"
        return None

    def _prepare(self) -> None:
        """The first start formats the data."""

    def _command(self) -> Sequence[str]:
        data, up = self.directory / "data", self.directory / "up.json"
        up.unlink(missing_ok=True)
        settings = {"hdfs.minidfs.basedir": str(data), **_SETTINGS, **self._settings}
        options = [part for name, value in settings.items() for part in ("-D", f"{name}={value}")]
        first = [] if data.exists() else ["-format"]
        ports = ["-nnport", str(self._name_node), "-httpport", str(self.port), "-writeDetails", str(up)]
        java = _HDFS.java(f"-Djava.io.tmpdir={self.directory}")
        return [*java, _MAIN, *options, *first, *ports]

    def _answers(self) -> bool:
        """It writes the file when the data node has reported to the name node."""
        try:
            json.loads((self.directory / "up.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        question = (
            f"GET /webhdfs/v1/?op=LISTSTATUS HTTP/1.1\r\nHost: {self.host}\r\nConnection: close\r\n\r\n"
        )
        return ask(self.port, question.encode(), len(_GOOD)) == _GOOD


_KAFKA = Jars("PENSTOCK_KAFKA_LIBS", "kafka-*", "kafka_2.*.jar", "the libs of any Kafka 4 download")
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
        if reason := _KAFKA.why_not(cls.title):
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
            [*_KAFKA.java(), "kafka.tools.StorageTool", "format", "-t", "x" + cluster[1:], "-c", self._file]
        )

    @property
    def _file(self) -> str:
        return str(self.directory / "server.properties")

    def _command(self) -> Sequence[str]:
        return [*_KAFKA.java(), "kafka.Kafka", self._file]

    def _answers(self) -> bool:
        if not ask(self.port, _API_VERSIONS, 1):
            return False
        client = require("confluent_kafka.admin", "kafka").AdminClient({"bootstrap.servers": self.bootstrap})
        try:
            return bool(client.list_topics(timeout=5).brokers)
        except require("confluent_kafka", "kafka").KafkaException:
            return False
