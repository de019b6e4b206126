"""Steps that nobody reads run, as in Flink: programs write their sinks as ``map()``.

What PyFlink 2.3.0 did with the same programs, in STREAMING and in BATCH mode, on OpenJDK 17, is in the
expectations here, where nothing else is said: each was run there with ``pyflink`` in the imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.core.errors import GraphError
from penstock.datastream import OutputTag, ProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.testing.local import local_cluster


@pytest.fixture(params=["STREAMING", "BATCH"])
def env(request: pytest.FixtureRequest) -> Iterator[StreamExecutionEnvironment]:
    with local_cluster():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_runtime_mode(RuntimeExecutionMode[request.param]).set_parallelism(2)
        yield env


class Notes:
    """What functions were called with. They are copied on their way to the slots, so it is in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, tag: str) -> Callable[[Any], Any]:
        file = self._file

        def noted(value: Any) -> Any:
            with file.open("a") as lines:
                lines.write(f"{tag}{value}\n")
            return value

        return noted

    def taken(self) -> list[str]:
        """All of them so far, forgotten from now on."""
        lines = sorted(self._file.read_text().split())
        self._file.unlink()
        return lines


@pytest.fixture
def note(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "notes")


class Parted(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value
        yield OutputTag("odd", Types.INT()), value


def test_a_step_alone_runs(env: StreamExecutionEnvironment, note: Notes) -> None:
    env.from_collection([1, 2, 3]).map(note("a"))
    env.execute()
    assert note.taken() == ["a1", "a2", "a3"]


def test_a_step_beside_a_sink_runs(
    env: StreamExecutionEnvironment, note: Notes, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = env.from_collection([1, 2, 3])
    numbers.map(note("a"))
    numbers.map(note("b")).print()
    env.execute()
    assert note.taken() == ["a1", "a2", "a3", "b1", "b2", "b3"]
    assert len(capsys.readouterr().out.split()) >= 3


def test_steps_with_tasks_of_their_own_run(env: StreamExecutionEnvironment, note: Notes) -> None:
    """Behind an exchange, and one behind the other."""
    numbers = env.from_collection([1, 2, 3])
    numbers.key_by(lambda n: n % 2).map(note("a")).rebalance().map(note("b"))
    env.execute()
    assert note.taken() == ["a1", "a2", "a3", "b1", "b2", "b3"]


def test_a_step_with_unread_outputs_runs(env: StreamExecutionEnvironment, note: Notes) -> None:
    parted = env.from_collection([1, 2]).map(note("a")).process(Parted())
    parted.get_side_output(OutputTag("odd", Types.INT())).map(note("side"))
    parted.get_side_output(OutputTag("none", Types.INT()))
    env.execute()
    assert note.taken() == ["a1", "a2", "side1", "side2"]


def test_collecting_one_stream_runs_the_others(env: StreamExecutionEnvironment, note: Notes) -> None:
    """As Flink does. PyFlink 2.3.0 forgets all other streams here, even those that end in print()."""
    numbers = env.from_collection([1, 2, 3])
    numbers.map(note("a"))
    with numbers.map(note("b")).execute_and_collect() as results:
        assert sorted(results) == [1, 2, 3]
    assert note.taken() == ["a1", "a2", "a3", "b1", "b2", "b3"]


def test_the_next_job_runs_what_is_new_and_what_that_reads(
    env: StreamExecutionEnvironment, note: Notes
) -> None:
    numbers = env.from_collection([1, 2])
    kept = numbers.map(note("a"))
    numbers.map(note("other"))
    env.execute()
    note.taken()
    kept.map(note("b"))
    env.execute()
    assert note.taken() == ["a1", "a2", "b1", "b2"]


def test_a_source_alone_is_nothing_to_run(env: StreamExecutionEnvironment) -> None:
    """PyFlink: IllegalStateException, No operators defined in streaming topology. Cannot execute."""
    env.from_collection([1]).union(env.from_collection([2]))
    for ask in (env.execute, env.explain, env.get_execution_plan):
        with pytest.raises(GraphError, match="nothing to run"):
            ask()


def test_a_second_execute_has_nothing_to_run(env: StreamExecutionEnvironment, note: Notes) -> None:
    env.from_collection([1]).map(note("a"))
    env.execute()
    with pytest.raises(GraphError, match="nothing to run"):
        env.execute()
    assert note.taken() == ["a1"]


def test_a_source_that_nobody_reads_is_not_part_of_the_job(
    env: StreamExecutionEnvironment, note: Notes
) -> None:
    """Else an endless one would keep the job from ending, and out of BATCH mode."""
    endless = DataGeneratorSource(lambda index: index, None, 1000)
    env.from_source(endless, WatermarkStrategy.no_watermarks(), "endless")
    env.from_collection([1]).map(note("a"))
    env.execute()
    assert note.taken() == ["a1"]


def test_the_plan_says_which(env: StreamExecutionEnvironment, note: Notes) -> None:
    numbers = env.from_collection([1])
    numbers.map(note("a")).name("to the shop")
    numbers.print()
    said = env.explain()
    assert (
        "nobody reads the results of these; they run for what else they do:\n        step 'to the shop'"
        in said
    )
    assert said.count("step '") == 1
