"""Records that cannot be decoded: found, named, skipped, diverted; by the log source as well."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import WatermarkStrategy
from penstock.connectors.log import Json, Log, LogOffsets, LogSource, Producer
from penstock.connectors.source import EndOfSplit
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.formats.bad_records import BadRecords, DecodeError, Diverted, ErrorPolicy, OnError, salvage
from penstock.testing.local import local_cluster


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), max_size=200), st.booleans())
def test_salvage_finds_every_bad_value_and_decodes_all_others_in_order(
    good: list[bool], backwards: bool
) -> None:
    bad: list[int] = []
    work = 0

    def decode(start: int, stop: int) -> list[int]:
        nonlocal work
        work += stop - start
        for index in reversed(range(start, stop)) if backwards else range(start, stop):
            if not good[index]:
                raise DecodeError(index - start, "bad")
        return list(range(start, stop))

    pieces = salvage(len(good), decode, lambda index, reason: bad.append(index))
    assert [value for _, _, values in pieces for value in values] == [i for i, ok in enumerate(good) if ok]
    assert all(values == list(range(start, stop)) for start, stop, values in pieces)
    assert bad == [i for i, ok in enumerate(good) if not ok]
    assert backwards or work <= 20 * len(good) + 1


def test_a_policy_needs_a_tag_to_divert_to_and_only_then() -> None:
    assert ErrorPolicy.of("skip") == ErrorPolicy(OnError.SKIP)
    assert ErrorPolicy.of(OnError.DIVERT, OutputTag("bad")).tag == "bad"
    for wrong in (("divert", None), ("fail", OutputTag("bad"))):
        with pytest.raises(ConfigError, match="give both OnError.DIVERT and the OutputTag"):
            ErrorPolicy.of(*wrong)
    with pytest.raises(ConfigError, match="one of 'fail', 'skip', 'divert'"):
        ErrorPolicy.of("ignore")


def test_failing_shows_where_and_the_first_bytes() -> None:
    bad = BadRecords(ErrorPolicy(), "t", "t-3", "topic 't' partition 3, offset")
    with pytest.raises(
        ConnectorError, match=r"topic 't' partition 3, offset 17: odd\. The record is b'x{64}'"
    ):
        bad.add(17, b"x" * 1000, "odd")


def test_diverted_records_and_errors_travel() -> None:
    record = Diverted("t", "t-3", 17, b"raw", "odd", 5)
    assert pickle.loads(pickle.dumps(record)) == record
    assert pickle.loads(pickle.dumps(DecodeError(3, "odd"))).index == 3


SCHEMA = pa.schema([("a", pa.int64())])
VALUES = [b'{"a":0}', b"odd", b'{"a":2}', b"\xff", b"{}{}", b'{"a":5}']


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with Producer(Log(tmp_path).create_topic("t")) as producer:
        producer.send_many(VALUES, partition=0, timestamps=range(10, 16))
    return tmp_path


@pytest.mark.parametrize("schema", [SCHEMA, None])
@pytest.mark.parametrize("size", [1, 2, 100])
def test_the_log_source_gives_the_good_ones_and_hands_out_the_bad(log: Path, schema: Any, size: int) -> None:
    source = LogSource(log, "t", Json(schema), end=LogOffsets.latest(), on_error="skip")
    [split] = source.create_enumerator(1).discover()
    reader = source.open_split(split, None, ManualClock(0))
    good: list[tuple[int, int]] = []
    bad: list[Diverted] = []
    with pytest.raises(EndOfSplit):
        while True:
            batch = reader.poll(size)
            found = [] if batch is None else zip(batch.to_rows(), batch.time_list(), strict=True)
            good += [(row["a"], time) for row, time in found]
            bad += reader.take_diverted()
    assert good == [(0, 10), (2, 12), (5, 15)]
    assert [(b.split, b.position, b.raw, b.timestamp) for b in bad] == [
        ("t-0", 1, b"odd", 11),
        ("t-0", 3, b"\xff", 13),
        ("t-0", 4, b"{}{}", 14),
    ]
    assert reader.take_diverted() == []


def test_a_job_gets_diverted_records_from_the_side_output(log: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    tag = OutputTag("bad")
    source = LogSource(log, "t", Json(SCHEMA), end=LogOffsets.latest(), on_error="divert", divert_to=tag)
    with local_cluster():
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "log")
        bad = stream.get_side_output(tag).map(lambda record: (record.position, record.raw, record.reason))
        found = sorted(bad.execute_and_collect())
    assert [each[:2] for each in found] == [(1, b"odd"), (3, b"\xff"), (4, b"{}{}")]
    assert "malformed JSON" in found[0][2] and "not UTF-8" in found[1][2]
