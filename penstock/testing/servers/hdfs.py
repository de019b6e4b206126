"""An HDFS of one name node and one data node in one Java process, without an installation of Hadoop."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from penstock.testing.servers.java import Jars
from penstock.testing.servers.ports import ask, free_port
from penstock.testing.servers.server import Server

_JARS = Jars(
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
        if reason := _JARS.why_not(cls.title):
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
        java = _JARS.java(f"-Djava.io.tmpdir={self.directory}")
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
