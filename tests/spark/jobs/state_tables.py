"""Program: a job's snapshot as DataFrames, and a savepoint from a DataFrame that the job goes on from.

    state_tables.py MASTER WORK

Prints one line of JSON per question.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from click_job import COUNT, HOURS, click, run_until, settings, start
from progress import until
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from penstock.common import Configuration
from penstock.connectors.log import Log, Producer
from penstock.coordinator.job_directory import job_directory
from penstock.datastream import StreamExecutionEnvironment
from penstock.demo import hourly_counts
from penstock.demo.clicks import PARTITIONS, TOPIC, make_clicks
from penstock.demo.verdict import ALERTS, COUNTS, committed, true_counts
from penstock.spark.session import start_session
from penstock.state_processor import SavepointWriter, open_snapshot, register

USERS = 3000


def tell(question: str, answer: Any) -> None:
    """Print an answer for the test to read."""
    print(json.dumps({question: answer}), flush=True)


def read_all(spark: SparkSession, work: Path) -> None:
    """Count clicks, then read the checkpoint."""
    clicks = [(f"user {n % 50}", n) for n in range(1000)]
    click(work, clicks)
    results = run_until(work, start(work, settings(work)), len(clicks))
    tell("job", {user: int(total) for user, total in (line.rsplit(" ", 1) for line in results)})
    job = str(work / "checkpoints" / job_directory("click job"))
    register(spark)
    table = spark.read.format("penstock-state").option("operator", "counting")
    counts = table.option("state", "count").load(job)
    tell("types", counts.dtypes)
    tell("partitions", counts.rdd.getNumPartitions())
    tell("counts", {row.key: row.value for row in counts.collect()})
    exploded = table.option("state", "hours").load(job).select("key", f.explode("value"))
    tell("clicks by hour", exploded.groupBy().agg(f.sum("value")).first()[0])
    try:
        table.option("state", "seen").load(job).collect()
    except Exception as error:
        tell("untrusted", str(error))
    snapshot = open_snapshot(job, trusted=True)
    seen = snapshot.spark(spark, operator="counting", state="seen")
    tell("seen", seen.select(f.sum(f.size("value"))).first()[0])
    timers = snapshot.spark(spark, table="timers", operator="counting")
    tell("timers", timers.select("time").distinct().count())
    listing = spark.read.format("penstock-state").load(job)
    tell("states", [(r.operator, r.state, r.entries) for r in listing.collect() if r.operator == "counting"])
    tell("operators", [row.operator for row in snapshot.spark(spark, table="operators").collect()])
    tell("lists", snapshot.spark(spark, operator="clicks", state="_enumerator").count())


def bootstrap(spark: SparkSession, work: Path) -> None:
    """A savepoint from a DataFrame, changed once more, and the job from it."""
    rows = spark.range(USERS).select(
        f.format_string("user %d", "id").alias("key"), f.col("id").alias("value")
    )
    hours = rows.select("key", f.create_map(f.lit(7).cast("long"), "value").alias("value"))
    first = SavepointWriter.new().with_operator("counting", {COUNT: rows, HOURS: hours}, parallelism=8)
    where = first.write(str(work / "savepoint"))
    sizes = open_snapshot(where).sizes().to_pylist()
    tell("files", [len(sizes), sorted({row["subtask"] for row in sizes})])
    again = open_snapshot(where).spark(spark, operator="counting", state="count")
    tell("sum", again.agg(f.sum("value")).first()[0])
    doubled = again.select("key", (f.col("value") * 2).alias("value"))
    changed = SavepointWriter.from_existing(where).change("counting", "count", doubled)
    click(work, [("user 0", 7), ("user 2999", 7), ("new", 7)])
    client = start(work, settings(work, changed.write(str(work / "changed"))))
    tell("went on", sorted(run_until(work, client, 3)))
    after = open_snapshot(str(work / "checkpoints" / job_directory("click job")))
    tell("kept", after.read("counting", "count").num_rows)
    twice = rows.union(rows.limit(1))
    try:
        SavepointWriter.new().with_operator("counting", {"count": twice}).write(str(work / "twice"))
    except Exception as error:
        tell("twice", str(error))


def read_demo(spark: SparkSession, work: Path) -> None:
    """The demo's job: a savepoint behind all clicks, and what the job itself says at its end."""
    log = Log(work / "log")
    clicks = make_clicks(20_000, seed=5)
    for name, partitions in ((TOPIC, PARTITIONS), (COUNTS, 1), (ALERTS, 1)):
        log.create_topic(name, partitions)
    with Producer(log.topic(TOPIC)) as producer:
        producer.send_many(clicks.values.cast("binary"), timestamps=clicks.times)
    config = Configuration.from_dict({"execution.checkpointing.dir": str(work / "checkpoints")})
    env = StreamExecutionEnvironment.get_execution_environment(config).enable_checkpointing(200)
    hourly_counts.build(env.set_parallelism(2), str(work / "log"), threshold=1000)
    client = env.execute_async("hourly-counts")
    until(lambda: client._handle.facts()["records_in"] >= len(clicks.times), "all clicks are read")
    savepoint = client.trigger_savepoint(str(work / "savepoints")).result()
    client.stop_with_savepoint(True, str(work / "savepoints")).result()
    table = spark.read.format("penstock-state").option("operator", "hourly-counts").option("state", "clicks")
    rows = table.load(savepoint).select("key", f.explode("value").alias("hour", "clicks")).collect()
    tell("open hours", sorted([row.key, row.hour, row.clicks] for row in rows))
    tell(
        "output",
        sorted([row["country"], row["hour"], row["clicks"]] for row in committed(work / "log", COUNTS)),
    )
    tell("truth", sorted([*pair, clicks] for pair, clicks in true_counts(work / "log").items()))


def main(master: str, work: Path) -> None:
    """Run all."""
    spark = start_session(Configuration.from_dict({"penstock.spark.master": master}))
    read_all(spark, work / "first")
    bootstrap(spark, work / "second")
    read_demo(spark, work / "third")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
