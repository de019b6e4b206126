"""What the steps of a subtask have counted, read about once a second for the driver.

The engine counts per batch.  What a state backend says of itself is asked for more rarely: it may look into
files for it.  The engine's own names win over a user's, and there is a bound to how many names a task may
have: they are sent every second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import islice

from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.core.metric_names import step_keys
from penstock.core.metrics import MetricGroup
from penstock.operators.chain import OperatorInput
from penstock.operators.sink_operator import SinkOperator
from penstock.operators.source_operator import SourceOperator

RECORDS_IN, RECORDS_OUT = "numRecordsIn", "numRecordsOut"
STATE_EVERY_S = 10.0
MOST = 5000
"""Names of one subtask; what is beyond is not sent."""

_log = log_of(__name__)


class StepMeasures:
    """Of one subtask. Its steps are called as :func:`~penstock.core.metric_names.step_keys` says."""

    def __init__(self, steps: Sequence[OperatorInput], metrics: MetricGroup, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        keys = step_keys(step.operator.ctx.info.operator_name for step in steps)
        self._steps = list(zip(keys, steps, strict=True))
        self._state: dict[str, float] = {}
        self._state_due = clock.monotonic()
        self._told = False

    def read(self) -> dict[str, float]:
        """All of them, as they are now."""
        values = {**self._metrics.marked(), **self._state_now(), **counted(self._steps)}
        if len(values) > MOST:
            if not self._told:
                self._told = True
                _log.warning(
                    "step %r and those chained to it have %d metrics; %d of them are shown: put what has "
                    "many values into records, not into names of metrics",
                    self._steps[0][0],
                    len(values),
                    MOST,
                )
            values = {**dict(islice(values.items(), MOST)), **counted(self._steps)}
        return values

    def _state_now(self) -> dict[str, float]:
        if self._clock.monotonic() >= self._state_due:
            self._state_due = self._clock.monotonic() + STATE_EVERY_S
            self._state = {}
            for key, step in self._steps:
                with contextlib.suppress(Exception):  # a closed database; numbers are no reason to fail
                    said = step.operator.ctx.keyed.backend.measures()
                    self._state |= {f"{key}.{name}": value for name, value in said.items()}
        return self._state


def counted(steps: Sequence[tuple[str, OperatorInput]]) -> dict[str, float]:
    """Records in and out of every step. A source counts what it reads itself; out of a sink comes nothing."""
    made: dict[str, float] = {}
    for key, step in steps:
        if not isinstance(step.operator, SourceOperator):
            made[f"{key}.{RECORDS_IN}"] = step.records_in
        if step.fan is not None and not isinstance(step.operator, SinkOperator):
            made[f"{key}.{RECORDS_OUT}"] = step.fan.records_out
    return made
