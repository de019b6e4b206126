"""Every combination of window, trigger, evictor, lateness and function against the model.

Random out-of-order input, cut into batches at random; at random places the operator is snapshotted and
restored at another parallelism, or crashes and goes back to an older snapshot.
"""

from __future__ import annotations

import copy
from typing import Any

import window_model as model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from window_cases import Case, cases, early_and_late, fixed, overlapping, short

from penstock.core.batch import Batch
from penstock.core.row import Row
from penstock.testing.operator_run import OperatorRun, Result

RECORD, WATERMARK, CLOCK, RESTORE, KEEP, CRASH = "record", "watermark", "clock", "restore", "keep", "crash"

KINDS = {
    RECORD: st.tuples(
        st.just(RECORD),
        st.sampled_from("aaabc"),
        st.integers(0, 9),
        st.sampled_from([*range(-9, 10), -25, 15]),
    ),
    WATERMARK: st.tuples(st.just(WATERMARK), st.sampled_from([0, 1, 1, 2, 3, 5, 14])),
    CLOCK: st.tuples(st.just(CLOCK), st.integers(1, 9)),
    RESTORE: st.tuples(st.just(RESTORE), st.integers(1, 3)),
    KEEP: st.tuples(st.just(KEEP)),
    CRASH: st.tuples(st.just(CRASH), st.integers(1, 3)),
}
OFTEN = [RECORD] * 8 + [WATERMARK] * 4 + [CLOCK] * 2 + [RESTORE, KEEP, CRASH]
STEP = st.sampled_from(OFTEN).flatmap(lambda kind: KINDS[kind])
STEPS = st.integers(1, 40).flatmap(lambda count: st.lists(STEP, min_size=count, max_size=count))
SOME = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


def resolved(steps: list[Any]) -> list[Any]:
    """Steps with absolute times: event times lie around the watermark, which like the clock only grows."""
    watermark, clock, found = 0, 0, []
    for kind, *rest in steps:
        if kind == RECORD:
            key, number, distance = rest
            found.append((RECORD, (key, number), watermark + distance))
        elif kind == WATERMARK:
            watermark += rest[0]
            found.append((WATERMARK, watermark))
        elif kind == CLOCK:
            clock += rest[0]
            found.append((CLOCK, clock))
        else:
            found.append((kind, *rest))
    return [*found, (WATERMARK, model.END)]


class ModelTrial:
    """The model behind an ``OperatorRun``: a snapshot is a copy, a restore repeats the watermark."""

    def __init__(self, slow: model.Model) -> None:
        self.slow = slow
        self.results: list[Result] = []
        self.item = 0

    def at(self, item: int) -> None:
        self.item = item

    def process(self, batch: Batch) -> None:
        for row, time in zip(batch.to_rows(), batch.time_list(), strict=True):
            self.slow.element(tuple(row), time)
        self.gather()

    def watermark(self, time: int) -> None:
        if time > self.slow.watermark:
            self.slow.watermark_to(time)
        self.gather()

    def clock_to(self, now: int) -> None:
        self.slow.clock_to(now)
        self.gather()

    def snapshot(self) -> model.Model:
        return copy.deepcopy(self.slow)

    def load(self, snapshot: model.Model, parallelism: int) -> None:
        self.slow = copy.deepcopy(snapshot)
        self.slow.watermark_to(self.slow.watermark)
        self.gather()

    def restore(self, parallelism: int) -> None:
        self.load(self.slow, parallelism)

    def close(self) -> None:
        pass

    def gather(self) -> None:
        self.results += [Result(value, time, side, self.item) for side, value, time in self.slow.results]
        self.slow.results.clear()


class Run:
    """One of the two over the steps."""

    def __init__(self, trial: OperatorRun | ModelTrial, steps: list[Any], batch: Any) -> None:
        self.trial = trial
        self.batch = batch
        self.steps = steps
        self.kept = (-1, self.trial.snapshot(), 0)
        self.crashed: set[int] = set()

    def results(self) -> list[Any]:
        at = 0
        while at < len(self.steps):
            at = self.step(at)
        self.trial.close()
        return [(r.item, r.side, plain(r.value), r.time) for r in self.trial.results]

    def step(self, at: int) -> int:
        """Carry one step out; answers the next, which after a crash is an earlier one."""
        kind, *rest = self.steps[at]
        self.trial.at(at)
        if kind == RECORD:
            (key, number), time = rest
            self.trial.process(self.batch(key, number, time))
        elif kind == WATERMARK:
            self.trial.watermark(rest[0])
        elif kind == CLOCK:
            self.trial.clock_to(rest[0])
            self.keep(at)  # the clock cannot be turned back
        elif kind == RESTORE:
            self.trial.restore(rest[0])
        elif kind == KEEP:
            self.keep(at)
        elif at not in self.crashed:
            return self.crash(at, rest[0])
        return at + 1

    def keep(self, at: int) -> None:
        self.kept = (at, self.trial.snapshot(), len(self.trial.results))

    def crash(self, at: int, parallelism: int) -> int:
        self.crashed.add(at)
        place, snapshot, results = self.kept
        del self.trial.results[results:]
        self.trial.load(snapshot, parallelism)
        return place + 1


def plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, Row) else value


def one_row(key: str, number: int, time: int) -> Batch:
    return Batch.of_rows([Row(k=key, n=number)], [time], [key])


def check(case: Case, steps: list[Any], make: Any = None, batch: Any = one_row) -> None:
    steps = resolved(steps)
    got = Run(OperatorRun(make or case.operator), steps, batch).results()
    wanted = Run(ModelTrial(case.model()), steps, one_row).results()
    assert sorted(got, key=repr) == sorted(wanted, key=repr)


@SOME
@given(cases(), STEPS)
def test_every_window_and_trigger(case: Case, steps: list[Any]) -> None:
    check(case, steps)


@SOME
@given(cases(windows=fixed(), triggers=st.none()), STEPS)
def test_windows_of_fixed_size_with_their_own_trigger(case: Case, steps: list[Any]) -> None:
    check(case, steps)


@SOME
@given(overlapping(), STEPS)
def test_aggregates_over_shared_panes(case: Case, steps: list[Any]) -> None:
    assert case.operator().shares_panes
    check(case, steps)


@SOME
@given(cases(windows=short(), triggers=early_and_late()), STEPS)
def test_early_and_late_firings(case: Case, steps: list[Any]) -> None:
    case.lateness = 30
    check(case, steps)
