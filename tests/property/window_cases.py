"""Every window, trigger and evictor twice: as the engine's object and as the model's, side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import window_model as model
import window_model_triggers as triggers_model
from hypothesis import strategies as st

from penstock.columns import Avg, Count, Max, Min, Sum
from penstock.datastream import window as api
from penstock.operators.columnar.row_by_row import RowAggregate, RowResults
from penstock.operators.functions import AggregateFunction
from penstock.operators.window.functions import ProcessWindowFunction
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.window_state import AggregateContents, ListContents, ReduceContents


@dataclass
class Pair:
    """One thing in both worlds; ``real`` makes a new engine object."""

    real: Any
    model: Any
    merges: bool = True

    def __repr__(self) -> str:
        return repr(self.model)


# --- windows ---------------------------------------------------------------------------------------------


class GapOf(api.SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return element[1] + 1


class ByNumber(api.TumblingEventTimeWindows[Any]):
    """A custom assigner; see the model."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        size = 4 if element[1] % 2 else 10
        start = timestamp - timestamp % size
        return [api.TimeWindow(start, start + size)]


@st.composite
def fixed(draw: Any) -> Pair:
    by_clock = draw(st.booleans())
    size = draw(st.integers(1, 20))
    slide = draw(st.one_of(st.just(size), st.integers(1, 20), st.sampled_from([1, 2, 5])))
    offset = draw(st.integers(1 - slide, slide - 1))
    kinds = (api.SlidingEventTimeWindows, api.SlidingProcessingTimeWindows)
    if size == slide:
        tumbling = (api.TumblingEventTimeWindows, api.TumblingProcessingTimeWindows)[by_clock]
        return Pair(lambda: tumbling(size, offset), model.Fixed(size, slide, offset, by_clock))
    return Pair(lambda: kinds[by_clock](size, slide, offset), model.Fixed(size, slide, offset, by_clock))


@st.composite
def sessions(draw: Any) -> Pair:
    by_clock = draw(st.booleans())
    gap = draw(st.one_of(st.none(), st.integers(1, 12)))
    kind = (api.EventTimeSessionWindows, api.ProcessingTimeSessionWindows)[by_clock]
    real = (lambda: kind.with_dynamic_gap(GapOf())) if gap is None else (lambda: kind.with_gap(gap))
    return Pair(real, model.Session(gap, by_clock))


@st.composite
def counting(draw: Any) -> Pair:
    size, slide = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    if size == slide:
        return Pair(lambda: api.CountTumblingWindowAssigner.of(size), model.Counting(size, size))
    return Pair(lambda: api.CountSlidingWindowAssigner.of(size, slide), model.Counting(size, slide))


OTHERS = st.sampled_from(
    [Pair(api.GlobalWindows.create, model.Global()), Pair(lambda: ByNumber(1, 0), model.ByNumber())]
)
WINDOWS = st.one_of(fixed(), sessions(), counting(), OTHERS)


# --- triggers --------------------------------------------------------------------------------------------


def _distance(left: Any, right: Any) -> int:
    return abs(left[1] - right[1])


@st.composite
def simple_triggers(draw: Any) -> Pair:
    kind = draw(st.sampled_from(["event", "clock", "count", "every", "every-clock", "delta", "never"]))
    size = draw(st.integers(1, 8))
    if kind == "event":
        return Pair(api.EventTimeTrigger.create, triggers_model.EventTime())
    if kind == "clock":
        return Pair(api.ProcessingTimeTrigger.create, triggers_model.ProcessingTime())
    if kind == "count":
        return Pair(lambda: api.CountTrigger.of(size), triggers_model.Count(size))
    if kind == "every":
        return Pair(lambda: api.ContinuousEventTimeTrigger.of(size), triggers_model.Continuous(size, False))
    if kind == "every-clock":
        return Pair(
            lambda: api.ContinuousProcessingTimeTrigger.of(size), triggers_model.Continuous(size, True)
        )
    if kind == "delta":
        return Pair(lambda: api.DeltaTrigger.of(size, _distance), triggers_model.Delta(size), merges=False)
    return Pair(api.NeverTrigger, triggers_model.Never(), merges=False)


@st.composite
def purging(draw: Any) -> Pair:
    nested = draw(st.one_of(simple_triggers(), early_and_late(), timeouts()))
    return Pair(
        lambda: api.PurgingTrigger.of(nested.real()), triggers_model.Purging(nested.model), nested.merges
    )


@st.composite
def timeouts(draw: Any) -> Pair:
    nested = draw(simple_triggers())
    limit, latest, clears = draw(st.integers(1, 9)), draw(st.booleans()), draw(st.booleans())
    return Pair(
        lambda: api.ProcessingTimeoutTrigger.of(nested.real(), limit, latest, clears),
        triggers_model.Timeout(nested.model, limit, latest, clears),
        nested.merges,
    )


@st.composite
def early_and_late(draw: Any) -> Pair:
    early = draw(st.one_of(st.none(), simple_triggers(), timeouts()))
    late = draw(st.one_of(st.none(), simple_triggers()))

    def real() -> Any:
        trigger = api.AfterWatermark.past_end_of_window()
        trigger = trigger if early is None else trigger.with_early(early.real())
        return trigger if late is None else trigger.with_late(late.real())

    return Pair(
        real,
        triggers_model.EarlyAndLate(early and early.model, late and late.model),
        all(part is None or part.merges for part in (early, late)),
    )


TRIGGERS = st.one_of(st.none(), simple_triggers(), purging(), timeouts(), early_and_late())


def default_trigger(windows: Any) -> Any:
    """What the model uses where no trigger was chosen."""
    if isinstance(windows, model.Counting):
        return triggers_model.Purging(triggers_model.Count(windows.size))
    if isinstance(windows, model.Global):
        return triggers_model.Never()
    return triggers_model.ProcessingTime() if windows.by_clock else triggers_model.EventTime()


# --- evictors --------------------------------------------------------------------------------------------


@st.composite
def evictors(draw: Any) -> Pair:
    kind, limit, after = (
        draw(st.sampled_from(["count", "time", "delta"])),
        draw(st.integers(0, 6)),
        draw(st.booleans()),
    )
    makers: dict[str, Any] = {
        "count": lambda: api.CountEvictor.of(limit, after),
        "time": lambda: api.TimeEvictor.of(limit, after),
        "delta": lambda: api.DeltaEvictor.of(limit, _distance, after),
    }
    return Pair(makers[kind], model.Evict(kind, limit, after))


# --- functions -------------------------------------------------------------------------------------------


class Listed(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        yield key, _span(context.window()), tuple(number for _, number in elements)


class Summed(AggregateFunction):
    """Key, sum and number of elements, changed in place: the accumulator that is easiest to spoil."""

    def create_accumulator(self) -> Any:
        return [None, 0, []]

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[0] = value[0]
        accumulator[1] += value[1]
        accumulator[2].append(1)
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0], accumulator[1], len(accumulator[2])

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        acc_a[0] = acc_b[0] if acc_a[0] is None else acc_a[0]
        acc_a[1] += acc_b[1]
        acc_a[2].extend(acc_b[2])
        return acc_a


class Shown(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        yield key, _span(context.window()), list(elements)


def _span(window: Any) -> Any:
    if isinstance(window, api.TimeWindow):
        return tuple(window)
    return window.id if isinstance(window, api.CountWindow) else None


def _add(left: Any, right: Any) -> Any:
    return (left[0], left[1] + right[1])


def _total(values: list[Any]) -> Any:
    return (values[0][0] if values else None, sum(number for _, number in values), len(values))


AGGREGATES = (Count("rows"), Sum("n"), Min("n"), Max("n"), Avg("n"))


def _built_in(key: Any, span: Any, numbers: list[int]) -> Any:
    bounds = span if isinstance(span, tuple) else ()
    if not numbers:
        return (key, *bounds, 0, None, None, None, None)
    total = sum(numbers)
    return (key, *bounds, len(numbers), total, min(numbers), max(numbers), total / len(numbers))


FUNCTIONS = {
    "list": (
        lambda: (ListContents(), Listed()),
        lambda key, span, values: [(key, span, tuple(number for _, number in values))],
    ),
    "reduce": (
        lambda: (ReduceContents(_add), None),
        lambda key, span, values: [(key, sum(number for _, number in values))] if values else [],
    ),
    "aggregate": (
        lambda: (AggregateContents(Summed()), None),
        lambda key, span, values: [_total(values)],
    ),
    "built-in aggregates": (
        lambda: (AggregateContents(RowAggregate(AGGREGATES)), RowResults(("k",), AGGREGATES)),
        lambda key, span, values: [_built_in(key, span, [number for _, number in values])],
    ),
    "aggregate, then process": (
        lambda: (AggregateContents(Summed()), Shown()),
        lambda key, span, values: [(key, span, [_total(values)])],
    ),
}


@dataclass
class Case:
    """One window operator in both worlds."""

    windows: Pair
    trigger: Pair | None
    lateness: int
    evictor: Pair | None
    function: str

    def operator(self) -> WindowOperator:
        contents, function = FUNCTIONS[self.function][0]()
        return WindowOperator(
            self.windows.real(),
            contents,
            function,
            trigger=None if self.trigger is None else self.trigger.real(),
            allowed_lateness_ms=self.lateness,
            late_tag="late",
            evictor=None if self.evictor is None else self.evictor.real(),
        )

    def model(self) -> model.Model:
        trigger = default_trigger(self.windows.model) if self.trigger is None else self.trigger.model
        evict = None if self.evictor is None else self.evictor.model
        return model.Model(self.windows.model, trigger, self.lateness, evict, FUNCTIONS[self.function][1])


@st.composite
def cases(draw: Any, windows: Any = WINDOWS, triggers: Any = TRIGGERS, function: str | None = None) -> Case:
    chosen = draw(windows)
    trigger = draw(triggers)
    if trigger is not None and chosen.model.merges and not trigger.merges:
        trigger = None
    lateness = draw(st.sampled_from([0, 0, 1, 7, 30]))
    evictor = draw(st.one_of(st.none(), st.none(), evictors()))
    function = draw(st.sampled_from(sorted(FUNCTIONS))) if function is None else function
    return Case(chosen, trigger, lateness, evictor, function)


@st.composite
def overlapping(draw: Any) -> Case:
    """Overlapping windows with aggregates, which share panes."""
    size, slide = draw(st.integers(3, 12)), draw(st.integers(1, 3))
    slide = min(slide, size - 1)
    offset = draw(st.integers(1 - slide, slide - 1))
    windows = Pair(lambda: api.SlidingEventTimeWindows(size, slide, offset), model.Fixed(size, slide, offset))
    function = draw(st.sampled_from(["aggregate", "aggregate, then process", "built-in aggregates"]))
    return Case(windows, None, draw(st.sampled_from([0, 0, 2, 7, 30])), None, function)


@st.composite
def short(draw: Any) -> Pair:
    """Windows that end, and have late elements, within a few steps."""
    size = draw(st.integers(3, 10))
    return draw(
        st.sampled_from(
            [
                Pair(lambda: api.TumblingEventTimeWindows(size, 0), model.Fixed(size, size, 0)),
                Pair(lambda: api.EventTimeSessionWindows(size), model.Session(size)),
            ]
        )
    )
