"""Program: DataFrames whose rows change, on Spark, as a stream and in BATCH mode.

changing_frames.py MASTER
"""

from __future__ import annotations

import sys
from typing import Any

import penstock.dataframe as pf
from penstock.core.config import Configuration
from penstock.dataframe import DataFrame, col
from penstock.dataframe.regular_join import regular_join
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.spark.session import start_session


def frames(env: Any) -> dict[str, DataFrame]:
    """What is asked, of 10,000 numbers."""
    rows = pf.range(0, 10_000, env=env).select((col("id") % 7).alias("k"), col("id").alias("v"))
    best = rows.group_by("k").agg(col("v").max.alias("most"), pf.count().alias("n"))
    names = pf.from_dict({"k": [1, 2, 9], "name": ["one", "two", "nine"]}, env=env)
    joined = regular_join(best, names, "k", "full")
    top = rows.top_n(2, col("v").desc(), "k", rank="place").select("k", "v", col("place").alias("n"))
    first = rows.drop_duplicates("k").select((col("k") * 0).alias("k"), (col("v") * 0).alias("v"))
    return {
        "join": joined,
        "top": top.union(first.group_by("k", "v").agg(pf.count().alias("n"))),
    }


def main(master: str) -> None:
    """Run them both ways; a line each."""
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", master)
    start_session(configuration)
    for mode in (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH):
        for name in frames(None):
            env = StreamExecutionEnvironment.get_execution_environment(configuration)
            env.set_runtime_mode(mode)
            env.set_parallelism(2)
            rows = sorted((tuple(row.values()) for row in frames(env)[name].to_pylist()), key=repr)
            print(f"{mode.name} {name}: {rows}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
