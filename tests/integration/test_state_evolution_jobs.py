"""A job that is stopped, changed and started again: its state follows, or the refusal says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import Pace, read_text, text_file_sink
from local_jobs import NO_TIME, environment, finish, until, wait_for_snapshots

from penstock.common import Row, Types
from penstock.core.errors import PenstockError
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor
from penstock.testing.local import local_cluster

COUNT, KEYS = 3000, 7

OLD = Types.ROW_NAMED(["seen", "label"], [Types.INT(), Types.STRING()])
NEW = Types.ROW_NAMED(["factor", "seen"], [Types.DOUBLE(), Types.LONG()])
WRONG = Types.ROW_NAMED(["seen", "label"], [Types.STRING(), Types.STRING()])


class CountOld(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(ValueStateDescriptor("count", OLD))
        self._unused = runtime_context.get_state(ValueStateDescriptor("later", Types.STRING()))

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        found = self._state.value() or Row(seen=0, label="x")
        self._state.update(Row(seen=found.seen + 1, label=found.label))
        self._unused.update("kept")
        yield f"{ctx.get_current_key()} {found.seen + 1}"


class CountNew(KeyedProcessFunction):
    """The label is gone, a factor has come, the count is wider, and entries expire (not soon)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("count", NEW).with_defaults(factor=0.5)
        descriptor.enable_time_to_live(StateTtlConfig.new_builder("1 h").cleanup_full_snapshot().build())
        self._state = runtime_context.get_state(descriptor)

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        found = self._state.value() or Row(factor=0.5, seen=0)
        assert found.factor == 0.5
        self._state.update(Row(factor=found.factor, seen=found.seen + 1))
        yield f"{ctx.get_current_key()} {found.seen + 1}"


class CountWrong(CountOld):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(ValueStateDescriptor("count", WRONG))


class CountAgain(CountNew):
    """Asks again for the state that the program before did not ask for."""

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self._later = runtime_context.get_state(ValueStateDescriptor("later", Types.STRING()))

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        assert self._later.value() == "kept"
        yield from super().process_element(value, ctx)


def start(work: Path, function: KeyedProcessFunction, parallelism: int, pace: Pace) -> Any:
    env = environment(
        work / "chk", execution__checkpointing__externalized_checkpoint_retention="RETAIN_ON_CANCELLATION"
    ).set_parallelism(parallelism)
    source = pace.source(lambda i: i, COUNT)
    numbers = env.from_source(source, NO_TIME, "numbers").uid("numbers").key_by(lambda i: i % KEYS)
    counted = numbers.process(function, Types.STRING()).uid("count")
    counted.sink_to(text_file_sink(work / "out")).uid("out")
    return env.execute_async("counting")


def run_for_a_while(launcher: Any, work: Path, function: KeyedProcessFunction, parallelism: int) -> None:
    wanted = min(len(read_text(work / "out")) + 60, COUNT // 2)
    client = start(work, function, parallelism, Pace(1500.0, work / "gate"))
    until(lambda: len(read_text(work / "out")) > wanted, "some output is committed")
    wait_for_snapshots(launcher, 1)
    client.cancel().result()


def test_a_changed_row_type_is_migrated_at_another_parallelism(tmp_path: Path) -> None:
    with local_cluster(slots=3) as launcher:
        run_for_a_while(launcher, tmp_path, CountOld(), 2)
        run_for_a_while(launcher, tmp_path, CountNew(), 3)
        finish(start(tmp_path, CountAgain(), 1, Pace()))
    expected = [f"{i % KEYS} {i // KEYS + 1}" for i in range(COUNT)]
    assert read_text(tmp_path / "out") == sorted(expected)


def test_a_type_that_does_not_fit_is_refused_at_once(tmp_path: Path) -> None:
    with local_cluster(slots=2) as launcher:
        run_for_a_while(launcher, tmp_path, CountOld(), 2)
        before = read_text(tmp_path / "out")
        with pytest.raises(PenstockError, match="field seen: INT cannot become STRING") as caught:
            finish(start(tmp_path, CountWrong(), 2, Pace()))
        assert "seen: INT" in str(caught.value) and "with_version(2, migrate={1: function})" in str(
            caught.value
        )
        assert read_text(tmp_path / "out") == before
