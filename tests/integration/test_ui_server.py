"""``penstock ui`` before real jobs: all on one page, none of their tokens, and archives of what ended."""

from __future__ import annotations

import json
import logging
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from local_jobs import environment, number_stream, until
from rest_client import COUNT, Client

from penstock.coordinator import registry
from penstock.coordinator.running_job import RunningJob
from penstock.core.config import Configuration
from penstock.core.job import JobStatus
from penstock.rest.archiving import archive_at_end
from penstock.rest.ui_serving import UiServer
from penstock.spark.launcher import publish_to_registry
from penstock.testing.local import local_cluster
from tests.paper_job import published
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))


@contextmanager
def running(tmp_path: Path, name: str = "shown", **settings: str) -> Iterator[tuple[RunningJob, Path]]:
    """A job that others can find, waiting at a good half of its records."""
    gate = tmp_path / f"gate-{len(list(tmp_path.glob('gate-*')))}"
    given = {"rest__port": "0", "jobmanager__archive__fs__dir": str(tmp_path / "archive")}
    env = environment(tmp_path / "checkpoints", **{**given, **settings})
    with local_cluster(2) as launcher:
        number_stream(env, COUNT, gate=gate).key_by(lambda i: i % 7).map(lambda i: i).uid("map").print()
        env.execute_async(name)
        job = launcher.jobs[-1]
        publish_to_registry(job)
        until(lambda: job.status() is JobStatus.RUNNING, "the job runs")
        try:
            yield job, gate
        finally:
            gate.touch()
            if not job.result().done():
                job.cancel().result(PATIENCE_S)


@contextmanager
def served(tmp_path: Path, *archives: str, **settings: str) -> Iterator[tuple[UiServer, Client]]:
    """The page of all jobs."""
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
    configuration = Configuration.from_dict({"rest.port": "0", **given})
    server = UiServer(configuration, archives or (str(tmp_path / "archive"),))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert server.is_ready.wait(PATIENCE_S)
    try:
        yield server, Client(server.url, server.token)
    finally:
        server.stop()
        thread.join(PATIENCE_S)


def lines(client: Client) -> list[dict[str, Any]]:
    return list(client.get("/jobs/overview")["jobs"])


def until_listed(client: Client, right: Callable[[list[dict[str, Any]]], Any]) -> list[dict[str, Any]]:
    """The list, once it is as it must become."""
    found: tuple[list[dict[str, Any]]] = until(lambda: right(got := lines(client)) and (got,), "it is right")
    return found[0]


def test_a_running_job_is_listed_looked_at_and_steered_without_its_token(tmp_path: Path) -> None:
    with running(tmp_path) as (job, _), served(tmp_path) as (_, client):
        (line,) = until_listed(client, lambda got: got and got[0]["state"] == "RUNNING")
        (entry,) = registry.entries()
        base = f"/{line['penstock-page']}"
        jid = job.job_id.hex
        assert client.get(f"{base}jobs/{jid}")["name"] == "shown" == client.get(f"/jobs/{jid}")["name"]
        assert client.get(f"/v1/jobs/{jid}/status") == {"status": "RUNNING"}
        assert client.get(f"{base}config")["penstock-up"] and client.get("/config")["penstock-list"]
        vertex = client.get(f"{base}jobs/{jid}")["vertices"][0]["id"]
        assert client.get(f"{base}jobs/{jid}/vertices/{vertex}/subtasks/metrics?get=numRecordsIn")
        said = "".join(
            str(client.ask(path))
            for path in ("/jobs/overview", base, f"{base}config", f"{base}jobs/overview")
        )
        assert entry.rest_token not in said and entry.token not in said
        directory = str(tmp_path / "savepoints")
        begun = client.ask(f"{base}jobs/{jid}/savepoints", "POST", {"target-directory": directory})
        assert begun.status == 202
        where = f"{base}jobs/{jid}/savepoints/{begun.body['request-id']}"
        done = until(lambda: client.get(where)["operation"], "the savepoint is complete")
        assert done["location"].startswith("file:") and any(Path(directory).iterdir())
        assert client.ask(f"{base}jobs/{jid}?mode=strange", "PATCH").status == 400
        assert client.ask(f"{base}jobs/{'0' * 32}").status == 404


def test_files_come_from_here_and_never_from_a_driver(tmp_path: Path) -> None:
    with running(tmp_path), served(tmp_path) as (_, client):
        (line,) = until_listed(client, lambda got: got and got[0]["state"] == "RUNNING")
        base = f"/{line['penstock-page']}"
        assert "<!doctype html>" in client.ask(base).body
        assert "text/javascript" in client.ask(f"{base}app.js").headers["content-type"]
        for path in ("index.htm", "..%2fapp.js", "static/app.js", "jobs/../app.js", "at/x/"):
            assert client.ask(base + path).status == 404, path


def test_a_job_that_ends_moves_to_its_archive_under_the_same_address(tmp_path: Path) -> None:
    with served(tmp_path) as (_, client):
        with running(tmp_path) as (job, gate):
            (line,) = until_listed(client, lambda got: got and got[0]["state"] == "RUNNING")
            gate.touch()
            job.result().result(PATIENCE_S)
        (after,) = until_listed(client, lambda got: got and got[0]["state"] == "FINISHED")
        assert after["penstock-page"] == line["penstock-page"] and after["name"] == "shown"
        base, jid = f"/{line['penstock-page']}", job.job_id.hex
        config = client.get(f"{base}config")
        assert config["penstock-archived"] and not config["features"]["web-cancel"]
        shown = client.get(f"{base}jobs/{jid}")
        assert shown["state"] == "FINISHED" and shown["vertices"][0]["metrics"]["write-records"] == COUNT
        assert client.get(f"{base}jobs/{jid}/checkpoints")["counts"]["completed"] > 0
        assert "RUNNING" in [one["text"] for one in client.get(f"{base}jobs/{jid}/events")["events"]]
        assert client.get(f"{base}jobs")["jobs"] == [{"id": jid, "status": "FINISHED"}]
        assert "job 'shown' starts" in client.ask(f"{base}jobmanager/log").body
        assert client.get("/overview")["jobs-finished"] == 1
        for method, path in (("PATCH", ""), ("POST", "/savepoints"), ("GET", "/yarn-cancel")):
            refused = client.ask(f"{base}jobs/{jid}{path}", method, None)
            assert refused.status == 409 and "archive" in refused.body["errors"][0]
        with running(tmp_path) as (again, _):
            both = until_listed(client, lambda got: {one["state"] for one in got} == {"FINISHED", "RUNNING"})
            assert len({one["penstock-page"] for one in both}) == 2 and again.job_id == job.job_id
            assert client.get(f"/jobs/{jid}")["state"] == "RUNNING"


def test_failed_and_cancelled_jobs_are_archived(tmp_path: Path) -> None:
    with served(tmp_path) as (_, client):
        with running(tmp_path) as (job, _):
            job.cancel().result(PATIENCE_S)
        (line,) = until_listed(client, lambda got: got and got[0]["state"] == "CANCELED")
        with running(tmp_path, "wrong", restart_strategy__type="none") as (job, gate):
            job.driver._cluster.kill(0)
            until(lambda: job.result().done(), "the job has failed")
        failed = until_listed(client, lambda got: len(got) == 2)
        (one,) = [one for one in failed if one["state"] == "FAILED"]
        entries = client.get(f"/{one['penstock-page']}jobs/{one['jid']}/exceptions")["exceptionHistory"][
            "entries"
        ]
        assert entries and one["name"] == "wrong" and line["name"] == "shown"


def test_a_driver_that_dies_vanishes_and_its_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path) as (_, client), running(tmp_path, jobmanager__archive__fs__dir="") as (job, _):
        (line,) = until_listed(client, lambda got: got and got[0]["state"] == "RUNNING")
        monkeypatch.setattr(registry, "_is_alive", lambda pid: False)
        assert until_listed(client, lambda got: not got) == []
        gone = client.ask(f"/{line['penstock-page']}jobs/{job.job_id.hex}")
        assert gone.status == 410 and "'shown' is gone" in gone.body["errors"][0]
        assert client.ask(f"/at/{'0' * 32}/jobs/overview").status == 404


def test_a_driver_that_does_not_answer_is_listed_and_harms_nobody(tmp_path: Path) -> None:
    silent = registry.register("ab" * 16, "silent")
    assert silent is not None
    silent.publish("http://127.0.0.1:9", "never shown")
    silent.socket.close()
    try:
        with published("bare"), running(tmp_path), served(tmp_path) as (_, client):
            found = until_listed(client, lambda got: len(got) == 3)
            states = {one["name"]: (one["state"], bool(one["penstock-page"])) for one in found}
            assert states["shown"] == ("RUNNING", True) and states["silent"] == ("UNKNOWN", True)
            assert states["bare"] == ("RUNNING", False)
            refused = client.ask(f"/jobs/{'ab' * 16}/plan")
            assert refused.status == 502 and "does not answer" in refused.body["errors"][0]
    finally:
        silent.close()


def test_whoever_is_not_let_in_sees_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as (job, _), served(tmp_path) as (server, client):
        (line,) = until_listed(client, lambda got: got and got[0]["state"] == "RUNNING")
        base, jid = f"/{line['penstock-page']}", job.job_id.hex
        paths = ("/", "/config", "/jobs/overview", "/penstock/archives", base, f"{base}jobs/{jid}", "/app.js")
        for path in paths:
            assert Client(server.url, None).ask(path).status == 401, path
            assert Client(server.url, "wrong").ask(path).status == 401, path
            assert client.ask(path, Origin="http://evil.example").status == 403, path
            assert client.ask(path, Host="evil.example").status == 403, path
            assert client.ask(path).headers["content-security-policy"].startswith("default-src 'self'")
        cookie = let_in(server)
        browser = Client(server.url, None, {"Cookie": cookie})
        assert browser.ask(f"{base}jobs/{jid}").status == 200
        for method, path in (("PATCH", ""), ("POST", "/stop"), ("GET", "/yarn-cancel")):
            assert browser.ask(f"{base}jobs/{jid}{path}", method).status == 403
            cross = browser.ask(f"{base}jobs/{jid}{path}", method, None, Sec_Fetch_Site="same-site")
            assert cross.status == 403
        assert job.status() is JobStatus.RUNNING
        own = browser.ask(f"{base}jobs/{jid}", "PATCH", None, Sec_Fetch_Site="same-origin")
        assert own.status == 202
        until(lambda: job.result().done(), "the job is cancelled")


def let_in(server: UiServer) -> str:
    """The cookie of a browser that has opened the link."""
    with urllib.request.urlopen(server.link(), timeout=PATIENCE_S) as answer:
        cookie = SimpleCookie(answer.headers["set-cookie"])
    (one,) = cookie.values()
    assert one["samesite"] == "strict" and one["httponly"]
    return f"{one.key}={one.value}"


def test_read_only_by_setting(tmp_path: Path) -> None:
    with running(tmp_path) as (job, _), served(tmp_path, penstock__rest__read_only="true") as (_, client):
        until_listed(client, lambda got: got and got[0]["state"] == "RUNNING")
        assert not client.get("/config")["features"]["web-cancel"]
        assert client.ask(f"/jobs/{job.job_id.hex}", "PATCH").status == 403


def test_a_job_that_only_shows_is_not_changed_from_here(tmp_path: Path) -> None:
    with running(tmp_path, penstock__rest__read_only="true") as (job, _), served(tmp_path) as (_, client):
        until_listed(client, lambda got: got and got[0]["state"] == "RUNNING")
        jid = job.job_id.hex
        for method, path in (("PATCH", ""), ("POST", "/stop"), ("GET", "/yarn-cancel")):
            assert client.ask(f"/jobs/{jid}{path}", method, None).status == 403, path
        assert client.get(f"/jobs/{jid}")["state"] == "RUNNING"
        (entry,) = registry.entries()
        assert entry.cancel()  # the command line still can


def test_whoever_sits_at_the_port_of_a_job_hears_and_shows_nothing(tmp_path: Path) -> None:
    heard: list[bytes] = []
    stranger = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        with suppress(OSError):
            while True:
                connection, _ = stranger.accept()
                with connection:
                    heard.append(connection.recv(1000))

    threading.Thread(target=listen, daemon=True).start()
    with running(tmp_path) as (job, _), served(tmp_path) as (_, client):
        (entry,) = registry.entries()
        registration = registry.Registration(entry, stranger)
        registration.publish(f"https://127.0.0.1:{stranger.getsockname()[1]}", "a token")
        until_listed(client, lambda got: got and got[0]["state"] == "RUNNING")
        assert client.get(f"/jobs/{job.job_id.hex}")["name"] == "shown"
    stranger.close()
    assert heard == []


def test_an_archive_that_cannot_be_written_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    where = str(tmp_path / "file" / "archive")
    with caplog.at_level(logging.WARNING, "penstock"):
        with running(tmp_path, jobmanager__archive__fs__dir=where) as (job, gate):
            gate.touch()
            assert job.result().result(PATIENCE_S).get_job_id() == job.job_id
    said = [record.getMessage() for record in caplog.records if "archived" in record.getMessage()]
    assert (
        len(said) == 1 and "job 'shown' is not archived" in said[0] and "jobmanager.archive.fs.dir" in said[0]
    )


def test_a_job_without_a_page_is_archived_and_leaves_nothing_behind(tmp_path: Path) -> None:
    filters = list(logging.getLogger("penstock").filters)
    with running(tmp_path, penstock__rest__enabled="false") as (job, gate):
        gate.touch()
        job.result().result(PATIENCE_S)
    with served(tmp_path) as (_, client):
        (line,) = lines(client)
        assert client.get(f"/jobs/{line['jid']}/status") == {"status": "FINISHED"}
    assert logging.getLogger("penstock").filters == filters


def test_a_run_beside_a_job_is_not_archived(tmp_path: Path) -> None:
    with running(tmp_path) as (job, _):
        job.job, before = replace(job.job, is_aside=True), len(job.listeners)
        archive_at_end(job)
        assert len(job.listeners) == before


def test_a_store_that_hangs_does_not_keep_the_job_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    held = threading.Event()
    monkeypatch.setattr("penstock.rest.archiving.write_archive", lambda *_: held.wait(PATIENCE_S))
    monkeypatch.setattr("penstock.rest.archiving.PATIENCE_S", 0.01)
    with running(tmp_path) as (job, gate):
        gate.touch()
        job.result().result(PATIENCE_S)
    held.set()
    assert "has not answered" in caplog.text


def test_what_is_in_an_archive_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / f"{'a' * 32}-1.json").write_text("<script>")
    with served(tmp_path, str(tmp_path / "archive"), "nosuch://bucket") as (_, client):
        assert lines(client) == []
        here, there = client.get("/penstock/archives")["archives"]
        assert here["refused"] == [
            {"file": f"{'a' * 32}-1.json", "reason": "it is not JSON, or not all of it is there"}
        ]
        assert "nosuch" in there["error"]
        json.dumps(here)
