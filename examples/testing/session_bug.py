"""Numbers the sessions of each user, once wrong and once right, and lets the test kit tell which is which.

    python examples/testing/session_bug.py

The wrong one counts in an attribute.  It works on a laptop, in every test that just runs it, and in
production until the first restart.  ``verify`` finds it by restoring the function in milliseconds,
``simulate`` by crashing the whole job until the output is not what it should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import ProcessWindowFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import EventTimeSessionWindows
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.window_state import ListContents
from penstock.testing import SimSink, SimSource, SimulationFailed, simulate
from penstock.testing.verify import EndOfInput, Record, VerificationFailed, Verifier, WatermarkTo, verify

GAP_MS = 500
SEEDS = range(30)


class NumberSessionsWrong(ProcessWindowFunction[Any, Any, Any, Any]):
    """Emits user, number of the session, clicks. The count is an attribute: no snapshot sees it."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[tuple[str, int, int]]:
        """Count the session."""
        self.seen[key] = self.seen.get(key, 0) + 1
        yield key, self.seen[key], len(list(elements))


class NumberSessions(ProcessWindowFunction[Any, Any, Any, Any]):
    """The same with the count where it belongs: in keyed state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state; one handle serves all users."""
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[tuple[str, int, int]]:
        """Count the session."""
        number = (self.seen.value() or 0) + 1
        self.seen.update(number)
        yield key, number, len(list(elements))


# --- one function: verify -------------------------------------------------------------------------


def sessions(function: ProcessWindowFunction[Any, Any, Any, Any]) -> Verifier:
    """A verification of ``function`` on sessions of two users."""
    return verify(
        lambda: WindowOperator(EventTimeSessionWindows.with_gap(GAP_MS), ListContents(), function),
        keyed_by=lambda click: click[0],
    ).input(
        [
            Record(("ann", "home"), 100),
            Record(("bob", "home"), 200),
            Record(("ann", "cart"), 400),
            WatermarkTo(1000),
            Record(("ann", "home"), 2000),
            WatermarkTo(3000),
            Record(("bob", "home"), 3100),
            EndOfInput(),
        ]
    )


EXPECTED = [("bob", 1, 1), ("ann", 1, 2), ("ann", 2, 1), ("bob", 2, 1)]

# --- the whole job: simulate ----------------------------------------------------------------------

CLICKS = [[(f"user-{i % 4}", i * 20 + i // 15 * 2000) for i in range(split, 150, 2)] for split in range(2)]
"""User and time, in two splits: ten bursts of clicks, two seconds apart."""


def job(function: ProcessWindowFunction[Any, Any, Any, Any]) -> Callable[[StreamExecutionEnvironment], None]:
    """The program around ``function``, from a simulated source to a simulated sink."""

    def build(env: StreamExecutionEnvironment) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
            lambda click, _: click[1]
        )
        clicks = env.from_source(SimSource(CLICKS), strategy, "clicks")
        windows = clicks.key_by(lambda click: click[0]).window(EventTimeSessionWindows.with_gap(GAP_MS))
        windows.process(function).sink_to(SimSink("sessions"))

    return build


def try_verify() -> None:
    """Both functions alone."""
    runs = sessions(NumberSessions()).expect(EXPECTED)
    print(f"verify: NumberSessions is right: {len(runs)} runs gave the same")
    try:
        sessions(NumberSessionsWrong()).expect(EXPECTED)
    except VerificationFailed as failure:
        print(f"verify: NumberSessionsWrong is wrong:\n{failure}")


def try_simulate() -> None:
    """Both functions in a job."""
    report = simulate(job(NumberSessions()), SEEDS)
    print(f"simulate: NumberSessions is right: {report.seeds} seeds, {report.faults.total()} faults")
    try:
        simulate(job(NumberSessionsWrong()), SEEDS)
    except SimulationFailed as failure:
        print(f"simulate: NumberSessionsWrong is wrong: seed {failure.seed}: {failure.problem}")


def main() -> None:
    """Try both functions in both ways."""
    try_verify()
    try_simulate()


if __name__ == "__main__":
    main()
