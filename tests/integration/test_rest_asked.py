"""Why, logs and the record that made a function fail, asked of real jobs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from local_jobs import environment, number_stream, until
from rest_client import Client, served

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
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
    with served(tmp_path, penstock__hidden_fields="*password*,iban") as job:
        logging.getLogger("my.program").warning("row 7 is odd, password='%s'", SECRET)
        logging.getLogger("my.program").warning("got %s", {"user": "ann", "iban": SECRET})
        print("printed by the program", {"user": "ann", "iban": SECRET})
        for process in ("/jobmanager", "/taskmanagers/slot-1"):
            names = [one["name"] for one in job.client.get(f"{process}/logs")["logs"]]
            log = job.client.get(f"{process}/log")
            assert "WARNING my.program: row 7 is odd, password=***" in log and SECRET not in log
            assert "got {'user': 'ann', 'iban': ***}" in log
            printed = job.client.get(f"{process}/stdout")
            assert "printed by the program {'user': 'ann', 'iban': ***}" in printed and SECRET not in printed
            first, second = (job.client.get(f"{process}/logs/{name}") for name in names)
            assert "my.program" in first and "printed by the program" in second
            missing = job.client.ask(f"{process}/logs/other.log")
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
        assert serving is not None
        client, path = Client(serving.url, serving.token), f"/jobs/{job.job_id.hex}/exceptions"
        (entry,) = until(lambda: client.get(path)["exceptionHistory"]["entries"], "the job has failed")
        assert entry["exceptionName"] == "ValueError" and SECRET not in str(entry)
        assert entry["failureLabels"]["step"] == "look up"
        assert "'country': '<b>', 'api_key': ***}" in entry["failureLabels"]["record"]
        serving.close()


def test_state_is_browsed_and_one_key_is_looked_up(tmp_path: Path) -> None:
    def remember(records: Any) -> Any:
        return records.key_by(lambda n: n % 7).process(Remember()).uid("remember")

    gate = tmp_path / "gate"
    env = environment(tmp_path / "checkpoints", rest__port="0")
    with local_cluster(2) as launcher:
        remember(number_stream(env, 1000, gate=gate)).print()
        env.execute_async("remembering")
        (job,) = launcher.jobs
        serving = serve(job)
        assert serving is not None
        client, base = Client(serving.url, serving.token), f"/jobs/{job.job_id.hex}"
        path = f"{base}/penstock/state"

        def remembered() -> dict[str, Any] | None:
            found = {row["state"]: row for row in client.get(path)["states"] if row["operator"] == "remember"}
            return found if "last" in found and found["last"]["entries"] == 7 else None

        mine = until(remembered, "a checkpoint has all keys")
        assert client.get(path)["snapshot"]["id"] >= 1 and set(mine) == {"last", "token", "login"}
        assert mine["last"]["kind"] == "keyed" and mine["last"]["bytes"] > 0
        (row,) = client.get(f"{path}/remember/last?key=3")["rows"]
        assert row["key"] == "3" and int(row["value"]) % 7 == 3
        by_id = client.get(f"{path}/{mine['last']['operator_id']}/last?key=3")
        assert by_id["rows"] == [row] and by_id["truncated"] is False
        (secret,) = client.get(f"{path}/remember/token?key=3")["rows"]
        assert secret == {"key": "3", "value": "***"}
        (login,) = client.get(f"{path}/remember/login?key=3")["rows"]
        assert "'user': '<b>ann</b>'" in login["value"] and SECRET not in str(login)
        assert client.get(f"{path}/remember/last?key=ann")["rows"] == []
        for wrong, status in [("remember/nothing?key=3", 404), ("nobody/last?key=3", 404)] + [
            ("remember/last", 400),
            (f"remember/last?key={'x' * 2000}", 400),
        ]:
            refused = client.ask(f"{path}/{wrong}")
            assert refused.status == status and refused.body["errors"], wrong
        gate.touch()
        job.result().result(PATIENCE_S)
        serving.close()


class Remember(KeyedProcessFunction):
    """Keeps of each key what came last, and what nobody may see."""

    def open(self, runtime_context: Any) -> None:
        def state(name: str, kind: Any) -> Any:
            return runtime_context.get_state(ValueStateDescriptor(name, kind))

        self.last = state("last", Types.LONG())
        self.token = state("token", Types.STRING())
        self.login = state("login", Types.PICKLED_BYTE_ARRAY())

    def process_element(self, value: int, ctx: Any) -> Any:
        self.last.update(value)
        self.token.update(SECRET)
        self.login.update({"user": "<b>ann</b>", "password": SECRET})
        yield value


def test_without_a_snapshot_the_state_is_empty_with_a_reason(tmp_path: Path) -> None:
    env = environment(None, rest__port="0")
    gate = tmp_path / "gate"
    with local_cluster(1) as launcher:
        number_stream(env, 10, 1, gate=gate).print()
        env.execute_async("in memory")
        (job,) = launcher.jobs
        serving = serve(job)
        assert serving is not None
        client, path = Client(serving.url, serving.token), f"/jobs/{job.job_id.hex}/penstock/state"
        found = client.get(path)
        assert found["states"] == [] and "driver's memory" in found["note"]
        refused = client.ask(f"{path}/a/b?key=1")
        assert refused.status == 404 and "driver's memory" in refused.body["errors"][0]
        gate.touch()
        job.result().result(PATIENCE_S)
        serving.close()


def test_records_are_watched_only_where_the_settings_say_so(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        for vertex in job.client.get(job.base)["vertices"]:
            found = job.client.get(f"{job.base}/vertices/{vertex['id']}/penstock/tail")
            assert (
                found["enabled"] is False and "penstock.rest.tail" in found["note"] and not found["records"]
            )
        assert not job.job.history.view().seen.tails


def test_some_records_are_watched_without_their_secrets(tmp_path: Path) -> None:
    env = environment(None, rest__port="0", penstock__rest__tail="true", penstock__hidden_fields="*name")
    with local_cluster(2) as launcher:
        records = number_stream(env, 10**9, 2).map(lambda n: {"n": n, "last_name": SECRET, "text": "<b>"})
        records.key_by(lambda record: record["n"] % 5).map(lambda record: record["n"]).print()
        env.execute_async("watched")
        (job,) = launcher.jobs
        serving = serve(job)
        assert serving is not None
        client, base = Client(serving.url, serving.token), f"/jobs/{job.job_id.hex}"
        source, mapped = (vertex["id"] for vertex in client.get(base)["vertices"][:2])
        for vertex, way in ((source, "output"), (mapped, "input")):
            path = f"{base}/vertices/{vertex}/penstock/tail"
            found = until(lambda path=path: (said := client.get(path))["records"] and said, "records came by")
            assert found["of"] == way and 0 < len(found["records"]) <= 200
            texts = [record["text"] for record in found["records"]]
            assert all("'last_name': ***, 'text': '<b>'}" in text for text in texts), texts
        assert client.ask(f"{base}/vertices/{'f' * 32}/penstock/tail").status == 404
        job.cancel().result(PATIENCE_S)
        serving.close()
