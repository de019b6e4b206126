"""PyFlink's own examples of Kafka, taken from its wheel, against a real broker."""

from __future__ import annotations

import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from local_jobs import until
from pyflink_examples import plain_lines, ported

from penstock.common import ByteArraySchema
from penstock.common.job_client import JobClient
from penstock.core.errors import PenstockError
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from penstock.testing.local import LocalLauncher, local_cluster
from tests.kafka_kit import read_all
from tests.patience import PATIENCE_S

ROWS = [f"+I[{n},{'hi' if n % 2 else 'hello'}]" for n in (1, 2, 3, 4, 5, 6, 6)]
COUNTRIES = [f'{{"id": {n}, "country": "{name}"}}' for n, name in enumerate(("USA", "Canada", "Germany"), 1)]
Prepare = Callable[[str, str], Path]


@pytest.fixture
def launcher() -> Iterator[LocalLauncher]:
    with local_cluster(slots=2) as running:
        yield running


@pytest.fixture
def prepared(kafka_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    """Makes the topic of an example, and its program with the address of the broker in it."""

    def prepare(example: str, topic: str) -> Path:
        admin = AdminClient({"bootstrap.servers": kafka_server.bootstrap})
        for made in admin.create_topics([NewTopic(topic, 2, 1)]).values():
            made.result(PATIENCE_S)
        program = tmp_path / "program.py"
        source = ported(f"connectors/{example}")
        program.write_text(source.replace("localhost:9092", kafka_server.bootstrap), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", [str(program)])
        return program

    return prepare


@contextmanager
def running(program: Path, launcher: LocalLauncher) -> Iterator[None]:
    """A program that never ends by itself: its last job is cancelled."""
    ends = []

    def run() -> None:
        try:
            runpy.run_path(str(program), run_name="__main__")
        except PenstockError as error:
            ends.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        JobClient(launcher.jobs[-1]).cancel().result(PATIENCE_S)
        thread.join(PATIENCE_S)
    assert len(ends) == 1 and "cancel" in ends[0]


@pytest.mark.parametrize(
    ("name", "wanted"), [("json", ROWS), ("csv", ROWS), ("avro", ROWS), ("bytearray", COUNTRIES)]
)
def test_what_an_example_writes_to_kafka_it_reads_again(
    name: str, wanted: list[str], prepared: Prepare, launcher: LocalLauncher, capsys: Any
) -> None:
    printed: list[str] = []

    def all_there() -> bool:
        printed.extend(plain_lines(capsys.readouterr().out))
        return len(printed) >= len(wanted) + 2

    with running(prepared(f"kafka_{name}_format", f"test_{name}_topic"), launcher):
        until(all_there, "everything is printed")
    said = ["start writing data to kafka", "start reading data from kafka"]
    assert sorted(printed) == sorted([*said, *wanted])


def test_the_example_of_fields_as_keys_and_values(
    kafka_server: Any, prepared: Prepare, launcher: LocalLauncher, capsys: Any
) -> None:
    topic = "row-extractor-example"
    runpy.run_path(str(prepared("kafka_row_field_extractor_example", topic)), run_name="__main__")
    sent = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Sending: User=user-00")]
    builder = KafkaSource.builder().set_bootstrap_servers(kafka_server.bootstrap).set_topics(topic)
    reader = builder.set_value_only_deserializer(ByteArraySchema()).set_group_id("reads")
    values = read_all(reader.set_bounded(KafkaOffsetsInitializer.latest()).build())
    assert len(sent) == len(values) == 4
    assert not [value for value in values if value.startswith(b"b'")], "bytes are taken as they are"
