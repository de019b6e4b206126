"""Where a job begins is said in one line, whatever its sources are."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace

import pytest

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.log import Log, LogSource, Producer, Text
from penstock.connectors.source import Split
from penstock.coordinator import resuming
from penstock.coordinator.resuming import SPLITS, _positions, tell_resuming
from penstock.core.packed import pack
from penstock.datastream import StreamExecutionEnvironment
from penstock.operators.source_operator import SPLIT_STATE
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S


def item(name: str, position: object, done: bool = False) -> tuple[object, ...]:
    return (Split(name), position, done, 0, 1)


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ((item("t-0", 600), item("t-1", 1598)), "at record 2,198: t-0=600, t-1=1598"),
        ((item("t-0", None), item("t-1", 5)), "at t-0=the beginning, t-1=5"),
        ((item("a", True),), "at a=True"),
        ((item("a", {"row": 7}),), "at a={'row': 7}"),
        (tuple(item(f"t-{n}", 1) for n in range(5)), "at record 5: t-0=1, t-1=1, t-2=1 and 2 more"),
        ((item("a", "x" * 500),), f"at a={'x' * 60}..."),
        ((item("a", 9, done=True),), "has read its splits"),
        ((), "has read all that was found"),
        ((item("a", 3), (None, pack([]), False, 0, 1)), "at record 3: a=3, and splits that wait to be read"),
    ],
)
def test_positions_in_words(items, said):
    assert _positions(items) == said


def test_the_state_is_that_of_sources():
    assert SPLITS == SPLIT_STATE


def stream(tmp_path, settings):
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    source = LogSource(tmp_path / "log", "t", Text())
    env.from_source(source, WatermarkStrategy.no_watermarks(), "clicks").uid("clicks").print()
    return env


def wait_until(said):
    while not said():
        threading.Event().wait(0.02)


def test_a_job_says_what_it_goes_on_from(tmp_path, caplog, capsys):
    log = Log(tmp_path / "log")
    log.create_topic("t")
    with Producer(log.topic("t")) as producer:
        producer.send_many([b"a", b"b", b"c"], [None] * 3)
    settings = {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    with local_cluster(slots=1):
        client = stream(tmp_path, settings).execute_async("clicks")
        printed: list[str] = []
        wait_until(lambda: printed.append(capsys.readouterr().out) or "c" in "".join(printed))
        savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(PATIENCE_S)
        assert (
            "job 'clicks' starts from the beginning: there is no checkpoint of it in file:///" in caplog.text
        )
        caplog.clear()
        again = stream(tmp_path, settings | {"execution.state-recovery.path": savepoint})
        client = again.execute_async("clicks")
        wait_until(lambda: "goes on from" in caplog.text)
        client.cancel().result(PATIENCE_S)
    (line,) = [record for record in caplog.records if "goes on from" in record.getMessage()]
    assert line.name == "penstock.news" and line.levelno == logging.INFO
    assert line.getMessage().startswith("job 'clicks' goes on from savepoint ")
    assert " s ago (" in line.getMessage() and savepoint in line.getMessage()
    assert line.getMessage().endswith("Source: clicks at record 3: t-0=3")


def test_in_memory_there_is_nothing_to_go_on_from(tmp_path, caplog):
    with local_cluster(slots=1):
        env = StreamExecutionEnvironment.get_execution_environment()
        assert list(env.from_collection([1]).execute_and_collect()) == [1]
    assert "from the beginning" not in caplog.text


def test_what_cannot_be_described_stops_no_job(caplog, monkeypatch):
    def broken(*_):
        raise ValueError("no words")

    monkeypatch.setattr(resuming, "resuming", broken)
    plan, found = SimpleNamespace(job_name="clicks"), SimpleNamespace(location="chk-7")
    tell_resuming(plan, found, None, 0)  # type: ignore[arg-type]
    assert "goes on from chk-7, which could not be described" in caplog.text
