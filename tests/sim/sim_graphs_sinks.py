"""Graphs whose point is the sink: two-phase commits against systems with rules of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim_outside import BrokerSink, DatabaseSink, LakeSink, NoForks
from sim_real_sinks import ByEpoch, TwoFunctions

from penstock.common import WatermarkStrategy
from penstock.connectors.sink import Sink
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing import SimSource

KEYS = 5


class Number(KeyedProcessFunction):
    """Numbers the records of a key: a repetition shows, and so does a gap."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield f"{ctx.get_current_key()}:{count}"


def into(make: Callable[[str], Sink]) -> Callable[[Env], None]:
    """Numbered records into a sink."""

    def build(env: Env) -> None:
        data = [[split * 1000 + i for i in range(100)] for split in range(2)]
        stream = env.from_source(SimSource(data), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        numbered = stream.key_by(lambda i: i % KEYS).process(Number()).uid("number")
        numbered.sink_to(make("out")).uid("out")
        numbered.sink_to(NoForks()).uid("none")

    return build


def crowded(build: Callable[[Env], None]) -> Callable[[Env], None]:
    """With up to three checkpoints in flight."""

    def changed(env: Env) -> None:
        env.get_checkpoint_config().set_max_concurrent_checkpoints(3)
        build(env)

    return changed


TWO_PHASE_GRAPHS: dict[str, Callable[[Env], None]] = {
    "two_phase_broker": into(BrokerSink),
    "two_phase_broker_crowded": crowded(into(BrokerSink)),
    "two_phase_database": into(DatabaseSink),
    "two_phase_lake": into(LakeSink),
    "two_phase_lake_crowded": crowded(into(LakeSink)),
    "two_phase_generic": into(TwoFunctions),
    "two_phase_epochs": into(ByEpoch),
    "two_phase_epochs_crowded": crowded(into(ByEpoch)),
}
