"""The functions of SQL by their names, each as an expression of its arguments: the one place that says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from penstock.expressions.face import Expression, call, coalesce, if_then_else
from penstock.sql.errors import words

Make = Callable[..., Expression]

AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG")
UNITS = {
    name: name.lower()
    for name in words("YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND DOY DOW EPOCH")
}
"""Units of time; the names of SQL are those of the expressions."""

_SAME = words(
    "ABS SIGN SQRT EXP LN LOG10 LOG2 POWER ROUND GREATEST LEAST SIN COS TAN ASIN ACOS ATAN "
    "ATAN2 DEGREES RADIANS NULLIF UPPER LOWER CHAR_LENGTH LEFT RIGHT LTRIM RTRIM LPAD RPAD "
    "REPLACE REVERSE REPEAT CONCAT_WS SPLIT_INDEX INITCAP ASCII REGEXP REGEXP_EXTRACT "
    "REGEXP_REPLACE DATE_FORMAT TO_DATE TO_TIMESTAMP TO_TIMESTAMP_LTZ TIMESTAMPDIFF "
    "CARDINALITY ARRAY_CONTAINS JSON_VALUE JSON_QUERY"
)
_RENAMED = {
    "CEILING": "ceil",
    "CHARACTER_LENGTH": "char_length",
    "LENGTH": "char_length",
    "LCASE": "lower",
    "UCASE": "upper",
    "SUBSTR": "substring",
    "POW": "power",
    "MOD": "modulo",
    "STARTSWITH": "starts_with",
    "ENDSWITH": "ends_with",
    "IS_NAN": "is_nan",
    "ELEMENT_AT": "element_at",
}
_PARTS = {
    "YEAR": "year",
    "QUARTER": "quarter",
    "MONTH": "month",
    "WEEK": "week",
    "DAYOFMONTH": "day",
    "DAY": "day",
    "DAYOFYEAR": "doy",
    "DAYOFWEEK": "dow",
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
}


def _concat(first: Expression, *others: Expression) -> Expression:
    return reduce(partial(call, "concat"), others, first)


def _location(part: Expression, text: Expression) -> Expression:
    return call("position", part, text)


FUNCTIONS: dict[str, Make] = {
    **{name: partial(call, name.lower()) for name in _SAME},
    **{name: partial(call, function) for name, function in _RENAMED.items()},
    **{name: partial(call, "extract", unit) for name, unit in _PARTS.items()},
    "COALESCE": coalesce,
    "IFNULL": lambda value, other: coalesce(value, other),
    "IF": lambda condition, value, other: if_then_else(condition, value, other),
    "CONCAT": _concat,
    "INSTR": lambda text, part: _location(part, text),
    "LOCATE": _location,
    # Listed for messages; they have a syntax of their own.
    **{
        name: partial(call, name.lower())
        for name in ("CEIL", "FLOOR", "SUBSTRING", "POSITION", "TRIM", "EXTRACT")
    },
}

ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(
        words(
            "PROCTIME CURRENT_TIMESTAMP CURRENT_ROW_TIMESTAMP NOW LOCALTIMESTAMP LOCALTIME CURRENT_DATE "
            "CURRENT_TIME UNIX_TIMESTAMP"
        ),
        "the clock's time as a value would be another one after a restart. Windows of it are there: a column "
        "`p AS PROCTIME()` in CREATE TABLE or in a list of SELECT, then TUMBLE(TABLE t, DESCRIPTOR(p), ...)",
    ),
    "RAND": "results would be others after a restart; make the numbers in the source, or in a function of "
    "yours",
    "UUID": "results would be others after a restart; make it in the source, or in a function of yours",
    **dict.fromkeys(
        (
            "COLLECT",
            "LISTAGG",
            "STDDEV_POP",
            "STDDEV_SAMP",
            "VAR_POP",
            "VAR_SAMP",
            "FIRST_VALUE",
            "LAST_VALUE",
        ),
        "this aggregate is not there; there are COUNT, SUM, MIN, MAX and AVG, and ROW_NUMBER() for the "
        "first or "
        "last row of each key",
    ),
}
"""What many ask for that is not there, and the way to it."""
