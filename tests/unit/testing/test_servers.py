"""Test servers: up, used, killed with -9, up again with their data, gone without a trace."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError, ConnectorError
from penstock.testing.servers import (
    HdfsServer,
    KafkaServer,
    MariaDbServer,
    PostgresServer,
    RedisServer,
    Server,
)
from penstock.testing.servers.process import ask, free_port
from tests.patience import PATIENCE_S
from tests.servers import skip_without

ROOT = Path(__file__).resolve().parents[3]
SERVERS = [HdfsServer, KafkaServer, MariaDbServer, PostgresServer, RedisServer]


@pytest.fixture
def fresh(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of the parametrised class that the test may kill."""
    skip_without(request.param)
    with request.param() as server:
        yield server


def own(server: type[Server]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fresh", [server], indirect=True, ids=[server.title])


@own(RedisServer)
def test_redis_keeps_what_it_answered(fresh: RedisServer) -> None:
    redis = pytest.importorskip("redis")
    place = {"host": fresh.host, "port": fresh.port}
    with redis.Redis(**place, username=fresh.user, password=fresh.password) as client:
        client.set("colour", "blue")
    fresh.kill()
    assert not fresh.running and ask(fresh.port, b"PING\r\n", 5) == b""
    fresh.restart()
    with redis.Redis(**place) as client:
        assert client.get("colour") == b"blue"


@own(MariaDbServer)
def test_mariadb_keeps_prepared_transactions(fresh: MariaDbServer) -> None:
    pymysql = pytest.importorskip("pymysql")

    def run(*statements: str) -> object:
        link = pymysql.connect(
            host=fresh.host,
            port=fresh.port,
            user=fresh.user,
            password=fresh.password,
            database=fresh.database,
            autocommit=True,
        )
        with link, link.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    run("CREATE TABLE t (a INT)", "XA START 'x'", "INSERT INTO t VALUES (7)", "XA END 'x'", "XA PREPARE 'x'")
    fresh.kill()
    fresh.restart()
    run("XA COMMIT 'x'")
    assert run("SELECT a FROM t") == ((7,),)


@own(PostgresServer)
def test_postgres_keeps_prepared_transactions(fresh: PostgresServer) -> None:
    psycopg = pytest.importorskip("psycopg")

    def connect(password: str) -> object:
        return psycopg.connect(
            host=fresh.host,
            port=fresh.port,
            user=fresh.user,
            password=password,
            dbname=fresh.database,
            autocommit=True,
        )

    with connect(fresh.password) as link:
        link.execute("CREATE TABLE t (a INT)")
        for statement in ("BEGIN", "INSERT INTO t VALUES (7)", "PREPARE TRANSACTION 'x'"):
            link.execute(statement)
    fresh.kill()
    fresh.restart()
    with connect(fresh.password) as link:
        link.execute("COMMIT PREPARED 'x'")
        assert link.execute("SELECT a FROM t").fetchall() == [(7,)]
    with pytest.raises(psycopg.OperationalError):
        connect("another password")


@own(KafkaServer)
def test_kafka_keeps_committed_records(fresh: KafkaServer) -> None:
    kafka = pytest.importorskip("confluent_kafka")
    producer = kafka.Producer({"bootstrap.servers": fresh.bootstrap, "transactional.id": "t"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("colours", b"blue")
    producer.commit_transaction(20)
    fresh.kill()
    fresh.restart()
    consumer = kafka.Consumer(
        {"bootstrap.servers": fresh.bootstrap, "group.id": "g", "isolation.level": "read_committed"}
    )
    consumer.assign([kafka.TopicPartition("colours", 0, 0)])
    deadline = time.monotonic() + PATIENCE_S
    values: list[bytes] = []
    while not values and time.monotonic() < deadline:
        values += [message.value() for message in consumer.consume(1, 1.0) if message.error() is None]
    consumer.close()
    assert values == [b"blue"]


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.title)
def test_why_not_is_one_sentence_where_there_is_nothing(
    server: type[Server], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("penstock.testing.servers.server.shutil.which", lambda *_, **__: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    reason = server.why_not()
    assert reason is not None and "\n" not in reason
    assert reason.startswith(server.title) and "install" in reason
    with pytest.raises(ConfigError, match=server.title):
        server().start()


def test_why_not_of_kafka_without_its_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PENSTOCK_KAFKA_LIBS", str(tmp_path))
    reason = KafkaServer.why_not()
    assert reason is not None and ("jars" in reason or "no Java" in reason)


def test_a_server_that_does_not_come_up_says_why() -> None:
    skip_without(PostgresServer)
    server = PostgresServer(settings={"max_connections": "many"})
    with pytest.raises(ConnectorError, match="max_connections") as failure:
        server.start()
    assert server.password not in str(failure.value)
    assert server.password not in repr(server)


def test_stop_leaves_nothing() -> None:
    skip_without(RedisServer)
    server = RedisServer().start()
    place = server.directory
    server.stop()
    server.stop()
    assert not place.exists() and ask(server.port, b"PING\r\n", 5) == b""
    with pytest.raises(ConfigError, match="start"):
        _ = server.log


def test_a_killed_test_run_leaves_nothing(tmp_path: Path) -> None:
    skip_without(RedisServer)
    said = tmp_path / "said"
    program = (
        "import pathlib, time\n"
        "from penstock.testing.servers import RedisServer\n"
        "s = RedisServer().start()\n"
        f"pathlib.Path({str(said)!r}).write_text(f'{{s.port}} {{s.directory}}\\n')\n"
        f"time.sleep({PATIENCE_S})\n"
    )
    run = subprocess.Popen([sys.executable, "-c", program])
    wait_for(lambda: said.exists() and said.read_text().endswith("\n"))
    port, place = said.read_text().split()
    assert ask(int(port), b"PING\r\n", 5) == b"+PONG"
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    wait_for(lambda: not Path(place).exists() and ask(int(port), b"PING\r\n", 5) == b"")


def test_free_ports_are_not_those_of_outgoing_connections() -> None:
    ports = {free_port() for _ in range(20)}
    assert len(ports) > 1 and all(20_000 <= port < 32_000 for port in ports)


def wait_for(condition: object, seconds: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_the_guides_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    skip_without(PostgresServer)
    guide = (ROOT / "docs" / "guides" / "test-servers.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    exec(compile(code, "<guide>", "exec"), {})
    assert capsys.readouterr().out.startswith("127.0.0.1 ")


def test_ensuring_servers_that_are_there_says_nothing() -> None:
    skip_without(*SERVERS)
    done = subprocess.run(
        ["sh", ROOT / "scripts" / "ensure_servers.sh"], capture_output=True, text=True, check=True
    )
    assert done.stdout == done.stderr == ""


@pytest.mark.parametrize("file", sorted((ROOT / "deploy" / "compose").glob("*.yml")), ids=lambda f: f.stem)
def test_compose_files_listen_on_loopback_only(file: Path) -> None:
    ports = re.findall(r'^ +- "([0-9.:]+)"$', file.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(ports) == 1 and ports[0].startswith("127.0.0.1:")
