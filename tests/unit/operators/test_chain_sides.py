"""A record that goes to the main output and to a side output: neither sees what the other makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from process_harness import batch, opened

from penstock.core.batch import Batch
from penstock.operators.chain import FanOut
from penstock.operators.functions import ProcessFunction
from penstock.operators.output_tag import OutputTag, emit_results
from penstock.operators.process import ProcessOperator

TAG = OutputTag("side")


class Both(ProcessFunction):
    def __init__(self, side_first: bool) -> None:
        self.side_first = side_first

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for n in range(300):
            record = [value, n]
            main_and_side = [record, (TAG, record)]
            yield from reversed(main_and_side) if self.side_first else main_and_side


class Changing:
    """A step that changes what it gets."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[Any] = []

    def emit(self, records: Batch) -> None:
        for row in records.to_rows():
            row.append(self.name)
        self.seen += records.to_rows()


@pytest.mark.parametrize("side_first", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 255, 8192])
def test_one_record_to_both_in_any_order_and_in_any_pieces(rows: int, side_first: bool) -> None:
    main, side = Changing("main"), Changing("side")
    operator, _, _ = opened(ProcessOperator(Both(side_first)))
    fan: Any = FanOut([(None, main), ("side", side)])  # type: ignore[list-item]
    operator.ctx.out = fan
    operator._outflow._emit = partial(emit_results, fan)
    operator._outflow.rows = rows
    operator.process(batch(["a", "b"]))
    for step in (main, side):
        assert step.seen == [[value, n, step.name] for value in "ab" for n in range(300)]
