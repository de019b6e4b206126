"""``penstock state``."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.state_processor import SavepointWriter


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory):
    """A savepoint with typed and pickled state and timers."""
    kind = pa.map_(pa.string(), pa.int64())
    states = {
        "count": pa.table({"key": [f"user {n}" for n in range(30)], "value": range(30)}),
        "pages": pa.table({"key": ["ann"], "value": pa.array([[("home", 3)]], kind)}),
        "pairs": [(("ann", 1), 5)],
    }
    writer = SavepointWriter.new().with_operator("counter", states)
    writer.with_timers("counter", pa.table({"time": [17], "key": ["ann"]}))
    return writer.write(str(tmp_path_factory.mktemp("state") / "savepoint"))


def invoke(*args):
    return CliRunner().invoke(cli, ["state", *args])


def test_show(savepoint):
    result = invoke("show", savepoint)
    assert result.exit_code == 0, result.stderr
    for word in ("savepoint", "counter", "4 of 128", "count", "30", "key string, value int64", "pages"):
        assert word in result.output
    rows = json.loads(invoke("show", savepoint, "--operator", "counter", "--json").output)
    assert {row["state"]: row["entries"] for row in rows} == {
        "count": 30,
        "pages": 1,
        "pairs": 1,
        "_timers/event": 1,
    }
    wrong = invoke("show", savepoint, "--operator", "nobody")
    assert wrong.exit_code == 1 and "it has counter" in wrong.stderr


def query(savepoint, state, *args):
    return invoke("query", savepoint, "--operator", "counter", "--state", state, *args)


def test_query(savepoint):
    result = query(savepoint, "count", "--limit", "5")
    assert result.exit_code == 0 and "KEY" in result.output and "25 more" in result.output
    assert query(savepoint, "count", "--key", "user 7", "--json").output == '{"key": "user 7", "value": 7}\n'
    assert query(savepoint, "timers", "--json").output.count('"time": 17') == 1


def test_query_of_pickled_values(savepoint):
    refused = query(savepoint, "pages")
    assert refused.exit_code == 1 and "--trusted" in refused.stderr
    shown = query(savepoint, "pages", "--trusted", "--json")
    assert json.loads(shown.output) == {"key": "ann", "value": {"home": 3}}
    assert "5" in query(savepoint, "pairs", "--trusted", "--key", '["ann", 1]').output.split()
