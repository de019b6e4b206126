"""``DataFrame.join``: which join it is, by what it is asked for.

``between`` makes it an interval join; two frames of windowed results, joined on their windows, make it a
window join; both give rows that never change.  Everything else is a join whose rows may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.durations import to_millis
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.dataframe import changing
from penstock.dataframe.join_sides import On, Sides, checked_kind, key_pairs
from penstock.dataframe.regular_join import regular_join
from penstock.dataframe.timed_joins import interval_join, window_join
from penstock.dataframe.window_bounds import by_window
from penstock.dataframe.windows import Size
from penstock.operators.join.interval import Interval

if TYPE_CHECKING:
    from penstock.dataframe.frame import DataFrame


def join(
    left: DataFrame,
    right: DataFrame,
    on: On,
    how: str = "inner",
    between: tuple[Size, Size] | None = None,
    ttl: Size | None = None,
    suffix: str = "_right",
) -> DataFrame:
    """See ``DataFrame.join``."""
    checked_kind(how)
    if between is not None:
        changing.only_appends(left, "a join with between=")
        changing.only_appends(right, "a join with between=")
        if ttl is not None:
            raise ConfigError("a join with between= forgets rows by itself; leave ttl= out")
        sides = Sides(left, right, key_pairs(left, right, on), suffix)
        return interval_join(sides, how, interval_of(between))
    if _on_windows(left, right, on):
        sides = Sides(left, right, key_pairs(left, right, on), suffix)
        return window_join(sides, how)
    return _regular(left, right, on, how, ttl, suffix)


def _on_windows(left: DataFrame, right: DataFrame, on: On) -> bool:
    pairs = key_pairs(left, right, on)
    if not (by_window(left, (pair[0] for pair in pairs)) and by_window(right, (pair[1] for pair in pairs))):
        return False
    assert left._bounds is not None and right._bounds is not None
    return all(pair in pairs for pair in zip(left._bounds, right._bounds, strict=True))


def _regular(left: DataFrame, right: DataFrame, on: On, how: str, ttl: Size | None, suffix: str) -> DataFrame:
    """The right side gets the names that its columns have behind the join."""
    pairs = key_pairs(left, right, on)
    keys = {other: mine for mine, other in pairs}
    named = {
        name: keys.get(name) or (f"{name}{suffix}" if name in left.columns else name)
        for name in right.columns
    }
    doubled = {name for name in named.values() if [*named.values()].count(name) > 1}
    if doubled:
        raise ConfigError(
            f"the join would have two columns {min(doubled)!r}; rename one, or give another suffix=",
            code=Code.COLUMN_TWICE,
        )
    changed = {name: shown for name, shown in named.items() if name != shown}
    renamed = right.rename(changed) if changed else right
    return regular_join(left, renamed, [mine for mine, _ in pairs], how, ttl)


def interval_of(between: Any) -> Interval:
    """How far apart two rows may be, both ends included."""
    if not (isinstance(between, tuple | list) and len(between) == 2):
        raise ConfigError(f"between takes two lengths of time, as in ('-5 s', '1 min'), not {between!r}")
    return Interval(*map(_signed, between))


def _signed(length: Any) -> int:
    text = length.strip() if isinstance(length, str) else ""
    return -to_millis(text[1:]) if text.startswith("-") else to_millis(length)
