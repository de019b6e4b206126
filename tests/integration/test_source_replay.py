"""Replaying a source from any recorded position gives the same records, good and bad, in the same order.

One check for all sources that can be replayed.  A source joins with an entry in ``CASES``: how to draw
contents, and how to make a bounded source of them.
"""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.common import Types
from penstock.connectors.files.source import FileSource
from penstock.connectors.log import Json, Log, LogOffsets, LogSource, Producer
from penstock.connectors.source import EndOfSplit, Source, Split, SplitReader
from penstock.core.clock import ManualClock
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from tests.kafka_kit import TestTopic

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])
ROW_TYPE = Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()])
MAX_POLLS = 2_000_000

ROWS = st.lists(
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.text("aäz ☃", max_size=8)), min_size=1, max_size=40
)


def _as_json(row: tuple[int, str]) -> bytes:
    return json.dumps({"n": row[0], "s": row[1]}, ensure_ascii=False).encode()


JSON_VALUES = st.lists(
    st.one_of(
        ROWS.map(lambda rows: _as_json(rows[0])), st.sampled_from([b"odd", b"[]", b"\xff", b'{"n":""}'])
    ),
    min_size=1,
    max_size=40,
)
TRANSACTIONS = st.lists(
    st.tuples(st.sampled_from(["commit", "abort", "plain"]), JSON_VALUES), min_size=1, max_size=5
)
Served = Any
"""What a case gets to reach its server: the test's request for fixtures."""


@dataclass(frozen=True)
class Case:
    """A kind of source."""

    contents: st.SearchStrategy[Any]
    make: Callable[[Any, Path, Served], Source]
    examples: int = 40


def _log(values: list[bytes], directory: Path, served: Served) -> Source:
    topic = Log(directory).create_topic("t", segment_bytes=4096)
    with Producer(topic) as producer:
        for start in range(0, len(values), 7):
            producer.send_many(values[start : start + 7], partition=0)
    return LogSource(directory, "t", Json(SCHEMA), end=LogOffsets.latest(), on_error="skip")


def _text(rows: list[tuple[int, str]], directory: Path, served: Served) -> Source:
    ends = ["\n", "\r\n"]
    lines = "".join(f"{number}{text}{ends[number % 2]}" for number, text in rows)
    (directory / "lines.txt").write_bytes(lines.removesuffix("\n").encode())
    return FileSource.text(directory)


def _csv(rows: list[tuple[int, str]], directory: Path, served: Served) -> Source:
    lines = (f'{number},"{text}"\n' if number % 5 else f"{number}\n" for number, text in rows)
    (directory / "lines.csv").write_text("".join(lines))
    return FileSource.csv(directory, schema=SCHEMA, on_error="skip")


def _json_lines(values: list[bytes], directory: Path, served: Served) -> Source:
    (directory / "lines.json").write_bytes(b"\n".join(values))
    return FileSource.json_lines(directory, schema=SCHEMA, on_error="skip")


def _parquet(rows: list[tuple[int, str]], directory: Path, served: Served) -> Source:
    table = pa.Table.from_pylist([{"n": number, "s": text} for number, text in rows], SCHEMA)
    pq.write_table(table, directory / "rows.parquet", row_group_size=5)
    return FileSource.parquet(directory)


def _kafka(written: list[tuple[str, list[bytes]]], directory: Path, served: Served) -> Source:
    topic = TestTopic(served.getfixturevalue("kafka_server").bootstrap)
    for kind, values in written:
        if kind == "plain":
            topic.send(values)
        else:
            topic.transaction([(0, value) for value in values], commit=kind == "commit")
    schema = JsonRowDeserializationSchema.builder().type_info(ROW_TYPE).build()
    return topic.bounded().set_value_only_deserializer(schema).set_on_error("skip").build()


CASES: dict[str, Case] = {
    "log": Case(JSON_VALUES, _log),
    "text files": Case(ROWS, _text),
    "csv files": Case(ROWS, _csv),
    "json files": Case(JSON_VALUES, _json_lines),
    "parquet files": Case(ROWS, _parquet),
    "kafka": Case(TRANSACTIONS, _kafka, examples=12),
}


class Replay:
    """Reads a split with polls of drawn sizes, and remembers where it was after each."""

    def __init__(self, source: Source, split: Split, position: Any, sizes: Iterator[int]) -> None:
        self._clock = ManualClock(1_700_000_000_000)
        self.records: list[Any] = []
        self.bad: list[Any] = []
        reader = _ship(source).open_split(_ship(split), position, self._clock)
        self.marks = [(0, 0, _ship(reader.position()))]
        self._read(reader, sizes)
        reader.close()

    def _read(self, reader: SplitReader, sizes: Iterator[int]) -> None:
        size = next(sizes)
        for _ in range(MAX_POLLS):
            try:
                batch = reader.poll(size)
            except EndOfSplit:
                self.bad += reader.take_diverted()
                return
            self.bad += reader.take_diverted()
            if batch is None:
                self._clock.advance(1)
            else:
                self.records += list(zip(batch.to_rows(), batch.time_list(), strict=True))
            mark = (len(self.records), len(self.bad), _ship(reader.position()))
            if mark != self.marks[-1]:
                self.marks.append(mark)
                size = next(sizes)
        raise AssertionError("the source has no end")


def _ship(value: Any) -> Any:
    """What arrives in a slot, or comes back out of a snapshot."""
    return pickle.loads(cloudpickle.dumps(value))


def _sizes(drawn: list[int]) -> Iterator[int]:
    while True:
        yield from drawn


POLLS = st.lists(st.integers(1, 20), min_size=1, max_size=5)


@pytest.mark.parametrize("name", CASES)
def test_replay_from_any_recorded_position(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    case = CASES[name]

    @settings(
        max_examples=case.examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(case.contents, POLLS, POLLS, st.data())
    def check(contents: Any, first: list[int], second: list[int], data: st.DataObject) -> None:
        directory = tmp_path / uuid.uuid4().hex
        directory.mkdir()
        source = case.make(contents, directory, request)
        for split in source.create_enumerator(1).discover():
            whole = Replay(source, split, None, _sizes(first))
            records, bad, position = data.draw(st.sampled_from(whole.marks))
            again = Replay(source, split, position, _sizes(second))
            assert again.records == whole.records[records:]
            assert again.bad == whole.bad[bad:]

    check()
