"""Patterns in streams: complex event processing, with the names of Flink's Java library.

::

    rise = Pattern.begin("low").where(is_low).followed_by("high").where(is_high).within("1 min")
    CEP.pattern(readings.key_by(sensor), rise).select(lambda match: ...)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.elsewhere import found_in, shown_in
from penstock.operators.cep.conditions import ConditionContext, IterativeCondition, SimpleCondition
from penstock.operators.cep.functions import (
    EventComparator,
    PatternFlatSelectFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
)
from penstock.operators.cep.parts import WithinType
from penstock.operators.cep.pattern import Pattern
from penstock.operators.cep.skip import AfterMatchSkipStrategy, SkipError

if TYPE_CHECKING:
    from penstock.cep.pattern_stream import CEP, PatternStream

__all__ = [
    "CEP",
    "AfterMatchSkipStrategy",
    "ConditionContext",
    "EventComparator",
    "IterativeCondition",
    "Pattern",
    "PatternFlatSelectFunction",
    "PatternProcessFunction",
    "PatternSelectFunction",
    "PatternStream",
    "PatternTimeoutFunction",
    "SimpleCondition",
    "SkipError",
    "WithinType",
]

if not TYPE_CHECKING:  # the streams are loaded where programs are written: a slot needs only the functions
    __getattr__ = found_in(__name__, {"penstock.cep.pattern_stream": "CEP PatternStream"})

shown_in(__name__, [name for name in __all__ if name in globals()])
