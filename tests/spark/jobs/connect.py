"""Program: a session of Spark Connect, with a server of its own.

    connect.py

Prints what a barrier stage through it does, and how each way into Penstock answers.
"""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.core.errors import ClusterError
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.state_processor import SavepointWriter, register


def call_back(spark: SparkSession) -> int:
    """How many tasks of one barrier stage have reached this process."""
    called: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def listen() -> None:
            called.extend(server.accept()[0] for _ in range(2))

        listener = threading.Thread(target=listen)
        listener.start()

        def call(batches: Iterator[Any]) -> Iterator[Any]:
            from pyspark import BarrierTaskContext

            BarrierTaskContext.get().barrier()
            with socket.create_connection(("127.0.0.1", port)):
                yield from batches

        spark.range(2, numPartitions=2).mapInArrow(call, "id long", barrier=True).collect()
        listener.join()
    return len(called)


def job(env: StreamExecutionEnvironment, _: SparkSession) -> None:
    env.from_collection([1]).print()
    env.execute("job")


def batch(env: StreamExecutionEnvironment, spark: SparkSession) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    job(env, spark)


def frame_in(env: StreamExecutionEnvironment, spark: SparkSession) -> None:
    env.from_dataframe(spark.range(3))


def frame_out(env: StreamExecutionEnvironment, spark: SparkSession) -> None:
    env.from_collection([1]).to_dataframe(spark)


def epochs(env: StreamExecutionEnvironment, _: SparkSession) -> None:
    env.from_collection([1]).for_each_epoch(lambda rows, epoch: None)


def state_in(_: StreamExecutionEnvironment, spark: SparkSession) -> None:
    SavepointWriter.new().with_operator("counts", {"count": spark.range(3).toDF("key")})


def state_changed(_: StreamExecutionEnvironment, spark: SparkSession) -> None:
    rows = pa.table({"key": [1], "value": [1]})
    there = SavepointWriter.new().with_operator("counts", {"count": rows}).write(tempfile.mkdtemp())
    SavepointWriter.from_existing(there).change("counts", "count", spark.range(3).toDF("key"))


def state_out(_: StreamExecutionEnvironment, spark: SparkSession) -> None:
    register(spark)


def main() -> None:
    """Try them."""
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    print(f"called back: {call_back(spark)}", flush=True)
    ways: list[Callable[[StreamExecutionEnvironment, SparkSession], None]] = [
        *(job, batch, frame_in, frame_out, epochs, state_in, state_changed, state_out)
    ]
    for way in ways:
        try:
            way(StreamExecutionEnvironment.get_execution_environment(), spark)
        except ClusterError as error:
            print(f"{way.__name__}: {error}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
