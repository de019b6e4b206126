"""Patterns in streams: complex event processing, with the names of Flink's Java library.

::

    rise = Pattern.begin("low").where(is_low).followed_by("high").where(is_high).within("1 min")
    CEP.pattern(readings.key_by(sensor), rise).select(lambda match: ...)
"""

from penstock.cep.pattern_stream import CEP, PatternStream
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
