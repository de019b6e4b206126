"""Random queries that Penstock and DuckDB both read: relations within relations, and expressions by type.

Each part is a pair of texts: as we write it, and as DuckDB does.  They differ where a division of integers, a
unit of time or the place of nulls in an order is written otherwise.
"""
# long because each clause is written once for each of the two engines

from __future__ import annotations

import datetime as dt
import random
import re
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

Pair = tuple[str, str]
INT, FLT, TXT, BOOL, TS, DEC, DATE = "int", "flt", "txt", "bool", "ts", "dec", "date"
_NUMBERS = (INT, FLT, DEC)
START = 1_700_000_000_000
KINDS = {
    "id": INT,
    "k": TXT,
    "n": INT,
    "m": INT,
    "x": FLT,
    "s": TXT,
    "b": BOOL,
    "d": DATE,
    "p": DEC,
    "ts": TS,
}
LITERALS = {
    INT: ["0", "1", "-1", "2", "7", "CAST(NULL AS BIGINT)"],
    FLT: ["0e0", "0.5e0", "-7.5e0", "CAST(NULL AS DOUBLE)"],
    TXT: ["''", "'a'", "'ab'", "'%'", "'ü'", "CAST(NULL AS VARCHAR)"],
    BOOL: ["TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"],
    TS: ["TIMESTAMP '2023-11-14 22:13:25'", "TIMESTAMP '1969-12-31 23:59:59'", "CAST(NULL AS TIMESTAMP)"],
    DEC: ["1.25", "0.5", "-2.00", "CAST(NULL AS DECIMAL(6, 2))"],
    DATE: ["DATE '2020-02-29'", "DATE '1970-01-01'", "CAST(NULL AS DATE)"],
}


def random_table(rng: random.Random, rows: int) -> pa.Table:
    """Keys that repeat, nulls everywhere, NaN and infinities in some, times in order."""
    ints = [None, -5, -3, -1, 0, 1, 2, 3, 7] + ([2**40, -(2**60)] if rng.random() < 0.1 else [])
    floats = [None, 0.25, -7.5, 1.5, 3.0, 0.0]
    if rng.random() < 0.5:
        floats += [float("nan"), -0.0, float("inf"), -float("inf")]
    days = [None, dt.date(2020, 2, 29), dt.date(1969, 12, 31), dt.date(1970, 1, 1)]
    prices = [None, Decimal("0.00"), Decimal("1.25"), Decimal("-3.50"), Decimal("99.99")]
    texts = [None, "", "a", "ab", "Abc", "ü%", "a_b", " pad ", "x\\y", "'q"]

    def some(pool: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([rng.choice(pool) for _ in range(rows)], kind)

    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "k": some([None, "a", "b", "c"], pa.string()),
            "n": some(ints, pa.int64()),
            "m": some([None, 0, 1, 2, -2], pa.int32()),
            "x": some(floats, pa.float64()),
            "s": some(texts, pa.string()),
            "b": some([None, True, False], pa.bool_()),
            "d": some(days, pa.date32()),
            "p": some(prices, pa.decimal128(6, 2)),
            "ts": pa.array(sorted(START + rng.randint(0, 30_000) for _ in range(rows)), pa.timestamp("ms")),
        }
    )


class Rel(NamedTuple):
    """A query, as each writes it, and the names and kinds of its columns."""

    mine: str
    theirs: str
    columns: list[tuple[str, str]]


Columns = list[tuple[str, str]]


def filled(text: str, *parts: Pair, theirs: str | None = None) -> Pair:
    """A text around parts; DuckDB's may be another."""
    other = text if theirs is None else theirs
    return text.format(*(part[0] for part in parts)), other.format(*(part[1] for part in parts))


class RandomQueries:
    """Makes queries over the tables ``t`` and ``u``."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names = 0

    def _new(self, letter: str = "c") -> str:
        self._names += 1
        return f"{letter}{self._names}"

    # --- expressions --------------------------------------------------------------------------------

    def column(self, env: Columns, kind: str) -> Pair | None:
        """A column of a kind, if there is one."""
        found = [name for name, its in env if its == kind]
        chosen = self._rng.choice(found) if found else None
        return None if chosen is None else (chosen, chosen)

    def literal(self, kind: str) -> Pair:
        """A constant."""
        chosen = self._rng.choice(LITERALS[kind])
        return chosen, chosen

    def value(self, env: Columns, kind: str, depth: int) -> Pair:
        """An expression of a kind."""
        rng = self._rng
        if depth <= 0 or rng.random() < 0.3:
            column = self.column(env, kind)
            return column if column is not None and rng.random() < 0.8 else self.literal(kind)

        def part(of: str = kind) -> Pair:
            return self.value(env, of, depth - 1)

        if rng.random() < 0.2:
            made = [
                filled("CASE WHEN {} THEN {} ELSE {} END", part(BOOL), part(), part()),
                filled("COALESCE({}, {})", part(), part()),
                filled("NULLIF({}, {})", part(), part()),
            ]
            return rng.choice(made)
        return getattr(self, f"_{kind}")(env, part)  # type: ignore[no-any-return]

    def _int(self, env: Columns, part: Any) -> Pair:
        rng, by = self._rng, self._rng.choice(["2", "3", "-2", "7"])
        unit = rng.choice(["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "QUARTER", "WEEK", "DOY"])
        length = rng.choice(["DAY", "HOUR", "MINUTE", "SECOND"])
        return rng.choice(
            [
                filled(f"({{}} {rng.choice('+-*')} {{}})", part(), part()),
                filled(f"({{}} / {by})", part(), theirs=f"({{}} // {by})"),
                filled(f"MOD({{}}, {by})", part()),
                filled("CAST(CHAR_LENGTH({}) AS BIGINT)", part(TXT), theirs="length({})"),
                filled("CAST({} AS BIGINT)", part(BOOL)),
                filled("SIGN({})", part()),
                filled(f"ROUND({{}}, {rng.randint(-3, 1)})", part()),
                filled("TRY_CAST({} AS BIGINT)", part(TXT)),
                filled(f"EXTRACT({unit} FROM {{}})", part(TS)),
                filled("CAST(POSITION({} IN {}) AS BIGINT)", part(TXT), part(TXT)),
                filled(
                    f"CAST(TIMESTAMPDIFF({length}, {{}}, {{}}) AS BIGINT)",
                    part(TS),
                    part(TS),
                    theirs=f"date_sub('{length}', {{}}, {{}})",
                ),
            ]
        )

    def _flt(self, env: Columns, part: Any) -> Pair:
        rng = self._rng
        made = [
            filled(f"({{}} {rng.choice('+-*')} {{}})", part(), part()),
            filled("CAST({} AS DOUBLE)", part(rng.choice([INT, DEC]))),
            filled("CASE WHEN {} THEN {} ELSE {} END", part(BOOL), part(rng.choice([INT, DEC])), part()),
        ]
        return rng.choice([*made, filled("(- {})", part()), filled("FLOOR({})", part())])

    def _txt(self, env: Columns, part: Any) -> Pair:
        rng = self._rng
        return rng.choice(
            [
                filled("({} || {})", part(), part()),
                filled(f"{rng.choice(['UPPER', 'LOWER', 'TRIM', 'REVERSE'])}({{}})", part()),
                filled(f"SUBSTRING({{}}, {rng.randint(1, 3)}, {rng.randint(0, 3)})", part()),
                filled("CAST({} AS VARCHAR)", part(INT)),
                filled("REPLACE({}, 'a', {})", part(), part()),
                filled(f"{rng.choice(['LEFT', 'RIGHT', 'REPEAT'])}({{}}, {rng.randint(0, 2)})", part()),
                filled(f"LPAD({{}}, {rng.randint(0, 5)}, 'xy')", part()),
            ]
        )

    def _bool(self, env: Columns, part: Any) -> Pair:
        rng, no = self._rng, self._rng.choice(["", "NOT "])
        kind = rng.choice([INT, INT, FLT, TXT, TS, BOOL, DEC, DATE])
        other = rng.choice(_NUMBERS) if kind in _NUMBERS and rng.random() < 0.3 else kind
        like = rng.choice(["%", "a%", "_", "%b", "", "%a%", "ü!%", "a!_b", "!!"])
        among = [self.literal(rng.choice([kind, other])) for _ in range(3)]
        sign = rng.choice(["=", "<>", "<", "<=", ">", ">="])
        return rng.choice(
            [
                filled(f"({{}} {rng.choice(['AND', 'OR'])} {{}})", part(), part()),
                filled("(NOT {})", part()),
                filled(f"({{}} IS {no}NULL)", part(kind)),
                filled(f"({{}} IS {no}DISTINCT FROM {{}})", part(kind), part(kind)),
                filled(f"({{}} {no}IN ({{}}, {{}}, {{}}))", part(kind), *among),
                filled(f"({{}} {no}BETWEEN {{}} AND {{}})", part(kind), part(other), part(kind)),
                filled(f"({{}} {no}LIKE '{like}' ESCAPE '!')", part(TXT)),
                filled(f"({{}} IS {no}{rng.choice(['TRUE', 'FALSE'])})", part()),
                filled(f"({{}} {sign} {{}})", part(kind), part(other)),
            ]
        )

    def _ts(self, env: Columns, part: Any) -> Pair:
        rng = self._rng
        length = f"INTERVAL '{rng.randint(0, 30)}' {rng.choice(['SECOND', 'HOUR', 'DAY'])}"
        unit = rng.choice(["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE"])
        floor = f"CAST(date_trunc('{unit}', {{}}) AS TIMESTAMP)"
        made = [
            filled(f"({{}} {rng.choice('+-')} {length})", part()),
            filled("CAST({} AS TIMESTAMP)", part(DATE)),
        ]
        return rng.choice([*made, filled(f"FLOOR({{}} TO {unit})", part(), theirs=floor)])

    def _dec(self, env: Columns, part: Any) -> Pair:
        column = self.column(env, DEC) or self.literal(DEC)
        sign = self._rng.choice("+-*")
        both = filled(f"CAST(({{}} {sign} {{}}) AS DECIMAL(12, 4))", column, self.literal(DEC))
        rounded = filled(f"CAST(ROUND({{}}, {self._rng.randint(-2, 3)}) AS DECIMAL(12, 4))", column)
        return self._rng.choice([both, rounded, filled("ABS({})", column), filled("(- {})", column)])

    def _date(self, env: Columns, part: Any) -> Pair:
        return filled("CAST({} AS DATE)", part(TS))

    # --- relations ----------------------------------------------------------------------------------

    def query(self, depth: int) -> Rel:
        """A query, of others within it."""
        if depth <= 0:
            name = self._rng.choice("tu")
            return Rel(name, name, list(KINDS.items()))
        made = [self._select, self._group, self._group, self._join, self._join, self._union]
        return self._rng.choice([*made, self._distinct, self._rank, self._window])(self.query(depth - 1))

    def _from(self, rel: Rel) -> tuple[Pair, Columns]:
        name = self._new("q")
        texts = tuple(it if " " not in it else f"({it})" for it in rel[:2])
        return (f"{texts[0]} AS {name}", f"{texts[1]} AS {name}"), [
            (f"{name}.{it}", k) for it, k in rel.columns
        ]

    def _where(self, env: Columns) -> Pair:
        parts = [] if self._rng.random() < 0.45 else [self.value(env, BOOL, 2)]
        if self._rng.random() < 0.25:
            parts.append(self._member(env))
        return filled(f" WHERE {' AND '.join(['{}'] * len(parts))}", *parts) if parts else ("", "")

    def _member(self, env: Columns) -> Pair:
        """Whether a value is one of a query's."""
        rng = self._rng
        name, kind = rng.choice(env)
        value = (name, name) if rng.random() < 0.7 else self.value(env, kind, 1)
        source, more = self._from(self.query(rng.choice([0, 0, 1])))
        kinds = [kind, rng.choice(_NUMBERS) if kind in _NUMBERS else kind]
        found = [it for it, its in more if its in kinds] if self._has_column(value[0]) else []
        if not found:
            return filled("({} IS NOT NULL)", value)
        inner = self._where(more) if rng.random() < 0.3 else ("", "")
        return filled(f"{{}} IN (SELECT {rng.choice(found)} FROM {{}}{{}})", value, source, inner)

    @staticmethod
    def _has_column(value: str) -> bool:
        """Whether a value is of the row, and no constant: rows meet others by a column."""
        return re.search(r"\bq[0-9]+\.", value) is not None

    def _chosen(self, env: Columns, most: int) -> tuple[str, Columns]:
        """Some columns under new names."""
        some = self._rng.sample(env, min(len(env), self._rng.randint(1, most)))
        named = [(self._new(), kind) for _, kind in some]
        return ", ".join(f"{of} AS {name}" for (of, _), (name, _) in zip(some, named, strict=True)), named

    def _select(self, inner: Rel) -> Rel:
        source, env = self._from(inner)
        kinds = [self._rng.choice([INT, INT, FLT, TXT, BOOL, TS, DATE]) for _ in range(3)]
        return self._listed([self.value(env, kind, 2) for kind in kinds], kinds, source, self._where(env))

    def _listed(self, values: list[Pair], kinds: list[str], source: Pair, behind: Pair) -> Rel:
        named = [(self._new(), kind) for kind in kinds]
        texts = []
        for at in (0, 1):
            listed = ", ".join(f"{it[at]} AS {name}" for it, (name, _) in zip(values, named, strict=True))
            texts.append(f"SELECT {listed} FROM {source[at]}{behind[at]}")
        return Rel(texts[0], texts[1], named)

    def _aggregate(self, env: Columns) -> tuple[Pair, str]:
        rng = self._rng
        kind = rng.choice([INT, FLT, TXT, TS, DATE, BOOL, DEC])
        counts = ["COUNT(*)", "COUNT({})", "COUNT(DISTINCT {})"]
        what = rng.choice([*counts, "MIN({})", "MAX({})", "SUM({})", "AVG({})", "SUM(DISTINCT {})"])
        if what[:3] in ("SUM", "AVG"):
            kind = FLT if what[:3] == "AVG" else rng.choice([INT, FLT, DEC])
        made = filled(what, *([self.value(env, kind, 1)] if "{" in what else []))
        if rng.random() < 0.3:
            made = filled("{} FILTER (WHERE {})", made, self.value(env, BOOL, 1))
        if what[:3] == "SUM" and kind == INT:
            made = made[0], f"CAST({made[1]} AS BIGINT)"
        if kind == DEC and not what.startswith("COUNT"):
            made = filled("CAST({} AS DECIMAL(12, 4))", made)
        return made, INT if what.startswith("COUNT") else kind

    def _group(self, inner: Rel) -> Rel:
        source, env = self._from(inner)
        where, rng = self._where(env), self._rng
        keys = rng.sample(env, min(len(env), rng.choice([0, 1, 1, 2])))
        found = [self._aggregate(env) for _ in range(rng.randint(1, 4))]
        by, having = "", "COUNT(*) > 0"  # without rows there is no group; DuckDB shows one of none
        values = [(name, name) for name, _ in keys]
        if keys:
            listed = ", ".join(name for name, _ in keys)
            if rng.random() < 0.3:
                listed = ", ".join(str(at + 1) for at in range(len(keys)))
                values = [self.value(env, kind, 1) for _, kind in keys]
            by, having = f" GROUP BY {listed}", rng.choice(["TRUE", "COUNT(*) > 1"])
        behind = f"{where[0]}{by} HAVING {having}", f"{where[1]}{by} HAVING {having}"
        values += [made for made, _ in found]
        return self._listed(values, [k for _, k in keys] + [k for _, k in found], source, behind)

    def _window(self, _: Rel) -> Rel:
        """Groups in windows of a table: what these are made of has event time."""
        rng, table = self._rng, self._rng.choice("tu")
        env, seconds = list(KINDS.items()), rng.choice([1, 2, 10])
        where = self._where(env) if rng.random() < 0.3 else ("", "")
        if "(SELECT" in where[0]:
            where = ("", "")  # rows that met others have no event time
        keys = rng.sample(env, rng.choice([0, 1, 1, 2]))
        found = [self._aggregate(env) for _ in range(rng.randint(1, 3))]
        windows = f"TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '{seconds}' SECOND))"
        bucket = f"time_bucket(INTERVAL '{seconds} seconds', ts, TIMESTAMP '1970-01-01')"
        listed = "".join(f"{name}, " for name, _ in keys)
        values = [(name, name) for name, _ in keys] + [("window_start", bucket)] + [made for made, _ in found]
        kinds = [kind for _, kind in keys] + [TS] + [kind for _, kind in found]
        by = (
            f"{where[0]} GROUP BY {listed}window_start, window_end",
            f"{where[1]} GROUP BY {listed}{bucket}",
        )
        return self._listed(values, kinds, (windows, table), by)

    def _join(self, left: Rel) -> Rel:
        rng = self._rng
        source, env = self._from(left)
        for _ in range(rng.choice([1, 1, 2])):
            other, more = self._from(self.query(rng.choice([0, 0, 1])))
            pairs = [(a, b) for a, kind in env for b, its in more if kind == its and kind not in (DEC, TS)]
            if not pairs:
                break
            how = rng.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            on = [filled(" = ".join(rng.choice(pairs))) for _ in range(rng.choice([1, 1, 2]))]
            also = {"JOIN": env + more, "LEFT JOIN": more, "RIGHT JOIN": env}.get(how)
            if also is not None and rng.random() < 0.4:
                on.append(self.value(also, BOOL, 1))
            source = filled(f"{{}} {how} {{}} ON {' AND '.join(['{}'] * len(on))}", source, other, *on)
            env = env + more
        where = self._where(env)
        listed, named = self._chosen(env, 5)
        return Rel(
            f"SELECT {listed} FROM {source[0]}{where[0]}",
            f"SELECT {listed} FROM {source[1]}{where[1]}",
            named,
        )

    def _union(self, left: Rel) -> Rel:
        kinds = [self._rng.choice([INT, FLT, TXT, BOOL, TS]) for _ in range(2)]
        others = [INT if kind == FLT and self._rng.random() < 0.5 else kind for kind in kinds]
        sides = []
        for rel, its in ((left, kinds), (self.query(0), others)):
            source, env = self._from(rel)
            sides.append(self._listed([self.value(env, kind, 0) for kind in its], its, source, ("", "")))
        sign = self._rng.choice(["UNION ALL", "UNION ALL", "UNION"])
        return Rel(
            f"{sides[0][0]} {sign} {sides[1][0]}", f"{sides[0][1]} {sign} {sides[1][1]}", sides[0].columns
        )

    def _distinct(self, inner: Rel) -> Rel:
        source, env = self._from(inner)
        where = self._where(env)
        listed, named = self._chosen(env, 3)
        texts = [f"SELECT DISTINCT {listed} FROM {source[at]}{where[at]}" for at in (0, 1)]
        return Rel(texts[0], texts[1], named)

    def _rank(self, inner: Rel) -> Rel:
        """The first rows of each key; ordered by all other columns, so that equal ranks are equal rows."""
        rng = self._rng
        source, env = self._from(inner)
        where, names = self._where(env), [name for name, _ in env]
        rng.shuffle(names)
        by = names[: rng.choice([0, 1])]
        rest = names[len(by) :] or names
        signs = [
            (name, rng.choice(["", " DESC"]), rng.choice(["", " NULLS FIRST", " NULLS LAST"]))
            for name in rest
        ]
        orders = (
            ", ".join(f"{name}{down}{nulls}" for name, down, nulls in signs),
            ", ".join(
                f"{it}{down}{nulls or (' NULLS LAST' if down else ' NULLS FIRST')}"
                for it, down, nulls in signs
            ),
        )
        partition = f"PARTITION BY {by[0]} " if by else ""
        named = [(self._new(), kind) for _, kind in env]
        listed = ", ".join(f"{of} AS {name}" for (of, _), (name, _) in zip(env, named, strict=True))
        rank, within, most = self._new("rn"), self._new("q"), rng.randint(1, 3)
        first = rng.randint(1, most)
        wanted = rng.choice([f"{rank} <= {most}", f"{rank} BETWEEN {first} AND {most}", f"{rank} = {most}"])
        shown = ", ".join([name for name, _ in named] + [rank])
        texts = [
            f"SELECT {shown} FROM (SELECT {listed}, ROW_NUMBER() OVER "
            f"({partition}ORDER BY {orders[at]}) AS {rank} FROM {source[at]}{where[at]}) AS {within} "
            f"WHERE {wanted}"
            for at in (0, 1)
        ]
        return Rel(texts[0], texts[1], [*named, (rank, INT)])
