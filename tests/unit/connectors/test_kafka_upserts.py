"""Reading a topic in which the last record of a key holds: records as changes, and what its table may be."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.kafka.upserts import UpsertDecoder
from penstock.core.changes import CHANGE, ChangeMode
from penstock.core.errors import ConfigError
from penstock.datastream import StreamExecutionEnvironment
from penstock.formats.bad_records import DecodeError
from penstock.sql import Session

SCHEMA = pa.schema([pa.field("n", pa.int64(), False), pa.field("k", pa.string()), pa.field("s", pa.string())])
OPTIONS = (
    "WITH ('connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:1', "
    "'key.format' = 'json', 'value.format' = 'json')"
)


class Message:
    def __init__(self, key: Any, value: Any) -> None:
        self._key, self._value = key, value

    def key(self) -> bytes | None:
        return None if self._key is None else json.dumps(self._key).encode()

    def value(self) -> bytes | None:
        return self._value if isinstance(self._value, bytes | None) else json.dumps(self._value).encode()


def decoded(*messages: Message, key: tuple[str, ...] = ("k",)) -> list[tuple[Any, ...]]:
    decoder = pickle.loads(pickle.dumps(UpsertDecoder(SCHEMA, key)))
    left, items = decoder.select(list(messages))
    assert len(left) == len(messages), "a deletion is a record, too"
    found = decoder.decode(items)
    assert found.schema.names == ["n", "k", "s", CHANGE]
    return [tuple(row.values()) for row in found.to_pylist()]


def test_values_and_deletions() -> None:
    assert decoded(
        Message({"k": "a"}, {"k": "a", "n": 1, "s": "x"}),
        Message({"k": "b"}, None),
        Message({"k": None}, {"n": 2, "s": None, "more": 5}),
        Message({"k": "a"}, None),
    ) == [(1, "a", "x", 2), (None, "b", None, 3), (2, None, None, 2), (None, "a", None, 3)]
    assert decoded(Message({"k": "a"}, None)) == [(None, "a", None, 3)]
    whole = Message({"n": 1, "k": "a", "s": "x"}, {})
    assert decoded(whole, key=("n", "k", "s")) == [(1, "a", "x", 2)]


def test_the_key_says_what_a_record_is_of() -> None:
    assert decoded(Message({"k": "a"}, {"k": "other", "n": 1})) == [(1, "a", None, 2)]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (Message(None, {"n": 1}), "has no key"),
        (Message({"k": "b"}, b"{"), "JSON"),
        (Message([], None), "object"),
    ],
)
def test_a_bad_record_is_named_by_its_place(message: Message, told: str) -> None:
    with pytest.raises(DecodeError, match=told) as bad:
        decoded(Message({"k": "a"}, None), Message({"k": "a"}, {"n": 1}), message)
    assert bad.value.index == 2


def test_a_table_of_upserts_is_read_as_changes() -> None:
    session = Session()
    columns = "k STRING, n BIGINT, m AS n * 2, PRIMARY KEY (k) NOT ENFORCED"
    session.sql(f"CREATE TABLE t ({columns}) {OPTIONS}")
    frame = session.sql("SELECT * FROM t WHERE n > 1")
    assert (frame.changes, frame.key, frame.columns) == (ChangeMode.UPSERT, ("k",), ["k", "n", "m"])
    assert frame._as_retract().changes is ChangeMode.RETRACT
    assert session.sql("SELECT n, COUNT(*) AS c FROM t GROUP BY n").changes is ChangeMode.UPSERT
    with pytest.raises(ConfigError, match="rows of this DataFrame change"):
        session.sql("SELECT * FROM t").to_data_stream(session.env)


def test_its_state_has_names_that_stay_apart() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    session = Session(env)
    session.sql(f"CREATE TABLE t (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) {OPTIONS}")
    session.sql("SELECT * FROM t").to_changelog_stream(upsert=True)
    session.sql("SELECT n, COUNT(*) AS c FROM t GROUP BY n").to_changelog_stream()
    nodes = [env.graph.get(number) for number in range(env.graph.begin, env.graph.declared + 1)]
    kinds = [node.uid.rpartition("-")[0] for node in nodes if node.uid is not None]
    assert kinds == ["source", "last-rows", "group"], "read once, and found by names that other queries keep"


def test_what_such_a_table_may_not_be() -> None:
    session = Session()
    session.sql(f"CREATE TABLE u (k STRING, n BIGINT) {OPTIONS}")
    with pytest.raises(ConfigError, match="needs a PRIMARY KEY"):
        session.sql("SELECT * FROM u")
    timed = "k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (k) NOT ENFORCED"
    session.sql(f"CREATE TABLE w ({timed}) {OPTIONS}")
    with pytest.raises(ConfigError, match="leave WATERMARK out"):
        session.sql("SELECT * FROM w")
    late = OPTIONS.replace("'topic'", "'scan.startup.mode' = 'latest-offset', 'topic'")
    session.sql(f"CREATE TABLE l (k STRING, PRIMARY KEY (k) NOT ENFORCED) {late}")
    with pytest.raises(ConfigError, match="no option 'scan.startup.mode'"):
        session.sql("SELECT * FROM l")
