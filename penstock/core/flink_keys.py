"""Settings of Flink that mean nothing here: a program or file that was written for Flink may hold them.

``flink_keys.txt`` has every key of Flink 2.3 and 1.20, older names included; ``scripts/FlinkKeys.java`` reads
them from Flink's jars.  Where Flink leaves the end open (names of reporters, keys of file systems), the
beginning counts.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

OPEN = (
    "$internal.",
    "azure.",
    "containerized.master.env.",
    "containerized.taskmanager.env.",
    "events.reporter.",
    "external-resource.",
    "flink.hadoop.",
    "flink.yarn.",
    "fs.",
    "gs.",
    "job.autoscaler.",
    "kubernetes.env.secretKeyRef",
    "kubernetes.internal-service.",
    "kubernetes.jobmanager.",
    "kubernetes.operator.",
    "kubernetes.rest-service.",
    "kubernetes.taskmanager.",
    "mesos.",
    "metrics.reporter.",
    "oss.",
    "presto.s3.",
    "python.job-options.",
    "python.logging.level.overrides.",
    "s3.",
    "s3a.",
    "security.delegation.token.provider.",
    "sql-client.",
    "sql-gateway.",
    "table.",
    "taskmanager.memory.managed.consumer-weights.",
    "traces.reporter.",
)
"""How keys begin whose end is up to whoever writes them."""

_PYTHON = "functions run in the Python of the slots"
_RPC = "driver and slots find each other through Spark"
_SPARK_SLOTS = "Spark gives the slots: penstock.spark.master, spark.executor.*"
_SSL = "TLS is between driver and slots: security.ssl.internal.*"

INSTEAD = {
    "classloader.": "there is no Java",
    "cluster.": _SPARK_SLOTS,
    "containerized.": "spark.executorEnv.*",
    "env.java.opts": "spark.driver.extraJavaOptions, spark.executor.extraJavaOptions",
    "execution.attached": "penstock run -d lets go of a job",
    "execution.batch.adaptive.auto-parallelism.": "parallelism.default",
    "execution.buffer-timeout.enabled": "execution.buffer-timeout.interval",
    "execution.target": "penstock.spark.master",
    "fs.": "clients of file systems read their own environment, such as AWS_ACCESS_KEY_ID",
    "heartbeat.rpc-failure-threshold": "heartbeat.timeout",
    "high-availability": "a program that is started again goes on from execution.checkpointing.dir",
    "io.tmp.dirs": "spark.local.dir",
    "jobmanager.adaptive-scheduler.resource-wait-timeout": "penstock.slots.timeout",
    "jobmanager.adaptive-scheduler.submission.resource-wait-timeout": "penstock.slots.timeout",
    "jobmanager.execution.failover-strategy": "the whole job restarts",
    "jobmanager.heap.": "spark.driver.memory",
    "jobmanager.memory.": "spark.driver.memory",
    "jobmanager.rpc.": _RPC,
    "kubernetes.": "spark.kubernetes.*",
    "parallelism.": "parallelism.default",
    "pipeline.classpaths": "there is no Java",
    "pipeline.jobvertex-parallelism-overrides": "set_parallelism() of a step, penstock rescale",
    "pipeline.time-characteristic": "the window assigner says which time is meant",
    "process.": "spark.local.dir",
    "python.": _PYTHON,
    "python.client.executable": "the program runs in the Python that it is started with",
    "python.logging.": "Python's own logging",
    "python.operator-chaining.enabled": "pipeline.operator-chaining.enabled",
    "resourcemanager.": _SPARK_SLOTS,
    "rest.": "rest.port, rest.bind-address",
    "s3.": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL in the environment",
    "security.kerberos.": "spark.kerberos.*",
    "security.ssl.": _SSL,
    "slot.": _SPARK_SLOTS,
    "slotmanager.": _SPARK_SLOTS,
    "sql-": "there are no tables",
    "state.backend.changelog.": "checkpoints are written beside the work",
    "state.backend.forst.": "rocksdb as state.backend.type",
    "state.backend.rocksdb.block.": "state.backend.rocksdb.memory.fixed-per-slot",
    "state.backend.rocksdb.memory.": "state.backend.rocksdb.memory.fixed-per-slot",
    "state.backend.rocksdb.writebuffer.": "state.backend.rocksdb.memory.fixed-per-slot",
    "state.changelog.": "checkpoints are written beside the work",
    "table.": "there are no tables",
    "taskmanager.heap.": "spark.executor.memory",
    "taskmanager.memory.": "spark.executor.memory, spark.executor.memoryOverhead",
    "taskmanager.memory.managed.": "state.backend.rocksdb.memory.fixed-per-slot",
    "taskmanager.memory.network.": "taskmanager.memory.network.max",
    "taskmanager.network.adaptive-partitioner.": "all channels are compared",
    "taskmanager.network.memory.": "taskmanager.memory.network.max",
    "taskmanager.numberOfTaskSlots": "spark.executor.cores, or local[n] as penstock.spark.master",
    "web.": "rest.port, penstock ui",
    "yarn.": "spark.yarn.*",
}
"""What does for keys that begin so, where a user would look for an effect; the longest beginning counts."""


@cache
def flink_keys() -> frozenset[str]:
    """All keys that are written out, those included that mean something here."""
    return frozenset(resources.files("penstock.core").joinpath("flink_keys.txt").read_text("utf-8").split())


def is_flinks(key: str) -> bool:
    """Whether Flink knows the key."""
    return key.startswith(OPEN) or key in flink_keys()


def instead_of(key: str) -> str | None:
    """What a user of Flink's setting ``key`` would look for here; ``None`` if there is nothing to say."""
    fitting = [beginning for beginning in INSTEAD if key.startswith(beginning)]
    return INSTEAD[max(fitting, key=len)] if fitting else None


def with_instead(key: str) -> str:
    """The key and what does for it, for a line in the log."""
    hint = instead_of(key)
    return key if hint is None else f"{key} (instead: {hint})"
