"""YARN, started here on the loopback: a resource manager and a node manager, without HDFS or keytabs."""

from __future__ import annotations

import getpass
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from processes import descendants, kill
from standalone import HOME, await_text, environment, free_port

from penstock.testing.servers import HdfsServer
from tests.patience import PATIENCE_S, PROGRAM_S
from tests.servers import skip_without

ROOT = Path(__file__).parents[2]
SERVER = "org.apache.hadoop.yarn.server"
MORE_JARS = ROOT / ".servers" / "yarn"


def yarn_jars() -> str:
    """The class path of the servers: HDFS's jars, which have YARN's, and the few that it needs besides."""
    skip_without(HdfsServer)
    if not list(MORE_JARS.glob("bcprov-*.jar")):
        pytest.skip("YARN cannot run here: its jars are not there; make test-clusters fetches them")
    hadoop = max((ROOT / ".servers").glob("hadoop-*"))
    return f"{MORE_JARS}/*:{hadoop.resolve()}/*"


class Yarn:
    """A cluster of one node; ``submit`` is what it is for."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._settings = place / "settings"
        self._logs = place / "containers"
        self._manager = f"127.0.0.1:{free_port()}"
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """The resource manager, then a node with room for a driver and two executors."""
        jars = yarn_jars()
        self._settings.mkdir()
        self._write("yarn-site", self._site())
        self._write("core-site", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(self._place / "tmp")})
        scheduler = "yarn.scheduler.capacity"
        queue = {f"{scheduler}.root.queues": "default", f"{scheduler}.root.default.capacity": "100"}
        self._write("capacity-scheduler", {**queue, f"{scheduler}.maximum-am-resource-percent": "1.0"})
        self._launch("rm", f"{SERVER}.resourcemanager.ResourceManager", jars)
        self._launch("nm", f"{SERVER}.nodemanager.NodeManager", jars)
        await_text(self._place / "nm.log", "Registered with ResourceManager")

    def _site(self) -> dict[str, str]:
        manager, node = "yarn.resourcemanager", "yarn.nodemanager"
        doors = [f"{manager}.{door}address" for door in ("", "scheduler.", "resource-tracker.", "admin.")]
        doors += [f"{node}.{door}address" for door in ("", "localizer.", "webapp.")]
        return {
            **{door: f"127.0.0.1:{free_port()}" for door in doors},
            f"{manager}.webapp.address": self._manager,
            f"{manager}.hostname": "127.0.0.1",
            f"{node}.local-dirs": str(self._place / "local"),
            f"{node}.log-dirs": str(self._logs),
            f"{node}.resource.memory-mb": "4096",
            f"{node}.resource.cpu-vcores": "8",
            "hadoop.http.staticuser.user": getpass.getuser(),  # may end applications, over HTTP
            f"{node}.vmem-check-enabled": "false",
            f"{node}.pmem-check-enabled": "false",
            f"{node}.disk-health-checker.enable": "false",
            "yarn.scheduler.minimum-allocation-mb": "128",
        }

    def _write(self, name: str, settings: Mapping[str, str]) -> None:
        rows = (f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
        (self._settings / f"{name}.xml").write_text(f"<configuration>{''.join(rows)}</configuration>")

    def _launch(self, name: str, main: str, jars: str) -> None:
        java = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"]
        with (self._place / f"{name}.log").open("wb") as output:
            process = subprocess.Popen(
                [*java, "-cp", f"{self._settings}:{jars}", main],
                cwd=self._place,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)

    def submit(self, *arguments: str, env: Mapping[str, str]) -> str:
        """Run an application to its end, which must be a good one; what it printed, wherever it ran."""
        before = set(self._logs.glob("*"))
        output = self._place / "output"
        status = self.submitted(output, *arguments, env=env).wait(PROGRAM_S)
        of_containers = [
            path.read_text()
            for application in set(self._logs.glob("*")) - before
            for path in sorted(application.glob("*/stdout"))
        ]
        said = "".join([output.read_text(), *of_containers])
        assert status == 0, said
        return said

    def submitted(self, output: Path, *arguments: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start an application; what is printed here goes to a file."""
        with output.open("wb") as file:
            return subprocess.Popen(
                [str(HOME / "bin" / "spark-submit"), "--master", "yarn", *self._small(), *arguments],
                cwd=self._place,
                env={**environment(self._place), "HADOOP_CONF_DIR": str(self._settings), **env},
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def end_applications(self) -> int:
        """Have all that run killed, as ``yarn application -kill`` does; how many there were."""
        applications = f"http://{self._manager}/ws/v1/cluster/apps"
        with urlopen(f"{applications}?states=RUNNING", timeout=PATIENCE_S) as answer:
            running = [each["id"] for each in (json.load(answer)["apps"] or {}).get("app", [])]
        for name in running:
            state = json.dumps({"state": "KILLED"}).encode()
            headers = {"Content-Type": "application/json"}
            wanted = Request(f"{applications}/{name}/state", state, headers, method="PUT")
            urlopen(wanted, timeout=PATIENCE_S).close()
        return len(running)

    def _small(self) -> list[str]:
        """Room for a laptop; Spark's jars where they are, and not copied for each application."""
        settings = {
            "spark.yarn.jars": f"local:{HOME}/jars/*",
            "spark.yarn.stagingDir": f"file://{self._place}/staging",
            "spark.yarn.am.memory": "384m",
            "spark.ui.enabled": "false",
        }
        options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        memory = ["--driver-memory", "512m", "--executor-memory", "512m"]
        return [*memory, "--executor-cores", "1", "--num-executors", "2", *options]

    def stop(self) -> None:
        """Both servers and whatever they have started."""
        for process in reversed(self._started):
            kill(*descendants(process.pid), process.pid)
            process.wait(PATIENCE_S)
