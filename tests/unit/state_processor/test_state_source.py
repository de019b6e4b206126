"""The Spark data source, driven as Spark's planner and tasks drive it, without a session."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from penstock.core.errors import ConfigError, SnapshotError
from penstock.spark.state_frames import StateDataSource
from penstock.state_processor import SavepointWriter


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory):
    """Typed state in three files, pickled state of two types, timers, and a column Spark has no type for."""
    mixed = [(n, [n]) for n in range(4096)] + [(n, ["text"]) for n in range(4096, 4200)]
    counts = pa.table({"key": [f"user {n}" for n in range(100)], "value": range(100)})
    writer = SavepointWriter.new().with_operator("counter", {"count": counts}, parallelism=3)
    writer.with_timers("counter", pa.table({"time": [17], "key": ["ann"]}))
    writer.with_operator("mixed", {"s": mixed}, parallelism=1)
    writer.with_operator("plain", {"s": [(1, {"a": (1, None)})]})
    return writer.write(str(tmp_path_factory.mktemp("source") / "savepoint"))


def plan(path, **options):
    """Columns and partitions, as the planner gets them; both travel to the tasks by pickle."""
    source = pickle.loads(pickle.dumps(StateDataSource({"path": path, **options})))
    schema = source.schema()
    reader = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(source)).reader(schema)))
    return schema.simpleString(), reader, reader.partitions()


def rows(path, **options):
    _, reader, parts = plan(path, **options)
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def test_a_state_is_read_in_as_many_parts_as_files(savepoint):
    shown, _, parts = plan(savepoint, operator="counter", state="count")
    assert shown == "struct<key:string,value:bigint>" and len(parts) == 3
    assert sorted(row["value"] for row in rows(savepoint, operator="counter", state="count")) == list(
        range(100)
    )


def test_other_tables(savepoint):
    assert {row["state"] for row in rows(savepoint)} == {"count", "s", "_timers/event"}
    assert {row["state"] for row in rows(savepoint, operator="mixed")} == {"s"}
    assert [row["operator"] for row in rows(savepoint, table="operators")] == ["counter", "mixed", "plain"]
    assert rows(savepoint, table="timers", operator="counter") == [
        {"domain": "event", "time": 17, "key": "ann", "namespace": None}
    ]
    assert len(rows(savepoint, table="keys", operator="counter", state="count")) == 100
    assert sum(row["entries"] for row in rows(savepoint, table="sizes")) == 100 + 1 + 4200 + 1


def test_pickled_values(savepoint):
    with pytest.raises(SnapshotError, match="trusted"):
        plan(savepoint, operator="plain", state="s")
    shown, _, _ = plan(savepoint, operator="plain", state="s", trusted="true")
    assert shown == "struct<key:bigint,value:map<string,struct<f0:bigint,f1:string>>>"


def test_values_of_different_types(savepoint):
    with pytest.raises(SnapshotError, match=r'option\("types", "text"\)'):
        rows(savepoint, operator="mixed", state="s", trusted="true")
    found = rows(savepoint, operator="mixed", state="s", trusted="true", types="text")
    assert found[1] == {"key": 1, "value": "[1]"} and found[4199]["value"] == '["text"]'


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tabel": "states"}, "no option tabel"),
        ({"table": "stats"}, "no table 'stats'"),
        ({"table": "timers"}, "of one operator"),
        ({"types": "json"}, "types is auto or text"),
        ({"trusted": "yes"}, "trusted is false or true"),
        ({"state": "count"}, "of one operator"),
        ({"table": "state", "operator": "counter"}, "one state"),
    ],
    ids=str,
)
def test_mistakes_are_told(savepoint, options, told):
    with pytest.raises(ConfigError, match=told):
        plan(savepoint, **options)
