"""The registry, its listener, and ``list`` / ``cancel`` on top of them."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.common import WatermarkStrategy
from penstock.connectors.log import Log, LogSource, Text
from penstock.coordinator import registry
from penstock.coordinator.listener import MAX_LINE, Listener, _proof, ask
from penstock.core.errors import ConfigError, TransportError
from penstock.core.job import JobID
from penstock.datastream import StreamExecutionEnvironment
from penstock.spark.launcher import publish_to_registry
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def listener():
    calls = []
    answers = {"status": lambda: {"status": "RUNNING"}, "cancel": lambda: calls.append(1) or {}}
    made = Listener("secret", answers)
    made.calls = calls
    yield made
    made.close()


def fake(name, job_id=None):
    status = {"status": "RUNNING", "checkpoints": 3, "restarts": 1, "last_checkpoint": None}
    made = registry.register(job_id or JobID.of_name(name).hex, name, lambda: status, dict)
    assert made is not None
    return made


# --- the listener -------------------------------------------------------------------------------


def test_who_has_the_token_is_answered(listener):
    assert ask(listener.port, "secret", "status") == {"status": "RUNNING"}
    assert "unknown request" in ask(listener.port, "secret", "reboot")["error"]


def test_an_answer_on_its_way_is_sent_before_the_listener_is_gone():
    asked, closing = threading.Event(), threading.Event()

    def slow():
        asked.set()
        closing.wait(PATIENCE_S)
        threading.Event().wait(0.1)
        return {"done": True}

    made = Listener("secret", {"slow": slow})
    answers = []
    client = threading.Thread(target=lambda: answers.append(ask(made.port, "secret", "slow")))
    client.start()
    asked.wait(PATIENCE_S)
    closing.set()
    made.close()
    assert made._answering == 0
    client.join(PATIENCE_S)
    assert answers == [{"done": True}]


def test_arguments_reach_the_answer_and_errors_come_back_as_text(listener):
    made = Listener("secret", {"add": lambda a, b: {"sum": a + b}})
    assert ask(made.port, "secret", "add", a=1, b=2) == {"sum": 3}
    assert "malformed" in ask(made.port, "secret", "add", a=1)["error"]
    made.close()


def test_a_wrong_token_is_refused_without_effect(listener):
    with pytest.raises(TransportError):
        ask(listener.port, "guess", "cancel")
    assert listener.calls == []
    assert ask(listener.port, "secret", "status") == {"status": "RUNNING"}


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"[1, 2]\n",
        b"\x80\x04\x95cposix\nsystem\n",
        b'{"request": 5}\n',
        b'{"request": "cancel", "nonce": "n"}\n',
        b'{"request": "cancel", "nonce": "n", "proof": "\xc3\xa9"}\n',
        b"[" * 15000 + b"\n",
        b"x" * (MAX_LINE * 3),
    ],
)
def test_garbage_ends_the_connection_and_nothing_else(listener, garbage):
    with socket.create_connection(("127.0.0.1", listener.port), timeout=PATIENCE_S) as connection:
        stream = connection.makefile("rb")
        assert "challenge" in json.loads(stream.readline())
        try:
            connection.sendall(garbage)
            assert stream.read() == b""
        except ConnectionResetError:
            pass
    assert listener.calls == []
    assert ask(listener.port, "secret", "status") == {"status": "RUNNING"}


def test_an_answer_may_be_long():
    """An error quotes what it likes; a driver that says it is not one that does not answer."""
    long = Listener("secret", {"outcome": lambda: {"state": "failed", "error": "x" * (MAX_LINE * 40)}})
    try:
        assert len(ask(long.port, "secret", "outcome")["error"]) == MAX_LINE * 40
    finally:
        long.close()


def test_a_proof_is_good_for_one_challenge_only(listener):
    def exchange(proof):
        with socket.create_connection(("127.0.0.1", listener.port), timeout=PATIENCE_S) as connection:
            stream = connection.makefile("rb")
            challenge = json.loads(stream.readline())["challenge"]
            proof = proof or _proof("secret", "ask", challenge, "n", "cancel")
            request = {"request": "cancel", "nonce": "n", "proof": proof}
            connection.sendall(json.dumps(request).encode() + b"\n")
            return proof, stream.read()

    proof, answer = exchange(None)
    assert answer and listener.calls == [1]
    assert exchange(proof) == (proof, b"") and listener.calls == [1]


def test_an_idle_guest_keeps_nobody_waiting(listener):
    guests = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(5)]
    assert ask(listener.port, "secret", "status") == {"status": "RUNNING"}
    for guest in guests:
        guest.setblocking(False)
        assert guest.recv(1000), "the challenge"
        with pytest.raises(BlockingIOError):
            guest.recv(1)  # it is still being waited for
    for guest in guests:
        guest.close()


def test_a_stranger_on_the_port_is_not_believed():
    server = socket.create_server(("127.0.0.1", 0))

    def pretend():
        connection, _ = server.accept()
        with connection:
            connection.sendall(b'{"challenge": "c"}\n')
            connection.recv(4096)
            connection.sendall(b'{"answer": "{}", "proof": "p"}\n')

    thread = threading.Thread(target=pretend)
    thread.start()
    with pytest.raises(TransportError, match="not its driver"):
        ask(server.getsockname()[1], "secret", "status")
    thread.join()
    server.close()


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
    made.close()
    made.close()
    assert not path.exists() and not door.exists() and registry.entries() == []


def test_two_jobs_of_one_name_in_one_process_are_both_found(home, caplog):
    """They had one file: the second took it over, and whoever ended first took it away."""
    first = fake("orders")
    second = registry.register(first.entry.id, "orders", dict, dict)
    assert second is not None and "already runs here" in caplog.text
    assert {entry.socket for entry in registry.entries()} == {first.entry.socket, second.entry.socket}
    first.close()
    assert [entry.socket for entry in registry.entries()] == [second.entry.socket]
    second.close()


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
    alive.close()


def test_a_home_that_cannot_be_written_does_not_stop_the_job(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "file" / "home"))
    assert registry.register("0" * 32, "x", dict, dict) is None
    assert "cannot be listed" in caplog.text


def test_jobs_are_found_by_id_prefix_and_name():
    one, two = fake("one", "a" * 31 + "1"), fake("two", "a" * 31 + "2")
    assert registry.find("one").id == one.entry.id
    assert registry.find("a" * 31 + "2").name == "two"
    with pytest.raises(ConfigError, match="fits 2 running jobs.*one.*two"):
        registry.find("aa")
    with pytest.raises(ConfigError, match="no running job is called 'b'.*one"):
        registry.find("b")
    one.close()
    two.close()


# --- the commands -------------------------------------------------------------------------------


def test_list_without_jobs():
    result = CliRunner().invoke(cli, ["list"])
    assert result.exit_code == 0 and "No jobs are running." in result.output
    assert json.loads(CliRunner().invoke(cli, ["list", "--json"]).output) == []


def test_list_shows_what_the_driver_says():
    made = fake("orders")
    shown = CliRunner().invoke(cli, ["list"]).output
    assert "orders" in shown and "RUNNING" in shown and made.entry.id[:12] in shown
    (job,) = json.loads(CliRunner().invoke(cli, ["list", "--json"]).output)
    assert (job["status"], job["checkpoints"], job["restarts"]) == ("RUNNING", 3, 1)
    assert made.entry.token not in shown
    made.close()


def test_output_that_was_skipped_is_warned_about():
    status = {"status": "RUNNING", "outputs_dropped": 3}
    made = registry.register(JobID.of_name("orders").hex, "orders", lambda: status, dict)
    shown = CliRunner().invoke(cli, ["list"]).output
    assert "Warning: orders" in shown and "3 prepared outputs could not be committed" in shown
    (job,) = json.loads(CliRunner().invoke(cli, ["list", "--json"]).output)
    assert job["outputs_dropped"] == 3
    made.close()


def test_a_driver_that_does_not_answer_is_listed_as_such():
    made = fake("deaf")
    made._listener.close()
    (job,) = json.loads(CliRunner().invoke(cli, ["list", "--json"]).output)
    assert job["status"] == "UNREACHABLE"
    result = CliRunner().invoke(cli, ["cancel", "deaf"])
    assert result.exit_code == 1 and "does not answer" in result.stderr
    made.close()


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
