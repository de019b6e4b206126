"""The control plane keeps the contract it serves: streaming jobs, jobs in BATCH, jobs that are rescaled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
from local_jobs import environment, number_stream, until
from rest_client import COUNT, SELDOM, Client, served, vertex_ids

from penstock.rest.serving import serve
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S


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


def test_a_streaming_job_keeps_the_contract(tmp_path: Path) -> None:
    with served(tmp_path, **SELDOM) as job:
        job.client.ask(f"{job.base}/checkpoints", "POST", {"checkpointType": "FULL"})
        until(lambda: job.client.get(f"{job.base}/checkpoints")["history"], "a checkpoint was begun")
        assert check_contract(job.client) > 45


def requirements(parallelism: dict[str, int]) -> dict[str, Any]:
    return {one: {"parallelism": {"lowerBound": 1, "upperBound": most}} for one, most in parallelism.items()}


def test_new_requirements_rescale_a_job_that_keeps_the_contract(tmp_path: Path) -> None:
    with served(tmp_path, **SELDOM) as job:
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
