"""Archives: what is in them, how large they get, and what becomes of files that are none."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rest_rig import JOB, Told

from penstock.cli.archived import archived_events
from penstock.coordinator.events import CancelRequested
from penstock.core.clock import SystemClock
from penstock.core.config import Configuration
from penstock.core.errors import ConfigError
from penstock.core.ids import Subtask, SubtaskIndex
from penstock.core.job import JobStatus
from penstock.core.messages import Heartbeat
from penstock.rest import openapi
from penstock.rest.archive import MOST_BYTES, archive_of
from penstock.rest.archive_files import listed, remove_beyond
from penstock.rest.archive_reader import Archives
from penstock.rest.archived_job import NoArchiveError, answer_from, read_archive, run_key
from penstock.rest.archiving import write_archive
from penstock.rest.look import Look, Refused, rest_id
from penstock.rest.routes import VIEWS

MARKUP = "<script>alert(1)</script>"


def ended(settings: dict[str, str] | None = None, **more: Any) -> Look:
    """A job that ran for a while and was cancelled."""
    told = Told(interval_ms=1000)
    told.run()
    for beat in (1, 2):
        for slot in range(told.plan.slots):
            metrics = {
                Subtask(vertex.id, SubtaskIndex(slot)): {
                    "numRecordsIn": 100.0 * beat,
                    "numRecordsOut": 100.0 * beat,
                    "busyTimeMs": 300.0 * beat,
                    "idleTimeMs": 700.0 * beat,
                    "backPressuredTimeMs": 0.0,
                }
                for vertex in told.plan.vertices
            }
            told.said(Heartbeat(metrics, 1000, {"pid": 40.0}), slot, 1000 if slot == 0 else 0)
    told.give(CancelRequested(False))
    told.status = JobStatus.CANCELED
    return told.look(settings, **more)


def document(**changes: Any) -> bytes:
    """The smallest archive; ``line`` changes the job's line of the overview."""
    line = {"jid": JOB, "name": "a", "state": "FINISHED", "start-time": 1, "end-time": 3, "duration": 2}
    line |= changes
    return json.dumps(
        {"archive": [{"path": "/jobs/overview", "json": json.dumps({"jobs": [line]})}]}
    ).encode()


def test_an_archive_has_the_answers_that_still_make_sense_in_their_shapes() -> None:
    look = ended()
    job = read_archive(archive_of(look, log="one line"), JOB)
    assert job.line["state"] == "CANCELED" and job.key == run_key(JOB, look.history.started_ms)
    vertex = rest_id(look.plan.vertices[0])
    for path in ("", "/plan", "/config", "/exceptions", "/checkpoints", "/checkpoints/config", "/events"):
        assert json.loads(answer_from(job, f"/jobs/{JOB}{path}", {})) is not None, path
    assert f"/jobs/{JOB}/vertices/{vertex}/subtasks/0" in job.answers
    assert "one line" in json.loads(job.answers["/jobmanager/log"])
    assert "/jobs/overview" == next(iter(job.answers))
    assert not any("flamegraph" in path or "environment" in path for path in job.answers)
    templates = {call["path"]: call["answer"] for call in openapi.calls() if call["method"] == "GET"}
    for template in (f"/jobs/{{jobid}}{path}" for path in ("", "/plan", "/exceptions", "/checkpoints")):
        found = json.loads(job.answers[template.format(jobid=JOB)])
        jsonschema.validate(found, openapi.schema(templates[template]))


def test_the_last_minutes_of_rates_are_kept() -> None:
    look = ended()
    job = read_archive(archive_of(look), JOB)
    (moment,) = json.loads(job.answers[f"/jobs/{JOB}/penstock/rates"])["moments"]
    rates = moment["vertices"][rest_id(look.plan.vertices[0])]
    assert (rates["in"], rates["out"], rates["busy"], rates["idle"]) == (100.0, 100.0, 0.3, 0.7)


def test_metrics_are_picked_as_a_driver_does() -> None:
    look = ended()
    job = read_archive(archive_of(look), JOB)
    path = f"/jobs/{JOB}/vertices/{rest_id(look.plan.vertices[0])}/subtasks/metrics"
    names = [one["id"] for one in json.loads(answer_from(job, path, {}))]
    assert "numRecordsIn" in names
    (one,) = json.loads(answer_from(job, path, {"get": "numRecordsIn,absent", "agg": "max"}))
    assert one == {"id": "numRecordsIn", "max": 200.0}
    with pytest.raises(Refused, match="no answer to"):
        answer_from(job, f"/jobs/{JOB}/nothing", {})


def test_no_secret_is_archived() -> None:
    settings = {"s3.secret-key": "geheim1", "pipeline.name": "jdbc:x://user:geheim2@host/db"}
    settings |= {"security.ssl.rest.keystore-password": "geheim3"}
    assert b"geheim" not in archive_of(ended(settings))


def test_an_archive_is_bounded_and_keeps_what_matters_most() -> None:
    look, log = ended(), "x" * 500_000
    small = archive_of(look, 40_000, log)
    assert len(small) <= 40_000 < len(archive_of(look, log=log)) <= MOST_BYTES
    kept = read_archive(small, JOB).answers
    assert {f"/jobs/{JOB}", f"/jobs/{JOB}/exceptions", f"/jobs/{JOB}/events"} <= kept.keys()
    assert "/jobmanager/log" not in kept


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (document()[:-5], "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[]", 'no list "archive"'),
        (b'{"archive": {}}', 'no list "archive"'),
        (b'{"archive": [1]}', "no path or no answer"),
        (b'{"archive": [{"path": 1, "json": "{}"}]}', "no path or no answer"),
        (b'{"archive": []}', "no overview"),
        (b'{"archive": [{"path": "/jobs/overview", "json": "[1]"}]}', "no overview"),
        (document(jid="../../x"), "not the one of its name"),
        (document(state="RUNNING"), "has not ended"),
        (document(state=MARKUP), "has not ended"),
        (document(**{"start-time": "1"}), "times"),
        (document(**{"end-time": 10**300}), "times"),
        (document(**{"duration": None}), "times"),
        (document(state=[]), "no overview"),
        (document(state={"FINISHED": 1}), "no overview"),
        (document(name=["a"] * 1000), "no overview"),
    ],
)
def test_what_is_no_archive_is_refused_with_a_sentence(data: bytes, reason: str) -> None:
    with pytest.raises(NoArchiveError, match=reason):
        read_archive(data, JOB)


def test_a_hostile_line_of_a_job_stays_small() -> None:
    many = {f"state {number}": number for number in range(10_000)}
    line = read_archive(document(tasks={**many, "running": 2, "total": 10**400, "failed": -1}), JOB).line
    assert line["tasks"] == {"running": 2}


def test_metrics_without_a_name_are_none() -> None:
    path = f"/jobs/{JOB}/metrics"
    found = json.loads(document())
    found["archive"].append({"path": path, "json": '[{"id": []}, {"id": {}}, 7, {"id": "a", "value": "1"}]'})
    job = read_archive(json.dumps(found).encode(), JOB)
    assert json.loads(answer_from(job, path, {"get": "a,b"})) == [{"id": "a", "value": "1"}]


@pytest.mark.parametrize("timestamp", ["1e30", "-1", "Infinity", '"soon"', "null", "9" * 30])
def test_events_at_times_that_no_calendar_has_are_damaged(tmp_path: Path, timestamp: str) -> None:
    found = json.loads(document())
    events = f'{{"events": [{{"timestamp": {timestamp}, "kind": "status", "text": "x"}}]}}'
    found["archive"].append({"path": f"/jobs/{JOB}/events", "json": events})
    (tmp_path / f"{JOB}-3.json").write_text(json.dumps(found))
    with pytest.raises(ConfigError, match="is damaged"):
        archived_events("a", [str(tmp_path)])


def test_a_view_that_breaks_costs_the_archive_its_own_answer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise IndexError("nobody thought of this")

    monkeypatch.setitem(VIEWS, "/jobs/{jobid}/penstock/why", broken)
    answers = read_archive(archive_of(ended()), JOB).answers
    assert f"/jobs/{JOB}/events" in answers and f"/jobs/{JOB}/penstock/why" not in answers


def test_what_only_a_running_job_can_tell_is_said_so() -> None:
    look = ended()
    job = read_archive(archive_of(look, log="one line"), JOB)
    vertex = rest_id(look.plan.vertices[0])
    templates = {call["path"]: openapi.schema(call["answer"]) for call in openapi.calls()}
    for template in ("/jobs/{jobid}/penstock/state", "/jobs/{jobid}/vertices/{vertexid}/penstock/tail"):
        said = json.loads(answer_from(job, template.format(jobid=JOB, vertexid=vertex), {}))
        jsonschema.validate(said, templates[template])
        assert "has ended" in said["note"]
    (log,) = json.loads(answer_from(job, "/jobmanager/logs", {}))["logs"]
    assert "one line" in answer_from(job, f"/jobmanager/logs/{log['name']}", {})
    for path in ("/jobmanager/logs/other", "/jobmanager/logs/../log", "/jobmanager/stdout"):
        with pytest.raises(Refused):
            answer_from(job, path, {})
    with pytest.raises(Refused):
        answer_from(read_archive(document(), JOB), "/jobmanager/logs", {})


def test_answers_of_other_paths_are_not_taken() -> None:
    found = json.loads(document())
    stray = ["/jobs/../../etc/passwd", f"/jobs/{'f' * 32}", "/config", "/index.html", "jobs", ""]
    found["archive"] += [{"path": path, "json": "{}"} for path in stray]
    assert list(read_archive(json.dumps(found).encode(), JOB).answers) == ["/jobs/overview"]


def test_any_bytes_are_an_archive_or_refused() -> None:
    whole, chance = bytearray(archive_of(ended())), random.Random(7)
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            json.dumps(read_archive(bytes(data), JOB).line).encode()
        except NoArchiveError:
            pass


def test_files_that_are_none_do_not_break_the_list(tmp_path: Path) -> None:
    def put(name: str, data: bytes) -> None:
        (tmp_path / name).write_bytes(data)

    put(f"{JOB}-5.json", document(name=f"{MARKUP}\ud800", jobType=MARKUP, tasks={MARKUP: "x", "total": 2}))
    put(f"{'a' * 32}-6.json", b"half of")
    put(f"{'b' * 32}-7.json", document(jid="b" * 32, state="RUNNING"))
    with (tmp_path / f"{'c' * 32}-8.json").open("wb") as huge:
        huge.truncate(10 << 30)
    os.mkfifo(tmp_path / f"{'d' * 32}-9.json")
    (tmp_path / f"{'e' * 32}-9.json").symlink_to(f"{JOB}-5.json")
    (tmp_path / f"{'f' * 32}-9.json").mkdir()
    put("..json", document())
    put("notes.txt", b"mine")
    archives = Archives([str(tmp_path), str(tmp_path / "not there")], SystemClock())
    (job,) = archives.jobs()
    assert (
        job.line["name"] == f"{MARKUP}?" and job.line["jobType"] == "" and job.line["tasks"] == {"total": 2}
    )
    here, there = archives.report()
    assert {one["file"][0] for one in here["refused"]} == {"a", "b", "c"} and not there["refused"]
    assert next(one["reason"] for one in here["refused"] if one["file"][0] == "c").startswith("it has 10,737")
    opened = archives.open(job.key)
    assert opened is not None and opened.answers and archives.open("../../x") is None


def test_a_file_of_flinks_own_archive_is_shown(tmp_path: Path) -> None:
    (tmp_path / JOB).write_bytes(document())
    (job,) = Archives([str(tmp_path)], SystemClock()).jobs()
    assert job.line["jid"] == JOB


def test_the_oldest_go_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    look = ended()
    settings = {"jobmanager.archive.fs.dir": str(tmp_path), "historyserver.archive.retained-jobs": "2"}
    for at in (1, 2):
        (tmp_path / f"{JOB}-{at}.json").write_bytes(document())
    for name in (JOB, "notes.txt", f"{JOB}-1.json.bak"):
        (tmp_path / name).write_bytes(b"")
    path = write_archive(look, Configuration.from_dict(settings))
    assert [file.ended_ms for file in listed(str(tmp_path))] == [look.now, 2, 0]
    assert (tmp_path / "notes.txt").exists() and Path(path).stat().st_mode & 0o077 == 0
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".tmp")]
    remove_beyond(str(tmp_path), 0)
    assert [file.name for file in listed(str(tmp_path))] == [JOB]


def test_a_url_is_an_archive_as_well() -> None:
    look = ended()
    directory = "memory://archive-of-a-test"
    settings = Configuration.from_dict({"jobmanager.archive.fs.dir": directory})
    write_archive(look, settings)
    archives = Archives([directory], SystemClock())
    (job,) = archives.jobs()
    opened = archives.open(job.key)
    assert opened is not None and f"/jobs/{JOB}/plan" in opened.answers
