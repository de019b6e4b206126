"""The registry, and ``list`` / ``cancel`` on top of it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.common import WatermarkStrategy
from penstock.connectors.builtin.datagen import DataGeneratorSource
from penstock.connectors.log import Log, LogSource, Text
from penstock.coordinator import registry
from penstock.core.errors import ConfigError, JobFailedError
from penstock.core.job import JobID, JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.spark.launcher import publish_to_registry
from penstock.testing.local import local_cluster
from tests.paper_job import published
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def fake(name, job_id=None):
    """A file of a job that nobody serves."""
    made = registry.register(job_id or JobID.of_name(name).hex, name)
    assert made is not None
    made.publish()
    return made


def close(made):
    made.close()
    made.socket.close()


def told():
    return {"checkpoints": 3, "restarts": 1, "last_checkpoint": None}


# --- the files ----------------------------------------------------------------------------------


def test_files_are_for_their_user_only_and_go_with_the_job(home):
    made = fake("orders")
    path = made.entry.path
    door = path.parent / made.entry.socket
    assert path.name == f"{made.entry.id}-{door.stem}.json" and door.name.startswith(f"{os.getpid()}-")
    assert stat.S_IMODE(door.stat().st_mode) == 0o600 and made.entry.port == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == stat.S_IMODE(home.stat().st_mode) == 0o700
    assert made.entry.token not in repr(made.entry)
    close(made)
    made.close()
    assert not path.exists() and not door.exists() and registry.entries() == []


def test_two_jobs_of_one_name_in_one_process_are_both_found(home, caplog):
    """They had one file: the second took it over, and whoever ended first took it away."""
    first = fake("orders")
    second = fake("orders", first.entry.id)
    assert "already runs here" in caplog.text
    assert {entry.socket for entry in registry.entries()} == {first.entry.socket, second.entry.socket}
    close(first)
    assert [entry.socket for entry in registry.entries()] == [second.entry.socket]
    close(second)


def test_queries_whose_rows_come_here_are_no_namesakes(caplog):
    """They keep no checkpoints, and their sinks leave nothing that another could take."""
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)

    def numbers():
        endless = DataGeneratorSource(lambda index: index, rate_per_second=1)
        return env.from_source(endless, WatermarkStrategy.no_watermarks(), "numbers")

    with local_cluster(slots=1) as launcher, ExitStack() as running:
        for _ in range(2):
            running.enter_context(numbers().execute_and_collect())
            publish_to_registry(launcher.jobs[-1])
        assert len(registry.entries()) == 2 and "already runs here" not in caplog.text
        numbers().print()
        client = env.execute_async("collect")
        publish_to_registry(launcher.jobs[-1])
        assert "a job called 'collect' already runs here" in caplog.text
        with suppress(JobFailedError):
            client.cancel().result(PATIENCE_S)


def test_files_of_the_dead_are_removed_and_strange_files_left_alone(home):
    alive = fake("alive")
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead = home / "jobs" / f"{'0' * 32}-{process.pid}.json"
    facts = {"id": "0" * 32, "name": "x", "pid": process.pid, "started_ms": 0, "port": 1, "token": "t"}
    dead.write_text(json.dumps(facts))
    strange = home / "jobs" / "notes.json"
    strange.write_text("{")
    assert [entry.name for entry in registry.entries()] == ["alive"]
    assert not dead.exists() and strange.exists()
    close(alive)


def test_a_home_that_cannot_be_written_does_not_stop_the_job(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "file" / "home"))
    assert registry.register("0" * 32, "x") is None
    assert "cannot be listed" in caplog.text


def test_jobs_are_found_by_id_prefix_and_name():
    one, two = fake("one", "a" * 31 + "1"), fake("two", "a" * 31 + "2")
    assert registry.find("one").id == one.entry.id
    assert registry.find("a" * 31 + "2").name == "two"
    with pytest.raises(ConfigError, match="fits 2 running jobs.*one.*two"):
        registry.find("aa")
    with pytest.raises(ConfigError, match="no running job is called 'b'.*one"):
        registry.find("b")
    close(one)
    close(two)


# --- the commands -------------------------------------------------------------------------------


def test_list_without_jobs():
    result = CliRunner().invoke(cli, ["list"])
    assert result.exit_code == 0 and "No jobs are running." in result.output
    assert json.loads(CliRunner().invoke(cli, ["list", "--json"]).output) == []


def test_list_shows_what_the_driver_says():
    with published("orders", told) as made:
        shown = CliRunner().invoke(cli, ["list"]).output
        (job,) = json.loads(CliRunner().invoke(cli, ["list", "--json"]).output)
    assert "orders" in shown and "RUNNING" in shown and made.entry.id[:12] in shown
    assert (job["status"], job["checkpoints"], job["restarts"]) == ("RUNNING", 3, 1)
    assert made.entry.token not in shown


def test_output_that_was_skipped_is_warned_about():
    with published("orders", lambda: {"outputs_dropped": 3}):
        shown = CliRunner().invoke(cli, ["list"]).output
        (job,) = json.loads(CliRunner().invoke(cli, ["list", "--json"]).output)
    assert "Warning: orders" in shown and "3 prepared outputs could not be committed" in shown
    assert job["outputs_dropped"] == 3


def test_a_driver_that_does_not_answer_is_listed_as_such():
    made = fake("deaf")
    made.socket.close()
    (job,) = json.loads(CliRunner().invoke(cli, ["list", "--json"]).output)
    assert job["status"] == "UNREACHABLE"
    result = CliRunner().invoke(cli, ["cancel", "deaf"])
    assert result.exit_code == 1 and "does not answer" in result.stderr
    made.close()


def test_a_driver_of_a_version_that_spoke_otherwise_is_one_that_does_not_answer():
    """It greeted whoever called with a line of JSON."""
    made = fake("old")

    def greet():
        for _ in range(2):
            connection, _ = made.socket.accept()
            with connection:
                connection.sendall(b'{"challenge": "c"}\n')
                connection.recv(4096)

    thread = threading.Thread(target=greet)
    thread.start()
    (job,) = json.loads(CliRunner().invoke(cli, ["list", "--json"]).output)
    result = CliRunner().invoke(cli, ["cancel", "old"])
    thread.join(PATIENCE_S)
    close(made)
    assert job["status"] == "UNREACHABLE"
    assert result.exit_code == 1 and "does not answer" in result.stderr


def test_cancel_of_a_job_that_has_just_ended_says_how_it_ended(monkeypatch):
    with published("over", lambda: {"status": "FINISHED"}) as made:
        monkeypatch.setattr(made.job, "status", lambda: JobStatus.FINISHED)
        result = CliRunner().invoke(cli, ["cancel", "over"])
    assert result.exit_code == 0 and made.job.cancelled == 0
    assert result.output == f"Job over ({made.entry.id}) has ended: FINISHED.\n"


@pytest.mark.parametrize(
    "settings",
    [
        {"penstock.rest.enabled": "false"},
        {"rest.port": "0", "penstock.rest.read-only": "true"},
        {"rest.port": "0", "security.ssl.rest.enabled": "true"},
        {"rest.bind-address": "203.0.113.7", "rest.port": "0", "penstock.rest.allow-plain": "true"},
    ],
)
def test_whatever_the_page_is_allowed_the_command_line_can_cancel(settings):
    """Switched off, read-only, without a key store, at an address that this machine has not."""
    with published("orders", settings=settings) as made:
        assert registry.find("orders").cancel() and made.job.cancelled == 1


def test_cancel_stops_a_real_job_and_waits_for_it(tmp_path):
    Log(tmp_path / "log").create_topic("t")
    with local_cluster(slots=1) as launcher:
        env = StreamExecutionEnvironment.get_execution_environment()
        source = LogSource(tmp_path / "log", "t", Text())
        env.from_source(source, WatermarkStrategy.no_watermarks(), "t").print()
        env.execute_async("endless")
        (job,) = launcher.jobs
        publish_to_registry(job)
        result = CliRunner().invoke(cli, ["cancel", "endless"])
    assert result.exit_code == 0, result.stderr
    assert "endless" in result.output
    assert job.status().name == "CANCELED"
    gone = threading.Event()
    job.result().add_done_callback(lambda _: gone.set())
    assert gone.wait(PATIENCE_S) and registry.entries() == []


def test_cancel_of_nothing_is_an_error_in_one_paragraph():
    result = CliRunner().invoke(cli, ["cancel", "ghost"])
    assert result.exit_code == 1
    assert "no running job is called 'ghost'" in result.stderr and "Traceback" not in result.stderr
