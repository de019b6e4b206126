"""Program: what Spark's UI says of a stream and a BATCH job, what their workers log, and a look at a stream.

told.py
"""

from __future__ import annotations

import json
import logging
import urllib.request
from typing import Any

from progress import until
from pyspark.sql import SparkSession

from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource

NAME = "told <a href='/jobs/'>x</a> & s3://me:hunter2@bucket"


def noisy(number: int) -> int:
    """Logs, as functions do."""
    if number == 3:
        logging.getLogger("functions").warning("three at redis://:hunter2@h")
    return number


def environment() -> StreamExecutionEnvironment:
    """With Spark's UI, and logs in JSON."""
    config = Configuration()
    for key, value in {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "penstock.log.format": "json",
        "penstock.spark.master": "local[2]",
        "parallelism.default": "1",
    }.items():
        config.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(config)


def described(beginning: str) -> list[str]:
    """Of the Spark jobs of the session, whose description begins so: by REST, as the UI has it."""
    session = SparkSession.getActiveSession()
    assert session is not None
    context = session.sparkContext
    port = str(context.uiWebUrl).rsplit(":", 1)[1]
    address = f"http://127.0.0.1:{port}/api/v1/applications/{context.applicationId}/jobs"
    with urllib.request.urlopen(address) as answer:
        jobs: list[dict[str, Any]] = json.load(answer)
    return [text for job in jobs if (text := job.get("description", "")).startswith(beginning)]


def main() -> None:
    """See the module."""
    env = environment()
    source = DataGeneratorSource(lambda n: n)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "endless").map(noisy)
    print("taken:", stream.take(5, timeout=600))
    stream.key_by(lambda n: n % 2).reduce(max).filter(lambda n: False).print()
    client = env.execute_async(NAME)
    until(lambda: client.handle.view().rows_in, "it reads")
    (text,) = until(lambda: described("penstock: told"), "Spark knows the job")
    print("stream:", text)
    print("page:", client.handle.view().page)
    print("html:", client._repr_html_())
    client.cancel().result()

    env = environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_collection([1, 2, 3]).map(noisy).key_by(lambda n: n % 2).reduce(max).print()
    env.execute("in batch")
    print("batch:", *until(lambda: described("penstock: in batch"), "Spark knows the job"))


if __name__ == "__main__":
    main()
