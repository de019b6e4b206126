"""Expressions of SQL become expressions over columns; what has no counterpart is refused at its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from penstock.expressions.face import Expression, call, coalesce, lit, when
from penstock.sql.errors import Text, known_function
from penstock.sql.functions import AGGREGATES, ELSEWHERE, FUNCTIONS, UNITS
from penstock.sql.relations import Relation, field_of
from penstock.sql.types import FIXED_TEXTS, TEXTS, arrow_type, interval

PythonFunction = Callable[..., Expression]
Replace = Callable[[exp.Expr], Expression | None]

_INFIX: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "divide",
    exp.Mod: "modulo",
    exp.EQ: "equal",
    exp.NEQ: "not_equal",
    exp.LT: "less",
    exp.LTE: "less_equal",
    exp.GT: "greater",
    exp.GTE: "greater_equal",
    exp.And: "and",
    exp.Or: "or",
    exp.DPipe: "concat",
    exp.NullSafeNEQ: "is_distinct_from",
}
_SUBQUERIES = (
    "a query within an expression is there as a condition of WHERE by itself, x IN (SELECT y FROM t); "
    "else join with it instead, or write the values: x IN (1, 2)"
)


def is_unit(node: exp.Expr) -> bool:
    """Whether it is the ``DAY`` of ``TIMESTAMPDIFF(DAY, a, b)``, which the parser takes for a column."""
    function = node.parent
    if not isinstance(function, exp.Anonymous) or function.name.upper() != "TIMESTAMPDIFF":
        return False
    named = isinstance(node, exp.Column | exp.Var) and node.name.upper().removesuffix("S") in UNITS
    return named and function.expressions[0] is node


class Expressions:
    """Makes the expressions of one place of a statement: over the columns of a relation.

    ``replace`` is asked first for every part: behind GROUP BY it knows keys and aggregates.
    """

    def __init__(
        self,
        relation: Relation,
        text: Text,
        functions: Mapping[str, PythonFunction],
        replace: Replace | None = None,
    ) -> None:
        self.relation = relation
        self.text = text
        self._functions = functions
        self._replace = replace

    def make(self, node: exp.Expr) -> Expression:
        """The expression for a part of the statement."""
        if self._replace is not None:
            found = self._replace(node)
            if found is not None:
                return found
        maker = _MAKERS.get(type(node))
        sign = _INFIX.get(type(node))
        if maker is not None or sign is not None:
            self.text.only(node, _PARTS.get(type(node), ()))
        if maker is not None:
            return maker(self, node)
        if sign is not None:
            return call(sign, self.make(node.this), self.make(node.expression))
        raise self._unknown(node)

    def _unknown(self, node: exp.Expr) -> Exception:
        if isinstance(node, exp.Subquery | exp.Exists | exp.Select):
            return self.text.refuse(node, _SUBQUERIES)
        if isinstance(node, exp.Window):
            return self.text.refuse(
                node, f"{node.sql()} can stand in the list of SELECT only, not within an expression"
            )
        shown = node.sql_names()[0] if isinstance(node, exp.Func) else node.sql()
        if shown in ELSEWHERE:
            return self.text.refuse(node, f"{shown}: {ELSEWHERE[shown]}")
        return self.text.refuse(node, f"{shown} is not there{known_function(shown, FUNCTIONS)}")

    # --- the parts ----------------------------------------------------------------------------------

    def column(self, node: exp.Column) -> Expression:
        """A column, or a field within one."""
        if isinstance(node.this, exp.Star):
            raise self.text.refuse(node, "* stands alone in the list of SELECT, or in COUNT(*)")
        field, within = self.relation.resolve(node, self.text)
        if field.column is None:
            raise self.text.refuse(
                node,
                f"{field.name} is the time of the clock, and no value: it can be cut into windows or "
                "looked up "
                "FOR SYSTEM_TIME AS OF it",
            )
        return field_of(field, within)

    def literal(self, node: exp.Literal) -> Expression:
        """A number or a text; a number with a point is a decimal, with an exponent a double."""
        return lit(node.this) if node.is_string else self._number(node, node.this)

    def _number(self, node: exp.Expr, written: str) -> Expression:
        if "e" in written.lower():
            return lit(float(written))
        if "." in written:
            return lit(Decimal(written))
        number = int(written)
        if not -(2**63) <= number < 2**63:
            raise self.text.refuse(node, f"{number} is larger than a BIGINT; write it with a point")
        return lit(number)

    def cast(self, node: exp.Cast) -> Expression:
        """CAST and TRY_CAST, and constants such as ``DATE '2026-01-31'``."""
        kind = arrow_type(node.to, self.text)
        value = self.make(node.this)
        found = value.try_cast(kind) if isinstance(node, exp.TryCast) else value.cast(kind)
        return self._cut(node.to, found)

    def _cut(self, kind: exp.DataType, value: Expression) -> Expression:
        """``CHAR(3)`` and ``VARCHAR(3)``: what is longer is cut off, and a CHAR that is shorter is filled."""
        if not kind.expressions or kind.this not in (*FIXED_TEXTS, *TEXTS):
            return value
        length = lit(int(kind.expressions[0].name))
        cut = call("substring", value, lit(1), length)
        return call("rpad", cut, length, lit(" ")) if kind.this in FIXED_TEXTS else cut

    def case(self, node: exp.Case) -> Expression:
        """Both forms of CASE."""
        compared = node.this
        branches: Any = None
        for branch in node.args["ifs"]:
            tested = branch.this
            condition = (
                self.make(tested)
                if compared is None
                else call("equal", self.make(compared), self.make(tested))
            )
            value = self.make(branch.args["true"])
            branches = when(condition, value) if branches is None else branches.when(condition, value)
        default = node.args.get("default")
        found: Expression = branches.end() if default is None else branches.otherwise(self.make(default))
        return found

    def is_(self, node: exp.Is) -> Expression:
        """IS NULL, IS TRUE, IS DISTINCT FROM and their opposites."""
        value, what = self.make(node.this), node.expression
        negated = isinstance(what, exp.Not)
        what = what.this if negated else what
        if isinstance(what, exp.Null):
            return value.is_not_null if negated else value.is_null
        if isinstance(what, exp.Boolean):
            name = "is_true" if what.this else "is_false"
            return call(name.replace("is_", "is_not_") if negated else name, value)
        raise self.text.refuse(node, f"{node.sql()}: IS is followed by NULL, TRUE, FALSE or DISTINCT FROM")

    def among(self, node: exp.In) -> Expression:
        """``x IN (1, 2)``."""
        if node.args.get("query") is not None or node.args.get("unnest") is not None:
            raise self.text.refuse(node, _SUBQUERIES)
        return call("in", self.make(node.this), *map(self.make, node.expressions))

    def between(self, node: exp.Between) -> Expression:
        """Both ends belong to it."""
        return self.make(node.this).between(self.make(node.args["low"]), self.make(node.args["high"]))

    def like(self, node: exp.Like, *escape: Expression) -> Expression:
        """``a LIKE b`` and ``a NOT LIKE b``."""
        found = call("like", self.make(node.this), self.make(node.expression), *escape)
        return call("not", found) if node.args.get("negate") else found

    def escaped(self, node: exp.Escape) -> Expression:
        """``a LIKE b ESCAPE c``."""
        if not isinstance(node.this, exp.Like):
            raise self.text.refuse(node, "ESCAPE belongs to LIKE")
        return self.like(node.this, self.make(node.expression))

    def bracket(self, node: exp.Bracket) -> Expression:
        """``list[1]`` and ``map['key']``."""
        return call("element_at", self.make(node.this), self.make(node.expressions[0]))

    def dot(self, node: exp.Dot) -> Expression:
        """A field of a struct that is not a plain column."""
        return call("field", self.make(node.this), node.expression.name)

    # --- functions ----------------------------------------------------------------------------------

    def function(self, node: exp.Anonymous) -> Expression:
        """A function by its name: the program's own first."""
        name = node.name
        own = self._functions.get(name) or self._functions.get(name.lower())
        if own is not None:
            return self._own(node, own)
        upper = name.upper()
        if upper in ELSEWHERE:
            raise self.text.refuse(node, f"{upper}: {ELSEWHERE[upper]}")
        if upper in AGGREGATES:
            raise self.text.refuse(
                node, f"{upper} is an aggregate: it belongs into the list of SELECT or into HAVING"
            )
        maker = FUNCTIONS.get(upper)
        if maker is None:
            known = {**FUNCTIONS, **dict.fromkeys(self._functions)}
            raise self.text.refuse(node, f"there is no function {upper}{known_function(upper, known)}")
        arguments = [self._argument(part) for part in node.expressions]
        try:
            return maker(*arguments)
        except TypeError:
            raise self.text.refuse(node, f"{upper} does not take {len(arguments)} arguments") from None

    def _own(self, node: exp.Anonymous, function: PythonFunction) -> Expression:
        arguments = [self.make(part) for part in node.expressions]
        with self.text.at(node):
            found = function(*arguments)
        if not isinstance(found, Expression):
            raise self.text.refuse(node, f"{node.name} is made by udf(function, result_type=...), and is not")
        return found

    def _argument(self, node: exp.Expr) -> Expression:
        if is_unit(node):
            return lit(UNITS[node.name.upper().removesuffix("S")])
        return self.make(node)

    def extract(self, node: exp.Extract) -> Expression:
        """``EXTRACT(HOUR FROM t)``."""
        return call("extract", self._unit(node.this), self.make(node.expression))

    def rounded(self, node: exp.Floor | exp.Ceil) -> Expression:
        """FLOOR and CEIL, of numbers and ``FLOOR(t TO HOUR)``."""
        name = "floor" if isinstance(node, exp.Floor) else "ceil"
        unit = node.args.get("to")
        if unit is None:
            return call(name, self.make(node.this))
        return call(f"{name}_time", self._unit(unit), self.make(node.this))

    def _unit(self, node: exp.Expr) -> str:
        name = node.name.upper().removesuffix("S")
        if name not in UNITS:
            raise self.text.refuse(node, f"there is no unit {node.name}{known_function(name, UNITS)}")
        return UNITS[name]

    def position(self, node: exp.StrPosition) -> Expression:
        """``POSITION(a IN b)``."""
        return call("position", self.make(node.args["substr"]), self.make(node.this))

    def substring(self, node: exp.Substring) -> Expression:
        """Also ``SUBSTRING(a FROM 2 FOR 3)``."""
        given = [node.args.get("start"), node.args.get("length")]
        return call("substring", self.make(node.this), *(self.make(it) for it in given if it is not None))

    def trim(self, node: exp.Trim) -> Expression:
        """Also ``TRIM(LEADING 'x' FROM a)``."""
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
        characters = node.args.get("expression")
        more = [] if characters is None else [self.make(characters)]
        return call(name, self.make(node.this), *more)

    def negative(self, node: exp.Neg) -> Expression:
        """A number with its sign is a constant, also the smallest."""
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return self._number(node, f"-{node.this.this}")
        return call("negate", self.make(node.this))


_MAKERS: dict[type[exp.Expr], Callable[[Expressions, Any], Expression]] = {
    exp.Column: Expressions.column,
    exp.Literal: Expressions.literal,
    exp.Null: lambda self, node: lit(None, pa.null()),
    exp.Boolean: lambda self, node: lit(bool(node.this)),
    exp.Paren: lambda self, node: self.make(node.this),
    exp.Not: lambda self, node: call("not", self.make(node.this)),
    exp.Neg: Expressions.negative,
    exp.Cast: Expressions.cast,
    exp.TryCast: Expressions.cast,
    exp.Case: Expressions.case,
    exp.Is: Expressions.is_,
    exp.In: Expressions.among,
    exp.Between: Expressions.between,
    exp.Like: Expressions.like,
    exp.Escape: Expressions.escaped,
    exp.Bracket: Expressions.bracket,
    exp.Dot: Expressions.dot,
    exp.Interval: lambda self, node: lit(interval(node, self.text)),
    exp.Anonymous: Expressions.function,
    exp.Extract: Expressions.extract,
    exp.Floor: Expressions.rounded,
    exp.Ceil: Expressions.rounded,
    exp.StrPosition: Expressions.position,
    exp.Substring: Expressions.substring,
    exp.Trim: Expressions.trim,
    exp.Array: lambda self, node: call("array", *map(self.make, node.expressions)),
    exp.NullSafeEQ: lambda self, node: (
        ~call("is_distinct_from", self.make(node.this), self.make(node.expression))
    ),
    exp.Coalesce: lambda self, node: coalesce(self.make(node.this), *map(self.make, node.expressions)),
}

_PARTS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Column: ("table", "db", "catalog"),
    exp.Literal: ("is_string",),
    exp.Cast: ("to",),
    exp.TryCast: ("to", "safe", "requires_string"),
    exp.Case: ("ifs", "default"),
    exp.In: ("query", "unnest"),
    exp.Between: ("low", "high"),
    exp.Like: ("negate",),
    exp.Bracket: ("bracket_notation",),
    exp.Interval: ("unit", "fraction_in_string"),
    exp.Floor: ("to",),
    exp.Ceil: ("to",),
    exp.StrPosition: ("substr",),
    exp.Substring: ("start", "length"),
    exp.Trim: ("position",),
    exp.Array: ("bracket_notation",),
    exp.Div: ("typed", "safe"),
    exp.DPipe: ("safe",),
}
"""What is read of each, beside its operands."""
