"""Operators of one task, linked so that each calls the next directly.

A chain is in general a tree: an operator's main output and each of its side outputs may feed several
chained operators and several exchanges.  Each of them has records of its own (design note 020).

Some operators have something pending between two calls, such as requests to another system.  The results of a
step that declares a type are brought to it on their way out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from penstock.core.batch import Batch
from penstock.core.conversion import Convert, converter
from penstock.core.copying import copied_batch
from penstock.core.ids import EventTime
from penstock.core.typeinfo import TypeInformation
from penstock.operators.operator import Operator, Output

OnFailure = Callable[[Exception, Operator], Exception]
"""Turns an exception raised in an operator into the one to raise."""


class OperatorInput:
    """An operator seen as the output of the one before it. Failures get the operator's name here.

    What comes in while the operator is suspended waits for it, in order.  That is little: whoever is before
    it finds the outputs full as well, and is suspended next.
    """

    __slots__ = ("_on_failure", "_waiting", "fan", "operator", "records_in")

    def __init__(self, operator: Operator, on_failure: OnFailure) -> None:
        self.operator = operator
        self.fan: FanOut | None = None
        """Where what it emits goes, if it was linked to something."""
        self.records_in = 0
        """Records that it was given."""
        self._on_failure = on_failure
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    @property
    def is_suspended(self) -> bool:
        """Whether the operator has work left over."""
        return self.operator.suspended is not None or bool(self._waiting)

    def keep(self, batch: Batch) -> None:
        """Have records wait for the operator as if it were suspended: they come before all others."""
        self._waiting.append((self.operator.process, (batch, 0)))

    def resume(self) -> None:
        """Go on with the work left over, until it is done or the outputs are full."""
        operator, waiting = self.operator, self._waiting
        try:
            operator.resume()
            while waiting and operator.suspended is None and not operator.ctx.blocked():
                call, arguments = waiting.popleft()
                call(*arguments)
        except Exception as error:
            raise self._on_failure(error, operator) from None

    def drop(self) -> None:
        """Forget the work left over."""
        self.operator.suspended = None
        self._waiting.clear()

    def waiting_bytes(self) -> int:
        """The records that wait for the operator."""
        return sum(arg.nbytes() for _, args in self._waiting for arg in args if isinstance(arg, Batch))

    def emit(self, batch: Batch) -> None:
        """Give records to the operator."""
        self.process(batch, 0)

    def process(self, batch: Batch, input_index: int) -> None:
        """Give records of one input to the operator."""
        self.records_in += len(batch)
        operator = self.operator
        if operator.suspended is not None or self._waiting:
            self._waiting.append((operator.process, (batch, input_index)))
            return
        try:
            operator.process(batch, input_index)
        except Exception as error:
            raise self._on_failure(error, operator) from None

    def side(self, tag: str, batch: Batch) -> None:
        """An operator has no side input."""
        raise AssertionError("side outputs are linked by tag")

    def watermark(self, time: EventTime) -> None:
        """Tell the operator that event time advanced."""
        if self.is_suspended:
            self._waiting.append((self.operator.on_watermark, (time,)))
            return
        try:
            self.operator.on_watermark(time)
        except Exception as error:
            raise self._on_failure(error, self.operator) from None

    def idle(self, is_idle: bool) -> None:
        """Tell the operator that its input went idle or active."""
        if self.is_suspended:
            self._waiting.append((self.operator.on_idle, (is_idle,)))
        else:
            self.operator.on_idle(is_idle)

    def run(self, action: Callable[[], None]) -> None:
        """Call one of the operator's other methods with the same treatment of failures."""
        try:
            action()
        except Exception as error:
            raise self._on_failure(error, self.operator) from None


class FanOut:
    """The output of an operator: all its consumers.

    With ``copies``, no two of them get the same record if it can change.  The main output's last consumer
    gets what the operator emitted, all others copies.  If there are side outputs, everybody gets copies: an
    operator may emit a record there as well as to the main output, and first to the one or to the other, in
    one piece or in two.  ``fixed``: those of the main output cannot change.
    """

    __slots__ = ("_all", "_copies", "_main", "_shares", "_sides", "records_out")

    def __init__(
        self, consumers: Sequence[tuple[str | None, Output]], copies: bool = True, fixed: bool = False
    ) -> None:
        self.records_out = 0
        """Records that the operator emitted, each once, whether or not anybody takes it."""
        self._copies = copies
        self._main = [consumer for tag, consumer in consumers if tag is None]
        self._sides: dict[str, list[Output]] = {}
        for tag, consumer in consumers:
            if tag is not None:
                self._sides.setdefault(tag, []).append(consumer)
        self._all = [consumer for _, consumer in consumers]
        self._shares = not copies or fixed or (len(self._main) < 2 and not self._sides)

    def emit(self, batch: Batch) -> None:
        """To every consumer of the main output."""
        self.records_out += len(batch)
        main = self._main
        copy = batch if self._shares else copied_batch(batch)
        if copy is batch:
            for consumer in main:
                consumer.emit(batch)
        else:
            more = main[1:] if self._sides else main[2:]
            copies = [copy, *(copied_batch(batch) for _ in more)]
            for consumer, own in zip(main, (*copies, batch), strict=False):
                consumer.emit(own)

    def side(self, tag: str, batch: Batch) -> None:
        """To the consumers of a side output; dropped if there are none."""
        self.records_out += len(batch)
        for consumer in self._sides.get(tag, ()):
            consumer.emit(copied_batch(batch) if self._copies and len(self._all) > 1 else batch)

    def watermark(self, time: EventTime) -> None:
        """To everybody, also those of side outputs."""
        for consumer in self._all:
            consumer.watermark(time)

    def idle(self, is_idle: bool) -> None:
        """To everybody."""
        for consumer in self._all:
            consumer.idle(is_idle)


class PendingOperators:
    """Those of one chain; the other operators are not asked each time.

    An operator is one of them if its class says how much it can take, or when it is drained.
    """

    def __init__(self, operators: Iterable[OperatorInput]) -> None:
        self._inputs = [each for each in operators if _may_be_pending(each.operator)]
        self._operators = [each.operator for each in self._inputs]

    def __bool__(self) -> bool:
        return bool(self._operators)

    def __iter__(self) -> Iterator[OperatorInput]:
        return iter(self._inputs)

    def room(self, most: int) -> int:
        """How many of ``most`` records they can take now; below 1 if they can take none."""
        for operator in self._operators:
            left = operator.room()
            most = most if left is None else min(most, left)
        return most

    def are_drained(self) -> bool:
        """Whether nothing is pending any more."""
        return all(operator.is_drained() for operator in self._operators)


def _may_be_pending(operator: Operator) -> bool:
    kind = type(operator)
    return kind.is_drained is not Operator.is_drained or kind.room is not Operator.room


class TypedOutput:
    """Converts the rows of the main output and of side outputs. Columns pass as they are."""

    __slots__ = ("_main", "_out", "_sides", "idle", "watermark")

    def __init__(self, out: Output, main: Convert | None, sides: dict[str, Convert]) -> None:
        self._out = out
        self._main = main
        self._sides = sides
        self.watermark = out.watermark
        self.idle = out.idle

    def emit(self, batch: Batch) -> None:
        """Send records on, as what the step declares them to be."""
        self._out.emit(_converted(batch, self._main))

    def side(self, tag: str, batch: Batch) -> None:
        """Send records to a side output, as what its tag declares them to be."""
        self._out.side(tag, _converted(batch, self._sides.get(tag)))


def _converted(batch: Batch, convert: Convert | None) -> Batch:
    if convert is None or batch.rows is None:
        return batch
    rows = convert(batch.rows)
    if rows is batch.rows:
        return batch
    return Batch(rows=rows if isinstance(rows, list) else list(rows), times=batch.times, keys=batch.keys)


def typed_output(
    out: Output, main: TypeInformation | None, sides: Mapping[str, TypeInformation | None]
) -> Output:
    """``out`` for results of declared types; ``out`` itself if such values stay as they are."""
    convert = converter(main)
    converters = {tag: made for tag, kind in sides.items() if (made := converter(kind)) is not None}
    return out if convert is None and not converters else TypedOutput(out, convert, converters)
