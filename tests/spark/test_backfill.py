"""Backfill, then live, on Spark, and everything killed at the switch: counts are those of one stream."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer as KafkaProducer
from drivers import JOBS, Driver

from penstock.connectors.log import Log, Producer
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.spark, pytest.mark.kills]

BEGIN = time.time_ns() // 1_000_000_000 * 1000 - 3_600_000
"""An hour ago: a broker deletes records that are older than it keeps any."""
END = 60_000
SWITCH = BEGIN + 30_000
RECORDS = 60_000
OVERLAP = 5_000


def records() -> list[tuple[str, int]]:
    """Key and time, a little out of order."""
    rng = random.Random(5)
    times = (BEGIN + max(0, i * END // RECORDS - rng.randrange(400)) for i in range(RECORDS))
    return [(f"k{rng.randrange(5)}", at) for at in times]


def write_history(work: Path) -> None:
    """Three files, each over the whole time and beyond the switch."""
    early = [f"{key} {at}\n" for key, at in records() if at < SWITCH + OVERLAP]
    (work / "history").mkdir(parents=True)
    for part in range(3):
        (work / "history" / f"{part}.txt").write_text("".join(early[part::3]))


def live() -> list[str]:
    """What the topic holds: it begins before the switch."""
    return [f"{key} {at}" for key, at in records() if at >= SWITCH - OVERLAP]


def into_log(work: Path) -> tuple[str, str, str]:
    log = Log(work / "log")
    log.create_topic("numbers", partitions=3)
    with Producer(log.topic("numbers")) as producer:
        for number, text in enumerate(live()):
            producer.send(text.encode(), partition=number % 3, timestamp=int(text.split()[1]))
        producer.sync()
    return "log", str(work / "log"), "numbers"


def into_kafka(bootstrap: str) -> tuple[str, str, str]:
    topic = f"backfill-{time.time_ns()}"
    producer = KafkaProducer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for text in live():
        producer.produce(topic, text.encode(), timestamp=int(text.split()[1]))
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    return "kafka", bootstrap, topic


def check(work: Path) -> None:
    found = [
        line
        for file in (work / "out").rglob("*")
        if file.is_file() and not file.name.startswith((".", "_"))
        for line in file.read_text().splitlines()
    ]
    truth = Counter((key, at // 1000 * 1000) for key, at in records())
    assert sorted(found) == sorted(f"{key} {start} {count}" for (key, start), count in truth.items())


def start(work: Path, where: tuple[str, str, str]) -> Driver:
    program = ["backfill", JOBS / "backfill_counts.py", work, SWITCH, *where]
    history = ["--history", work / "history", "--format", "text", "--switch-at", SWITCH]
    slow = ["-D", "penstock.batch.max-rows=200", "-D", f"execution.checkpointing.dir={work / 'chk'}"]
    return Driver(work, "cli.py", *program, *history, "--master", "local[2]", "-p", 2, *slow)


def killed_at(work: Path, where: tuple[str, str, str], moment: str) -> None:
    """Everything dies as soon as ``moment`` has come."""
    with start(work, where) as driver:
        deadline = time.monotonic() + PATIENCE_S
        while not (work / moment).exists() and time.monotonic() < deadline and driver.process.poll() is None:
            time.sleep(0.005)
        assert (work / moment).exists(), driver.text
        driver.kill_all()


def finish(work: Path, where: tuple[str, str, str]) -> None:
    with start(work, where) as driver:
        assert driver.finish() == 0, driver.text
    check(work)


def test_from_files_to_the_log_killed_around_the_switch(tmp_path: Path) -> None:
    write_history(tmp_path)
    where = into_log(tmp_path)
    for moment in ("late-history", "live"):
        killed_at(tmp_path, where, moment)
    finish(tmp_path, where)


def test_from_files_to_kafka_killed_at_the_switch(tmp_path: Path, kafka_server) -> None:
    write_history(tmp_path)
    where = into_kafka(kafka_server.bootstrap)
    killed_at(tmp_path, where, "live")
    finish(tmp_path, where)
