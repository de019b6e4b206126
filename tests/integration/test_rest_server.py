"""The control plane of real jobs: contract, true numbers, requests, bad input, what must not harm a job."""

from __future__ import annotations

import logging
import socket
import ssl
import sys
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from local_jobs import environment, kill_slot, number_stream, until
from rest_client import COUNT, HALF, Client, Served, key_store, served

from penstock.core.job import JobStatus
from penstock.rest import openapi
from penstock.rest.app import MAX_BODY
from penstock.rest.serving import serve
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S


def vertex_ids(client: Client, base: str) -> list[str]:
    return [vertex["id"] for vertex in client.get(base)["vertices"]]


def check_contract(client: Client) -> int:
    """Ask every call that only looks, as the served document says; how many there were."""
    paths = client.get("/openapi.json")["paths"]
    job = client.get("/jobs/overview")["jobs"][0]["jid"]
    ids = {"jobid": job, "applicationid": job, "subtaskindex": "0", "logname": "driver.log"}
    ids["vertexid"] = vertex_ids(client, f"/jobs/{job}")[-1]
    for name, found in (
        ("taskmanagerid", [one["id"] for one in client.get("/taskmanagers")["taskmanagers"]]),
        ("checkpointid", [str(one["id"]) for one in client.get(f"/jobs/{job}/checkpoints")["history"]]),
    ):
        ids |= {name: found[0]} if found else {}
    asked = 0
    for path, operations in paths.items():
        places = {
            part["name"] for part in operations.get("get", {}).get("parameters", []) if part["in"] == "path"
        }
        if "get" not in operations or path.endswith("yarn-cancel") or not places <= set(ids):
            continue
        query = "?get=busyTimeMsPerSecond" if path.endswith("subtasks/metrics") else ""
        (content,) = operations["get"]["responses"]["200"]["content"].values()
        if "logname" in places:
            (first, *_) = client.get(path.removesuffix("/{logname}").format(**ids))["logs"]
            ids["logname"] = first["name"]
        for prefix in ("", "/v1"):
            body = client.get(prefix + path.format(**ids) + query)
            jsonschema.validate(body, content["schema"])
        asked += 1
    return asked


SELDOM = {"execution__checkpointing__interval": "1 h"}
"""No newer checkpoint pushes out of the history what is asked about, however slow the machine is."""


def test_a_streaming_job_keeps_the_contract(tmp_path: Path) -> None:
    with served(tmp_path, **SELDOM) as job:
        job.client.ask(f"{job.base}/checkpoints", "POST", {"checkpointType": "FULL"})
        until(lambda: job.client.get(f"{job.base}/checkpoints")["history"], "a checkpoint was begun")
        assert check_contract(job.client) > 45


def requirements(parallelism: dict[str, int]) -> dict[str, Any]:
    return {one: {"parallelism": {"lowerBound": 1, "upperBound": most}} for one, most in parallelism.items()}


def test_new_requirements_rescale_a_job_that_keeps_the_contract(tmp_path: Path) -> None:
    with served(tmp_path, execution__checkpointing__interval="1 h") as job:
        source, mapped = vertex_ids(job.client, job.base)
        place = f"{job.base}/resource-requirements"
        same = {source: 2, mapped: 2}
        assert job.client.get(place)[mapped] == {"parallelism": {"lowerBound": 2, "upperBound": 2}}
        assert job.client.ask(place, "PUT", requirements(same)).status == 200
        for bad in (same | {source: 3, mapped: 3}, same | {mapped: 0}, same | {"0" * 32: 2}, {mapped: 3}):
            refused = job.client.ask(place, "PUT", requirements(bad))
            assert refused.status == 400 and refused.body["errors"][0], bad
        assert job.client.ask(place, "PUT", requirements(same | {mapped: 3})).status == 200
        until(lambda: job.client.get(place)[mapped]["parallelism"]["upperBound"] == 3, "the plan has changed")
        until(lambda: job.client.get(f"{job.base}/status")["status"] == "RUNNING", "the job runs")
        assert check_contract(job.client) > 45
        subtasks = job.client.get(f"{job.base}/vertices/{mapped}")["subtasks"]
        assert [one["status"] for one in subtasks] == ["RUNNING"] * 3
        events = job.client.get(f"{job.base}/events")["events"]
        told = [one["text"] for one in events if one["kind"] == "rescale"]
        assert told[-1] == "rescale from 2 to 3: done" and len(told) == 2
        assert not [one for one in events if one["kind"] == "slot"], "slots that leave as told are not lost"


def test_chains_that_a_rescale_makes_and_breaks_keep_the_contract(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    settings = {"rest__port": "0", "execution__checkpointing__unaligned__enabled": "true"}
    env = environment(tmp_path / "chk", execution__checkpointing__interval="1 h", **settings)
    with local_cluster(2) as launcher:
        numbers = number_stream(env, COUNT, gate=gate).map(lambda i: i).uid("first")
        numbers.key_by(lambda i: i % 7).map(lambda i: i).uid("map").print()
        env.execute_async("chains")
        (job,) = launcher.jobs
        serving = serve(job)
        assert serving is not None
        client = Client(serving.url, serving.token)
        found = []
        for parallelism in (3, 2):
            job.rescale(parallelism)[1].result(PATIENCE_S)
            found.append(len(vertex_ids(client, f"/jobs/{job.job_id.hex}")))
            until(lambda: client.get(f"/jobs/{job.job_id.hex}/penstock/rates")["moments"], "rates are there")
            assert check_contract(client) > 45
        assert found == [3, 2], "the source, which has a parallelism of its own, and the first map"
        gate.touch()
        job.result().result(PATIENCE_S)
        serving.close()


def test_a_batch_job_keeps_the_contract(tmp_path: Path) -> None:
    env = environment(None, execution__runtime_mode="BATCH", rest__port="0")
    reached, gate = str(tmp_path / "reached"), str(tmp_path / "gate")

    def hold(value: int) -> int:
        Path(reached).touch()
        until(lambda: Path(gate).exists(), "the gate is open")
        return value

    with local_cluster(2) as launcher:
        env.from_collection(list(range(10))).key_by(lambda i: i % 3).map(hold).print()
        env.execute_async("batch")
        (job,) = launcher.jobs
        serving = serve(job)
        assert serving is not None
        until(lambda: Path(reached).exists(), "a function is at work")
        client = Client(serving.url, serving.token)
        assert client.get("/jobs/overview")["jobs"][0]["jobType"] == "BATCH"
        assert check_contract(client) > 35
        refused = client.ask(f"/jobs/{job.job_id.hex}/savepoints", "POST", {})
        assert refused.status == 400 and "BATCH mode takes no snapshots" in refused.body["errors"][0]
        Path(gate).touch()
        job.result().result(PATIENCE_S)
        assert client.get("/jobs")["jobs"] == [{"id": job.job_id.hex, "status": "FINISHED"}]
        serving.close()


def test_numbers_are_those_of_the_engine(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        source, mapped = vertex_ids(job.client, job.base)

        def counted() -> bool:
            vertices = job.client.get(job.base)["vertices"]
            return vertices[0]["metrics"]["write-records"] == HALF == vertices[1]["metrics"]["read-records"]

        until(counted, "all records up to the gate are counted")
        detail = job.client.get(f"{job.base}/vertices/{mapped}")
        told = [one["metrics"]["read-records"] for one in detail["subtasks"]]
        engine = [
            job.job.history.view().metrics[subtask]["numRecordsIn"]
            for subtask in job.job.job.plan.vertices[1].subtasks()
        ]
        assert told == engine and sum(told) == HALF
        (total,) = job.client.get(f"{job.base}/vertices/{source}/subtasks/metrics?get=numRecordsOut&agg=sum")
        assert total == {"id": "numRecordsOut", "sum": HALF}
        names = {one["id"] for one in job.client.get(f"{job.base}/vertices/{source}/metrics")}
        assert "0.Source__numbers.numRecordsIn" in names
        metrics = job.client.get("/metrics")
        assert f'job_id="{job.job.job_id.hex}"' in metrics
        lines = [
            line
            for line in metrics.splitlines()
            if line.startswith("flink_taskmanager_job_task_numRecordsIn{")
        ]
        assert sum(float(line.rpartition(" ")[2]) for line in lines) == HALF


def test_sizes_and_times_of_a_checkpoint_are_those_of_the_engine(tmp_path: Path) -> None:
    with served(tmp_path, **SELDOM) as job:
        asked = job.client.ask(f"{job.base}/checkpoints", "POST", {"checkpointType": "FULL"})
        found = outcome(job, f"{job.base}/checkpoints/{asked.body['request-id']}")
        told = job.client.get(f"{job.base}/checkpoints/details/{found['checkpointId']}")
        records = job.job.history.view().checkpoints
        record = next(one for one in records if one.epoch == found["checkpointId"])
        assert told["state_size"] == sum(part.state_bytes for part in record.parts.values())
        assert told["num_acknowledged_subtasks"] == len(job.job.job.plan.subtasks())
        assert told["end_to_end_duration"] == record.duration_ms


def outcome(job: Served, path: str) -> Any:
    """What became of a request."""
    done = until(
        lambda: (said := job.client.get(path))["status"]["id"] == "COMPLETED" and said,
        "the request is answered",
    )
    return done["operation"]


def test_a_savepoint_by_rest_and_again_by_the_same_id(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        body = {"target-directory": str(tmp_path / "sp"), "triggerId": "ab" * 16}
        first = job.client.ask(f"{job.base}/savepoints", "POST", body)
        assert first.status == 202 and first.body == {"request-id": "ab" * 16}
        again = job.client.ask(f"{job.base}/savepoints", "POST", body)
        assert again.status == 202 and again.body == first.body
        where = outcome(job, f"{job.base}/savepoints/{'ab' * 16}")["location"]
        assert len(list((tmp_path / "sp").iterdir())) == 1 and where.startswith("file://")
        latest = until(lambda: job.client.get(f"{job.base}/checkpoints")["latest"]["savepoint"], "it is told")
        assert latest["is_savepoint"] and latest["external_path"] == where
        gone = job.client.ask("/savepoint-disposal", "POST", {"savepoint-path": where})
        assert gone.status == 200
        outcome(job, f"/savepoint-disposal/{gone.body['request-id']}")
        assert not list((tmp_path / "sp").iterdir())


def test_stop_with_a_savepoint_ends_the_job(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        asked = job.client.ask(f"{job.base}/stop", "POST", {"targetDirectory": str(tmp_path / "sp")})
        assert asked.status == 202
        found = outcome(job, f"{job.base}/savepoints/{asked.body['request-id']}")
        assert "location" in found, found
        job.job.result().result(PATIENCE_S)
        assert job.client.get(f"{job.base}/status") == {"status": "FINISHED"}
        late = job.client.ask(f"{job.base}/stop", "POST", {})
        assert late.status == 409 and "FINISHED" in late.body["errors"][0]
        assert job.client.ask(job.base, "PATCH").status == 409


@pytest.mark.parametrize(
    ("method", "path"), [("PATCH", "?mode=cancel"), ("GET", "/yarn-cancel"), ("DELETE", "cluster")]
)
def test_a_job_is_cancelled(tmp_path: Path, method: str, path: str) -> None:
    with served(tmp_path) as job:
        where = "/cluster" if path == "cluster" else f"{job.base}{path}"
        assert job.client.ask(where, method).status in (200, 202)
        until(lambda: job.job.result().done(), "the job has ended")
        assert job.job.status() is JobStatus.CANCELED


def test_a_killed_slot_is_an_exception_and_a_restart(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        kill_slot(job.launcher)
        (entry,) = until(
            lambda: job.client.get(f"{job.base}/exceptions")["exceptionHistory"]["entries"], "it is told"
        )
        assert "was killed" in entry["stacktrace"]
        names = "numRestarts,numberOfFailedCheckpoints"
        found = {one["id"]: one["value"] for one in job.client.get(f"{job.base}/metrics?get={names}")}
        assert found["numRestarts"] == "1"
        until(lambda: job.client.get(f"{job.base}/status")["status"] == "RUNNING", "it runs again")
        assert (
            job.client.get(f"{job.base}/vertices/{vertex_ids(job.client, job.base)[0]}")["subtasks"][0][
                "attempt"
            ]
            == 1
        )
        kinds = {one["kind"] for one in job.client.get(f"{job.base}/events")["events"]}
        assert (
            {"status", "attempt", "failure", "slot", "restore"} >= kinds >= {"status", "attempt", "failure"}
        )


def slow_map(value: int) -> int:
    """What a flame graph must show."""
    time.sleep(0.002)
    return value


def test_a_flame_graph_shows_the_users_function(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    env = environment(None, rest__port="0")
    with local_cluster(1) as launcher:
        number_stream(env, 10**9, 1, gate=gate).rebalance().map(slow_map).print()
        env.execute_async("slow")
        (job,) = launcher.jobs
        serving = serve(job)
        assert serving is not None
        client, base = Client(serving.url, serving.token), f"/jobs/{job.job_id.hex}"
        mapped = vertex_ids(client, base)[1]
        path = f"{base}/vertices/{mapped}/flamegraph?type=full"
        assert client.get(path)["endTimestamp"] in (-3, -1) or client.get(path)["data"]
        until(lambda: "slow_map" in str(client.get(path)["data"]), "the function was seen at work")
        data = client.get(path)["data"]
        assert data["value"] == sum(child["value"] for child in data["children"]) > 0
        assert client.get(path.replace("full", "off_cpu"))["endTimestamp"] == -2
        assert client.ask(path.replace("full", "sideways")).status == 400
        threads = client.get("/taskmanagers/slot-0/thread-dump")["threadInfos"]
        assert any("penstock-rest" in one["threadName"] for one in threads)
        job.cancel().result(PATIENCE_S)
        serving.close()


BAD: list[tuple[str, str, Any, int]] = [
    ("GET", "/nothing", None, 404),
    ("GET", "/jobs/" + "f" * 32, None, 404),
    ("GET", "JOB/vertices/" + "f" * 32, None, 404),
    ("GET", "JOB/checkpoints/details/99999", None, 404),
    ("GET", "JOB/savepoints/" + "f" * 32, None, 404),
    ("GET", "/taskmanagers/slot-9", None, 404),
    ("GET", "/jobmanager/logs/..%2f..%2fpasswd", None, 404),
    ("GET", "JOB/exceptions?maxExceptions=many", None, 400),
    ("POST", "JOB/savepoints", b"{", 400),
    ("POST", "JOB/savepoints", b"[1]", 400),
    ("POST", "JOB/savepoints", {"target-directory": 5}, 400),
    ("POST", "JOB/savepoints", {"formatType": "ZIP"}, 400),
    ("POST", "JOB/savepoints", {"triggerId": "short"}, 400),
    ("POST", "JOB/savepoints", {"target-directory": "/proc/nowhere"}, 400),
    ("POST", "JOB/savepoints", {}, 400),
    ("POST", "JOB/checkpoints", {"checkpointType": "HALF"}, 400),
    ("POST", "JOB/stop", b"x" * (MAX_BODY + 1), 413),
    ("PATCH", "JOB?mode=explode", None, 400),
    ("PUT", "JOB/resource-requirements", {}, 400),
    ("PUT", "JOB/resource-requirements", {"0" * 32: {"parallelism": {"upperBound": 2}}}, 400),
    ("PATCH", "JOB/rescaling", None, 400),
    ("PATCH", "JOB/rescaling?parallelism=-1", None, 400),
    ("PATCH", "JOB/rescaling?parallelism=9999", None, 400),
    ("POST", "/savepoint-disposal", {}, 400),
    ("DELETE", "/overview", None, 405),
]


def test_bad_input_is_refused_with_a_reason_and_the_job_untouched(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        for method, path, body, status in BAD:
            found = job.client.ask(path.replace("JOB", job.base), method, body)
            assert found.status == status, (method, path, found)
            assert found.body["errors"] and found.body["errors"][0], (method, path)
        assert job.job.status() is JobStatus.RUNNING and job.job.driver.restarts == 0


def test_a_savepoint_while_one_is_under_way_is_refused(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        open_: Any = threading.Event()

        def slowly(kind: Any, directory: Any, accepted: Any) -> Any:
            from concurrent.futures import Future

            future: Future[str] = Future()
            accepted()
            threading.Thread(target=lambda: (open_.wait(PATIENCE_S), future.set_result("file:///sp"))).start()
            return "x", future

        job.serving._plane.requests._ask = slowly
        first = job.client.ask(f"{job.base}/savepoints", "POST", {})
        second = job.client.ask(f"{job.base}/savepoints", "POST", {})
        assert (first.status, second.status) == (202, 409) and "under way" in second.body["errors"][0]
        open_.set()
        assert outcome(job, f"{job.base}/savepoints/{first.body['request-id']}") == {"location": "file:///sp"}


def test_a_browser_gets_a_cookie_for_a_code_once(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        browser = Client(job.serving.url, None)
        assert browser.ask("/").status == 401 and browser.ask("/jobs/overview").status == 401
        path = job.serving.link().removeprefix(job.serving.url)
        first = browser.ask(path)
        cookie = next(value for name, value in first.headers.items() if name.lower() == "set-cookie")
        assert first.status == 200 and "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
        assert browser.ask(path).status == 401
        browser.headers["Cookie"] = cookie.partition(";")[0]
        assert browser.get("/jobs/overview")["jobs"] and browser.ask("/").status == 200
        assert browser.ask(f"{job.base}/yarn-cancel").status == 403
        assert browser.ask(f"{job.base}/yarn-cancel", Origin="http://evil.example").status == 403
        assert browser.ask(f"{job.base}/yarn-cancel", Host="evil.example").status == 403
        assert browser.ask(path, Host="evil.example").status == 403
        assert job.job.status() is JobStatus.RUNNING


def test_without_the_token_nothing_is_done(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        calls = [call for call in openapi.calls() if call["method"] != "GET" or "yarn" in call["path"]]
        assert len(calls) > 7
        for stranger in (Client(job.serving.url, None), Client(job.serving.url, "0" * 64)):
            for call in calls:
                path = call["path"].replace("{jobid}", job.job.job_id.hex)
                path = path.replace("{applicationid}", job.job.job_id.hex)
                found = stranger.ask(path, call["method"])
                assert found.status == 401 and found.body["errors"], call
        assert job.job.status() is JobStatus.RUNNING and job.job.savepoints_asked == 0


def test_what_only_shows_is_told_so(tmp_path: Path) -> None:
    with served(tmp_path, penstock__rest__read_only="true") as job:
        assert job.client.ask(f"{job.base}/yarn-cancel").status == 403
        assert job.client.get("/config")["features"]["web-cancel"] is False
        assert job.job.status() is JobStatus.RUNNING


def test_no_secret_is_told(tmp_path: Path) -> None:
    with served(tmp_path, spark__hadoop__secret="hunter2") as job:
        for path in ("/jobmanager/config", f"{job.base}/jobmanager/config", "/config", f"{job.base}/config"):
            assert "hunter2" not in str(job.client.get(path)) and job.serving.token not in str(
                job.client.get(path)
            )


def test_it_speaks_tls(tmp_path: Path) -> None:
    store = tmp_path / "rest.pem"
    key_store(store)
    settings = {"security__ssl__rest__enabled": "true", "security__ssl__rest__keystore": str(store)}
    with served(tmp_path, rest__address="localhost", **settings) as job:
        assert job.serving.url.startswith("https://localhost:")
        trusting = Client(
            job.serving.url, job.serving.token, tls=ssl.create_default_context(cafile=str(store))
        )
        assert trusting.get("/jobs")["jobs"]
        browser = Client(job.serving.url, None, tls=trusting.tls)
        first = browser.ask(job.serving.link().removeprefix(job.serving.url))
        assert "Secure" in str(first.headers)
        with pytest.raises(urllib.error.URLError):
            job.client.get("/jobs")


def test_two_hundred_clients_take_nothing_from_the_job(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        with ThreadPoolExecutor(200) as pool:
            found = list(pool.map(lambda _: job.client.ask(job.base).status, range(400)))
        assert set(found) == {200}
        job.gate.touch()
        job.job.result().result(PATIENCE_S)
        assert (
            sum(
                values["numRecordsIn"]
                for subtask, values in job.job.history.view().metrics.items()
                if subtask.vertex == job.job.job.plan.vertices[1].id
            )
            == COUNT
        )


def test_clients_that_vanish_or_talk_nonsense_do_no_harm(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        host, port = job.serving.url.removeprefix("http://").split(":")
        half = [socket.create_connection((host, int(port))) for _ in range(20)]
        for number, one in enumerate(half):
            one.sendall([b"GET / HTTP/1.1\r\nHost:", b"\x16\x03\x01\x00\xff", b"GET /\r\n\r\n"][number % 3])
        long = socket.create_connection((host, int(port)))
        long.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000)
        assert b"400" in long.recv(100)
        assert job.client.get("/jobs")["jobs"]
        for one in [*half, long]:
            one.close()
        assert job.client.get("/jobs")["jobs"] and job.job.status() is JobStatus.RUNNING


def test_a_port_that_is_taken_gives_the_next(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with caplog.at_level(logging.INFO, "penstock"), served(tmp_path, rest__port=str(port)) as job:
            other = int(job.serving.url.rpartition(":")[2])
            assert other > port and f"port {port} is taken, its page is on {other}" in caplog.text


def test_a_server_that_cannot_be_loaded_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "penstock.rest.server", None)
    env = environment(tmp_path, rest__port="0")
    with local_cluster(1) as launcher:
        env.from_collection([1, 2, 3]).print()
        env.execute_async("alone")
        (job,) = launcher.jobs
        serving = serve(job)
        assert serving is not None
        with pytest.raises(OSError):
            Client(serving.url, serving.token).get("/jobs")
        until(lambda: serving.failed is not None, "the first client made it load")
        job.result().result(PATIENCE_S)
        serving.close()
    told = [record for record in caplog.records if "has no page" in record.message]
    assert len(told) == 1 and job.status() is JobStatus.FINISHED


def test_settings_that_will_not_do_are_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loose = tmp_path / "token"
    loose.write_text("x" * 40)
    loose.chmod(0o644)
    with local_cluster(1) as launcher:
        for number, settings in enumerate(
            [
                {"penstock__rest__bearer_file": str(loose)},
                {"security__ssl__rest__enabled": "true"},
                {"rest__bind_address": "203.0.113.7"},
            ]
        ):
            env = environment(None, rest__port="0", **settings)
            env.from_collection([1]).print()
            env.execute_async(f"job {number}")
            assert serve(launcher.jobs[-1]) is None
            launcher.jobs[-1].result().result(PATIENCE_S)
    assert [record.levelname for record in caplog.records if "has no page" in record.message] == [
        "WARNING"
    ] * 3


def test_it_can_be_switched_off() -> None:
    with local_cluster(1) as launcher:
        env = environment(None, penstock__rest__enabled="false")
        env.from_collection([1]).print()
        env.execute_async("quiet")
        assert serve(launcher.jobs[-1]) is None
        launcher.jobs[-1].result().result(PATIENCE_S)
