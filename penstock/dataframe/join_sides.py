"""The two sides of a join before and behind it: keys that meet, names that do not clash, nulls that never do.

Inside a join columns are called by their place (``k0``, ``l0``, ``r0``), so whatever they are called outside,
nothing clashes.  A null equals nothing: rows with one in a key go around the join, or away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types as kinds

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.expressions.face import Expression, col
from penstock.expressions.nodes import Cast, Column, Literal, Node
from penstock.expressions.types import NoCommonType, common_type, plain

if TYPE_CHECKING:
    from penstock.dataframe.frame import DataFrame

On = str | Sequence[str | tuple[str, str]] | Mapping[str, str]
"""Columns that must be equal: names, pairs of names, or a mapping of left to right names."""
Pair = tuple[str, str]
KINDS = ("inner", "left", "right", "full", "semi", "anti")


def key_pairs(left: DataFrame, right: DataFrame, on: On) -> list[Pair]:
    """The names of the key columns, left and right."""
    if isinstance(on, str):
        on = [on]
    named: Any = on.items() if isinstance(on, Mapping) else on
    pairs: list[Pair] = []
    for one in named:
        pair = (one, one) if isinstance(one, str) else one
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(it, str) for it in pair)):
            raise ConfigError(
                f"join is on names, pairs of names or a mapping {{'left': 'right'}}, not on {one!r}; "
                "a condition goes into .filter(...) behind the join"
            )
        left[pair[0]]
        right[pair[1]]
        pairs.append(pair)
    if not pairs:
        raise ConfigError("a join needs at least one column that must be equal, as in on='id'")
    for names in zip(*pairs, strict=True):
        if len(set(names)) < len(names):
            raise ConfigError(f"a join names a column twice in on={on!r}")
    return pairs


def checked_kind(how: str) -> str:
    """The kind of a join, if there is such a kind."""
    if how not in KINDS:
        raise ConfigError(f"how={how!r} is no kind of join; there are {', '.join(KINDS)}")
    return how


def _met_as(left: pa.DataType, right: pa.DataType, pair: Pair) -> pa.DataType:
    try:
        return common_type(plain(left), plain(right))
    except NoCommonType as error:
        raise ConfigError(f"column {pair[0]!r} cannot equal column {pair[1]!r}: {error}") from error


def _hashed_as(kind: pa.DataType) -> pa.DataType:
    """The type in which keys travel: moments as numbers, which are hashed all at once."""
    if kinds.is_timestamp(kind) or kinds.is_date64(kind) or kinds.is_duration(kind):
        return pa.int64()
    return pa.int32() if kinds.is_date32(kind) else kind


def _cast(name: str, given: pa.DataType, *wanted: pa.DataType) -> Node:
    node: Node = Column(name)
    for kind in wanted:
        if not given.equals(kind):
            node, given = Cast(node, kind), kind
    return node


@dataclass(frozen=True)
class Sides:
    """Both sides of a join: what goes in on each, and what comes out."""

    left: DataFrame
    right: DataFrame
    pairs: list[Pair]
    suffix: str = "_right"

    @property
    def keys(self) -> list[str]:
        """The key columns inside."""
        return [f"k{n}" for n in range(len(self.pairs))]

    def _kinds(self) -> list[pa.DataType]:
        return [
            _met_as(self.left.schema.field(mine).type, self.right.schema.field(other).type, (mine, other))
            for mine, other in self.pairs
        ]

    def named(self, side: int, only_keys: bool = False) -> dict[str, Node]:
        """The columns of one side by the names they have inside."""
        named = self._key_nodes(side)
        if not only_keys:
            named |= {inside: Column(name) for inside, name in self._values(side).items()}
        return named

    def prepared(self, side: int, only_keys: bool = False) -> DataFrame:
        """One side with the names it has inside, without rows that have a null in a key."""
        frame = (self.left, self.right)[side]
        return self._without_nulls(frame, side)._calc("Join Side", None, self.named(side, only_keys))

    def _key_nodes(self, side: int) -> dict[str, Node]:
        schema = (self.left, self.right)[side].schema
        return {
            key: _cast(pair[side], plain(schema.field(pair[side]).type), kind, _hashed_as(kind))
            for key, kind, pair in zip(self.keys, self._kinds(), self.pairs, strict=True)
        }

    def schema_inside(self, *schemas: pa.Schema) -> pa.Schema:
        """The columns that the joined rows have inside: the keys, then the others of these sides."""
        fields = [schemas[0].field(key) for key in self.keys]
        for schema in schemas:
            fields += [field for field in schema if field.name not in self.keys]
        return pa.schema([(field.name, field.type) for field in fields])  # all of them may be null

    def results(self, both: bool = True) -> dict[str, Node]:
        """The columns of the result, made of those inside: the left ones, then the right ones."""
        kept, kinds_met = dict(zip((pair[0] for pair in self.pairs), self.keys, strict=True)), self._kinds()
        named: dict[str, Node] = {}
        inside = {name: key for key, name in self._values(0).items()}
        for name in self.left.columns:
            if name in kept:
                kind = kinds_met[self.keys.index(kept[name])]
                named[name] = _cast(kept[name], _hashed_as(kind), kind)
            else:
                named[name] = Column(inside[name])
        for key, name in self._values(1).items() if both else ():
            shown = f"{name}{self.suffix}" if name in self.left.columns else name
            if shown in named:
                raise ConfigError(
                    f"the join would have two columns {shown!r}; rename one, or give another suffix=",
                    code=Code.COLUMN_TWICE,
                )
            named[shown] = Column(key)
        return named

    def alone(self, side: int) -> DataFrame | None:
        """The rows of a side with a null in a key, which meet nobody, as the join shows lonely rows."""
        frame = (self.left, self.right)[side]
        condition = self._has_null(frame, side)
        if condition is None:
            return None
        named = self._key_nodes(side)
        for which in (0, 1):
            other = (self.left, self.right)[which]
            for inside, name in self._values(which).items():
                kind = other.schema.field(name).type
                named[inside] = Column(name) if which == side else Literal(None, kind)
        return frame.filter(condition)._calc("Without Key", None, named)

    def _values(self, side: int) -> dict[str, str]:
        """The columns that are no keys: names inside, names outside."""
        keys = {pair[side] for pair in self.pairs}
        names = [name for name in (self.left, self.right)[side].columns if name not in keys]
        return {f"{'lr'[side]}{n}": name for n, name in enumerate(names)}

    def _has_null(self, frame: DataFrame, side: int) -> Expression | None:
        found: Expression | None = None
        for pair in self.pairs:
            if frame.schema.field(pair[side]).nullable:
                one = col(pair[side]).is_null
                found = one if found is None else found | one
        return found

    def _without_nulls(self, frame: DataFrame, side: int) -> DataFrame:
        has_null = self._has_null(frame, side)
        return frame if has_null is None else frame.filter(~has_null)
