"""The tutorials, followed word for word in an empty directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typist import Typist

from penstock.testing.servers import PostgresServer

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
FOLLOWED = [
    "hourly-counts.md",
    "web-sessions.md",
    "fraud-patterns.md",
    "enrichment-and-joins.md",
    "online-model.md",
    "upgrade-a-running-job.md",
    "replay-and-debug.md",
    "from-pyflink.md",
    "from-structured-streaming.md",
]
WITH_SERVERS = "kafka-to-a-database.md"


@pytest.fixture
def typist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typist:
    return Typist(tmp_path, lambda: capsys.readouterr().out, monkeypatch)


@pytest.mark.parametrize("page", FOLLOWED)
def test_a_tutorial(page: str, typist: Typist) -> None:
    assert typist.follow(TUTORIALS / page)


@pytest.fixture
def addresses(kafka_server: Any, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of the test run, by the names that the page gives them."""
    server = postgres_server
    place = {"KAFKA": kafka_server.bootstrap, "PGHOST": server.host, "PGPORT": str(server.port)}
    place |= {"PGUSER": server.user, "PGDATABASE": server.database, "PGPASSWORD": server.password}
    for name, value in place.items():
        monkeypatch.setenv(name, value)


def test_the_tutorial_with_servers(typist: Typist, addresses: None) -> None:
    assert typist.follow(TUTORIALS / WITH_SERVERS)


def test_every_tutorial_is_followed() -> None:
    pages = {path.name for path in TUTORIALS.glob("*.md") if "```console" in path.read_text(encoding="utf-8")}
    assert pages == {*FOLLOWED, WITH_SERVERS}
