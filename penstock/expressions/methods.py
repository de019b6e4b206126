"""The functions of an expression by PyFlink's names: a property where nothing is to say, else a method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.expressions.aggregates import AggregateCall, distinct_values
from penstock.expressions.nodes import Node

if TYPE_CHECKING:
    from penstock.expressions.face import Expression

Operand = Any
"""An expression, or a Python value that stands for a constant."""


class ExpressionMethods:
    """What :class:`~penstock.expressions.face.Expression` has beside its operators."""

    __slots__ = ()
    node: Node

    def _call(self, function: str, *others: Operand) -> Expression:
        raise NotImplementedError

    def _of(self, node: Node) -> Expression:
        raise NotImplementedError

    # --- aggregates: they mean something in agg only -------------------------------------------------

    @property
    def sum(self) -> Expression:
        """In agg: the sum of its values, null if there are none."""
        return self._of(AggregateCall("sum", self.node))

    @property
    def count(self) -> Expression:
        """In agg: how many of its values are not null."""
        return self._of(AggregateCall("count", self.node))

    @property
    def min(self) -> Expression:
        """In agg: the smallest of its values."""
        return self._of(AggregateCall("min", self.node))

    @property
    def max(self) -> Expression:
        """In agg: the largest of its values."""
        return self._of(AggregateCall("max", self.node))

    @property
    def avg(self) -> Expression:
        """In agg: the mean of its values, a double."""
        return self._of(AggregateCall("avg", self.node))

    @property
    def distinct(self) -> Expression:
        """In agg, of an aggregate: each value once, as in ``col("user").count.distinct``."""
        return self._of(distinct_values(self.node))

    # --- of one value -------------------------------------------------------------------------------

    @property
    def abs(self) -> Expression:
        """Without its sign."""
        return self._call("abs")

    @property
    def sign(self) -> Expression:
        """-1, 0 or 1."""
        return self._call("sign")

    @property
    def sqrt(self) -> Expression:
        """The square root, a double."""
        return self._call("sqrt")

    @property
    def exp(self) -> Expression:
        """E to the power of it."""
        return self._call("exp")

    @property
    def ln(self) -> Expression:
        """The natural logarithm."""
        return self._call("ln")

    @property
    def log10(self) -> Expression:
        """The logarithm to the base 10."""
        return self._call("log10")

    @property
    def upper_case(self) -> Expression:
        """In capital letters."""
        return self._call("upper")

    @property
    def lower_case(self) -> Expression:
        """In small letters."""
        return self._call("lower")

    @property
    def char_length(self) -> Expression:
        """The number of characters."""
        return self._call("char_length")

    @property
    def init_cap(self) -> Expression:
        """Each word with a capital letter."""
        return self._call("initcap")

    @property
    def cardinality(self) -> Expression:
        """The number of elements of a list or entries of a map."""
        return self._call("cardinality")

    @property
    def is_true(self) -> Expression:
        """True, and not unknown."""
        return self._call("is_true")

    @property
    def is_false(self) -> Expression:
        """False, and not unknown."""
        return self._call("is_false")

    @property
    def is_not_true(self) -> Expression:
        """False or unknown."""
        return self._call("is_not_true")

    @property
    def is_not_false(self) -> Expression:
        """True or unknown."""
        return self._call("is_not_false")

    @property
    def to_date(self) -> Expression:
        """The date that a text says or a timestamp falls on."""
        return self._call("to_date")

    def round(self, digits: Operand = 0) -> Expression:
        """To so many digits behind the point, halves away from zero."""
        return self._call("round", digits)

    def power(self, exponent: Operand) -> Expression:
        """To a power, a double."""
        return self._call("power", exponent)

    def trim(self, characters: Operand = None) -> Expression:
        """Without blanks, or the given characters, at both ends."""
        return self._call("trim") if characters is None else self._call("trim", characters)

    def ltrim(self, characters: Operand = None) -> Expression:
        """Without blanks, or the given characters, at the beginning."""
        return self._call("ltrim") if characters is None else self._call("ltrim", characters)

    def rtrim(self, characters: Operand = None) -> Expression:
        """Without blanks, or the given characters, at the end."""
        return self._call("rtrim") if characters is None else self._call("rtrim", characters)

    def lpad(self, length: Operand, pad: Operand = " ") -> Expression:
        """Filled from the left to a length."""
        return self._call("lpad", length, pad)

    def rpad(self, length: Operand, pad: Operand = " ") -> Expression:
        """Filled from the right to a length."""
        return self._call("rpad", length, pad)

    def replace(self, old: Operand, new: Operand) -> Expression:
        """Each occurrence of a text becomes another."""
        return self._call("replace", old, new)

    def starts_with(self, text: Operand) -> Expression:
        """Whether it begins with a text."""
        return self._call("starts_with", text)

    def ends_with(self, text: Operand) -> Expression:
        """Whether it ends with a text."""
        return self._call("ends_with", text)

    def split_index(self, separator: Operand, index: Operand) -> Expression:
        """The part at an index, from zero, between separators."""
        return self._call("split_index", separator, index)

    def regexp(self, pattern: str) -> Expression:
        """Whether some part matches a regular expression."""
        return self._call("regexp", pattern)

    def regexp_extract(self, pattern: str, group: int = 0) -> Expression:
        """What a group of a regular expression matched first."""
        return self._call("regexp_extract", pattern, group)

    def regexp_replace(self, pattern: str, new: str) -> Expression:
        """Each match becomes another text."""
        return self._call("regexp_replace", pattern, new)

    def json_value(self, path: str) -> Expression:
        """The scalar at a path of a JSON text."""
        return self._call("json_value", path)

    def json_query(self, path: str) -> Expression:
        """The object or list at a path of a JSON text."""
        return self._call("json_query", path)

    def to_timestamp(self, pattern: str | None = None) -> Expression:
        """The time that a text says."""
        return self._call("to_timestamp") if pattern is None else self._call("to_timestamp", pattern)

    def date_format(self, pattern: str) -> Expression:
        """A time as a text, by a pattern such as ``yyyy-MM-dd``."""
        return self._call("date_format", pattern)

    def is_distinct_from(self, other: Operand) -> Expression:
        """Not equal, and null equals null."""
        return self._call("is_distinct_from", other)

    def null_if(self, other: Operand) -> Expression:
        """Null where it equals the other."""
        return self._call("nullif", other)

    def array_contains(self, element: Operand) -> Expression:
        """Whether a list has an element."""
        return self._call("array_contains", element)
