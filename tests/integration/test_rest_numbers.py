"""What the control plane tells of a job is what the engine knows of it."""

from __future__ import annotations

import time
from pathlib import Path

from local_jobs import environment, kill_slot, number_stream, until
from rest_client import HALF, SELDOM, Client, outcome, served, vertex_ids

from penstock.rest.serving import serve
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S


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
