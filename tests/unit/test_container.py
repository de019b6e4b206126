"""What the image of deploy/container starts, with stand-ins for the programs that only the image has."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

PLACE = Path(__file__).resolve().parents[2] / "deploy" / "container"
TELL = '#!/bin/sh\necho "$(basename "$0")"\nfor each in "$@"; do echo "$each"; done\n'
RUN = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n'
POD = {
    "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7",
    "SPARK_DRIVER_URL": "spark://driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_EXECUTOR_MEMORY": "1g",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
    "SPARK_EXECUTOR_POD_NAME": "exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    **{f"SPARK_JAVA_OPT_{number}": f"-Doption.{number}=a b" for number in range(11)},
}


def started(place: Path, *arguments: str) -> list[str]:
    """The program that the image would end up as, and its arguments."""
    (place / "bin").mkdir()
    for path, text in (
        (place / "tini", RUN),
        (place / "java", TELL),
        (place / "penstock", TELL),
        (place / "bin" / "spark-submit", TELL),
    ):
        path.write_text(text)
        path.chmod(0o755)
    environment = {"PATH": f"{place}:{os.environ['PATH']}", "SPARK_HOME": str(place), **POD}
    command = ["sh", str(PLACE / "entrypoint.sh"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_sparks_driver(tmp_path: Path) -> None:
    given = ["--properties-file", "/opt/spark/conf/spark.properties", "main.py", "a b"]
    said = started(tmp_path, "driver", *given)
    assert said[0] == "spark-submit" and "spark.driver.bindAddress=10.0.0.7" in said
    assert said[-6:] == ["--deploy-mode", "client", *given]


def test_sparks_executor(tmp_path: Path) -> None:
    said = started(tmp_path, "executor")
    assert said[0] == "java" and said[1:12] == [f"-Doption.{number}=a b" for number in range(11)]
    assert said[12:14] == ["-Xms1g", "-Xmx1g"]
    own = said[said.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend") + 1 :]
    assert dict(zip(own[::2], own[1::2], strict=True)) == {
        "--driver-url": "spark://driver:7078",
        "--executor-id": "3",
        "--cores": "1",
        "--app-id": "app",
        "--hostname": "10.0.0.8",
        "--resourceProfileId": "0",
        "--podName": "exec-3",
    }


@pytest.mark.parametrize("arguments", [["run", "a job.py"], ["--help"]])
def test_the_command_line_otherwise(tmp_path: Path, arguments: list[str]) -> None:
    assert started(tmp_path, *arguments) == ["penstock", *arguments]


def alive(port: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PLACE / "alive.py"), str(port)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [(b"HTTP/1.1 401 Unauthorized\r\n\r\n", 0, ""), (b"what?\r\n", 1, "does not speak HTTP")],
)
def test_the_probe_takes_any_answer_of_http(answer: bytes, status: int, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line = server.accept()[0]
            line.recv(1000)
            line.sendall(answer)
            line.close()

        threading.Thread(target=serve, daemon=True).start()
        done = alive(server.getsockname()[1])
    assert (done.returncode, said in done.stderr) == (status, True)


def test_the_probe_fails_where_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = alive(port)
    assert done.returncode == 1 and f"nobody answers at port {port}" in done.stderr
