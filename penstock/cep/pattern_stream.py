"""``CEP.pattern`` and ``PatternStream``: a pattern meets a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from penstock.datastream import DataStream, KeyedStream, OutputTag
from penstock.operators.cep.functions import (
    EventComparator,
    PatternProcessFunction,
    Select,
    SelectWithTimeout,
)
from penstock.operators.cep.operator import PatternOperator
from penstock.operators.cep.pattern import Pattern


class CEP:
    """Where patterns meet streams."""

    @staticmethod
    def pattern(
        input_stream: DataStream, pattern: Pattern, comparator: EventComparator | None = None
    ) -> PatternStream:
        """Look for ``pattern`` in a stream: per key if it is keyed, else in the whole, on one subtask.

        ``comparator`` orders events of equal event time, which else keep the order of their arrival.
        """
        return PatternStream(input_stream, pattern, comparator)


@dataclass(frozen=True, slots=True)
class PatternStream:
    """The matches of a pattern. By event time unless :meth:`in_processing_time` was called."""

    stream: DataStream
    pattern: Pattern
    comparator: EventComparator | None = None
    event_time: bool = True
    late_tag: str | None = None

    def in_event_time(self) -> PatternStream:
        """Order events by their timestamps, up to the watermark. The default."""
        return replace(self, event_time=True)

    def in_processing_time(self) -> PatternStream:
        """Take events as they come; ``within`` is by the clock."""
        return replace(self, event_time=False)

    def side_output_late_data(self, late_data_output_tag: OutputTag) -> PatternStream:
        """Where events go that come after the watermark has passed them; else they are dropped."""
        return replace(self, late_tag=late_data_output_tag.tag_id)

    def select(
        self,
        pattern_select_function: Any,
        output_type: Any = None,
        *,
        timed_out_partial_matches_tag: OutputTag | None = None,
        pattern_timeout_function: Any = None,
    ) -> DataStream:
        """One result per match, from a function of the match.

        With a tag and a function of the partial match and its end, also one per partial match that timed
        out, to that side output.
        """
        function = _select(
            pattern_select_function, False, timed_out_partial_matches_tag, pattern_timeout_function
        )
        return self.process(function, output_type)

    def flat_select(
        self,
        pattern_flat_select_function: Any,
        output_type: Any = None,
        *,
        timed_out_partial_matches_tag: OutputTag | None = None,
        pattern_timeout_function: Any = None,
    ) -> DataStream:
        """Any number of results per match; for the rest see :meth:`select`."""
        function = _select(
            pattern_flat_select_function, True, timed_out_partial_matches_tag, pattern_timeout_function
        )
        return self.process(function, output_type)

    def process(
        self, pattern_process_function: PatternProcessFunction, output_type: Any = None
    ) -> DataStream:
        """A function with a context, for matches and if it likes for timed-out partial ones."""
        keyed = isinstance(self.stream, KeyedStream)
        factory = partial(
            PatternOperator,
            self.pattern,
            pattern_process_function,
            event_time=self.event_time,
            comparator=self.comparator,
            late_tag=self.late_tag,
            keyed=keyed,
        )
        factory()
        properties: dict[str, Any] = {} if keyed else {"parallelism": 1, "max_parallelism": 1}
        return self.stream._add(
            "Pattern", factory, keyed=keyed, stateful=True, output_type=output_type, **properties
        )


def _select(function: Any, flat: bool, tag: OutputTag | None, timeout: Any) -> Select:
    if tag is None and timeout is None:
        return Select(function, flat)
    return SelectWithTimeout(function, flat, tag, timeout)  # type: ignore[arg-type]
