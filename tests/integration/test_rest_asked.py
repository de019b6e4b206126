"""Why, logs and the record that made a function fail, asked of real jobs."""

from __future__ import annotations

import logging
from pathlib import Path

from local_jobs import environment, number_stream, until
from rest_client import Client, served

from penstock.rest.serving import serve
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

SECRET = "hunter2-of-ann"


def test_why_is_answered_of_a_job_whose_source_gives_nothing(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        path = f"{job.base}/penstock/why"
        until(lambda: job.client.get(path)["slowest"], "subtasks are measured")
        found = job.client.get(f"{path}?most=1")
        assert len(found["slowest"]) == 1 and found["now"] > found["slowest"][0]["subtask"]
        assert {one["step"] for one in found["freshness"]["sources"]} == {"Source: numbers"}
        groups = until(lambda: job.job.history.view().seen.hot_groups, "key groups are counted")
        assert [sample.records > 0 for sample in groups.values()] == [True]
        assert job.client.ask(f"{path}?most=many").status == 400
        assert job.client.ask(f"/jobs/{'f' * 32}/penstock/why").status == 404


def test_what_processes_wrote_is_read_without_secrets(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        logging.getLogger("my.program").warning("row 7 is odd, password='%s'", SECRET)
        print("printed by the program")
        for process in ("/jobmanager", "/taskmanagers/slot-1"):
            names = [one["name"] for one in job.client.get(f"{process}/logs")["logs"]]
            log = job.client.get(f"{process}/log")
            assert "WARNING my.program: row 7 is odd, password='***'" in log and SECRET not in log
            assert "printed by the program" in job.client.get(f"{process}/stdout")
            first, second = (job.client.get(f"{process}/logs/{name}") for name in names)
            assert "my.program" in first and "printed by the program" in second
            missing = job.client.ask(f"{process}/logs/..%2f..%2fpasswd")
            assert missing.status == 404 and "there is no log" in missing.body["errors"][0]
        assert job.client.ask("/taskmanagers/slot-9/log").status == 404


def test_the_record_that_made_a_function_fail_is_told_without_its_secrets() -> None:
    def fail(record: dict[str, object]) -> None:
        raise ValueError("no such country")

    env = environment(None, rest__port="0", restart_strategy__type="none")
    with local_cluster(1) as launcher:
        records = number_stream(env, 3, 1).map(lambda n: {"n": n, "country": "<b>", "api_key": SECRET})
        records.map(fail).name("look up").print()
        env.execute_async("failing")
        (job,) = launcher.jobs
        serving = serve(job)
        assert serving is not None and serving.is_ready.wait(PATIENCE_S)
        client, path = Client(serving.url, serving.token), f"/jobs/{job.job_id.hex}/exceptions"
        (entry,) = until(lambda: client.get(path)["exceptionHistory"]["entries"], "the job has failed")
        assert entry["exceptionName"] == "ValueError" and SECRET not in str(entry)
        assert entry["failureLabels"]["step"] == "look up"
        assert "'country': '<b>', 'api_key': ***}" in entry["failureLabels"]["record"]
        serving.close()
