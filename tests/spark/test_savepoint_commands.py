"""The commands for savepoints against real drivers on Spark."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from drivers import JOBS, Driver, run
from flow_graphs import read_log

from penstock.connectors.log import Log, Producer
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.spark

WORDS = [f"word{i % 7}" for i in range(700)]


def feed(log: Log, words: list[str]) -> None:
    with Producer(log.topic("in")) as producer:
        for word in words:
            producer.send(word.encode(), word.encode())
        producer.sync()


def golden(words: list[str]) -> list[str]:
    return sorted(f"{word} {n}" for word, total in Counter(words).items() for n in range(1, total + 1))


def command(work: Path, *arguments: object) -> str:
    """The last line of a command that ends by itself."""
    driver = run(work, "cli.py", *arguments, env={"PENSTOCK_HOME": str(work / "home")})
    return driver.lines[-1]


def until_counted(work: Path, words: list[str], driver: Driver) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(read_log(work / "log")) < len(words):
        assert time.monotonic() < deadline and driver.process.poll() is None, driver.text
        time.sleep(0.1)


def test_savepoint_rescale_and_stop(tmp_path: Path) -> None:
    """One job and one driver: saved, rescaled from 2 to 4 to 1 while it is fed, stopped."""
    log = Log(tmp_path / "log")
    log.create_topic("in", partitions=5)
    log.create_topic("out", partitions=2)
    home = {"PENSTOCK_HOME": str(tmp_path / "home")}
    program = (JOBS / "counting.py", tmp_path / "log", tmp_path / "chk")
    with Driver(tmp_path, "cli.py", "run", "-p", 2, "--master", "local[4]", *program, env=home) as driver:
        feed(log, WORDS[:100])
        until_counted(tmp_path, WORDS[:100], driver)
        place = command(tmp_path, "savepoint", "counting", "sp")
        assert (Path(place.removeprefix("file://")) / "_metadata").exists()
        with Driver(tmp_path, "cli.py", "rescale", "counting", "-p", 5, env=home) as refused:
            assert refused.finish() == 1 and "Spark has room for 4" in refused.text
            assert "It runs on as it was" in refused.text
        for parallelism, until in ((4, 400), (1, 700)):
            with Driver(tmp_path, "cli.py", "rescale", "counting", "-p", parallelism, env=home) as rescaling:
                feed(log, WORDS[until - 300 : until])
                assert rescaling.finish() == 0, rescaling.text
                assert f"runs at parallelism {parallelism}" in rescaling.text
        until_counted(tmp_path, WORDS, driver)
        last = command(tmp_path, "stop", "counting", "--savepoint", "sp")
        assert driver.finish() == 0, driver.text
    assert read_log(tmp_path / "log") == golden(WORDS)
    saved = [path for path in (tmp_path / "sp").iterdir() if (path / "_metadata").exists()]
    assert {path.as_uri() for path in saved} == {place, last}
