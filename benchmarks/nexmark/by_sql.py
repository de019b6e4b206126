"""The queries as SQL text on Penstock."""

from __future__ import annotations

import pyarrow as pa

import penstock.dataframe as pf
from benchmarks.nexmark.frames import Tables, count_char
from benchmarks.nexmark.queries import TABLES
from benchmarks.nexmark.tables import side_input
from benchmarks.nexmark.truth import sql
from penstock.dataframe import DataFrame, udf
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.sql import session_of


def sql_frame(env: Env, query: str, tables: Tables) -> DataFrame:
    """The query's text, over the same tables."""
    session = session_of(env)
    for kind in TABLES[query]:
        session.register(kind, tables(kind), time="dateTime")
    session.register("side_input", pf.from_arrow(side_input(), env=env))
    counted = udf(count_char, result_type=pa.int64(), func_type="arrow", name="count_char")
    session.register_function("count_char", counted)
    *views, text = sql(query).split(";\n")
    for view in views:
        session.sql(view)
    return session.sql(text)
