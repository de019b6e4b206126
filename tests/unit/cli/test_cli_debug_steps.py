"""``penstock debug`` on steps of other kinds: two inputs, a broadcast side, windows, state on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.testing.local import local_cluster

HEAD = """
from penstock.common import Time, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import KeyedBroadcastProcessFunction, KeyedCoProcessFunction
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

env = StreamExecutionEnvironment.get_execution_environment()
by_number = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v[1])

def stream(*values):
    return env.from_collection(list(values)).assign_timestamps_and_watermarks(by_number)
"""

BROADCAST = """
RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())

class Rule(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value[0]} {value[1]}"

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value[0], value[1])
        if value[1] > 10:
            yield f"rule {value[0]}"

rules = stream(("quiet", 1), ("loud", 11)).broadcast(RULES)
stream(("a", 1), ("b", 2), ("a", 3)).key_by(lambda v: v[0]).connect(rules).process(Rule()).print()
env.execute("broadcast")
"""

TWO = """
class Both(KeyedCoProcessFunction):
    def open(self, ctx):
        self.seen = ctx.get_map_state(MapStateDescriptor("seen", Types.STRING(), Types.INT()))

    def process_element1(self, value, ctx):
        self.seen.put("left", value[1])

    def process_element2(self, value, ctx):
        self.seen.put("right", value[1])

left, right = stream(("a", 1), ("b", 2)), stream(("a", 5), ("c", 6))
left.key_by(lambda v: v[0]).connect(right.key_by(lambda v: v[0])).process(Both()).uid("both").print()
env.execute("two")
"""

WINDOW = """
sums = stream(("a", 100), ("b", 200), ("a", 300), ("a", 1500)).key_by(lambda v: v[0])
sums.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(lambda a, b: (a[0], a[1] + b[1])).print()
env.execute("windows")
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with local_cluster(slots=1):
        yield


def stepped(program: str, *options: str) -> list[str]:
    Path("program.py").write_text(HEAD + program)
    result: Result = CliRunner().invoke(cli, ["debug", "earliest", "program.py", "--key", "a", *options])
    assert result.exit_code == 0, result.output
    return [line for line in result.stdout.splitlines() if line]


def test_records_of_a_broadcast_side_are_shown_if_they_did_something() -> None:
    lines = stepped(BROADCAST)
    assert len([line for line in lines if ". record" in line]) == 3, lines
    assert "    out: a 1" in lines and "    out: a 3" in lines
    assert "    out: rule loud" in lines and not any("quiet" in line for line in lines)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_two_inputs_with_state_in_memory_and_on_disk(backend: str) -> None:
    lines = stepped(TWO, "-D", f"state.backend.type={backend}")
    assert sorted(line.split(". ", 1)[1].split(" at ")[0] for line in lines if ". record" in line) == [
        "record",
        "record (input 2)",
    ]
    assert any("seen:" in line and "'left': 1" in line and "'right': 5" in line for line in lines), lines


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_windows_are_shown_as_they_fill_and_fire(backend: str) -> None:
    lines = stepped(WINDOW, "-D", f"state.backend.type={backend}")
    assert len([line for line in lines if ". record" in line]) == 3
    outs = [line for line in lines if line.startswith("    out: ")]
    assert outs == ["    out: ('a', 400)", "    out: ('a', 1500)"]
