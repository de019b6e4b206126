"""What guards the connections of a job on Spark, by its settings and by where its processes are."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from penstock.core import security_options as options
from penstock.core.clock import Clock
from penstock.core.config import Configuration
from penstock.exchange.lines import Transport
from penstock.spark.certificates import from_stores, make
from penstock.spark.slots import is_one_machine
from penstock.spark.told import is_on

_log = logging.getLogger("penstock")


def transport_of(spark: SparkSession, configuration: Configuration, job: str, clock: Clock) -> Transport:
    """TLS as set; if nothing is set, wherever a peer can be on another host."""
    wanted = configuration.get(options.TLS_ENABLED)
    apart = not is_one_machine(spark)
    if wanted is False and apart:
        _log.warning(
            "the plan and all records of job %r cross the network in clear: security.ssl.internal.enabled is "
            "false; leave it out and they are enciphered between hosts",
            job,
        )
    ports = [configuration.get(option) for option in (options.CONTROL_PORT, options.DATA_PORT)]
    if wanted is False or not (wanted or apart):
        return Transport(None, False, *ports)
    if apart and not _hands_out_in_secret(spark):
        _log.warning(
            "slots get the certificate of job %r with their tasks, and Spark's own connections are open: set "
            "spark.authenticate and spark.network.crypto.enabled, or only who merely listens is kept out",
            job,
        )
    certificate = from_stores(configuration, clock) or make(job, clock)
    return Transport(certificate, bool(wanted), *ports)


def _hands_out_in_secret(spark: SparkSession) -> bool:
    """Whether nobody on the network can read or write what Spark sends to its executors."""
    enciphered = ("spark.network.crypto.enabled", "spark.authenticate.enableSaslEncryption")
    return is_on(spark, "spark.ssl.rpc.enabled") or (
        is_on(spark, "spark.authenticate") and any(is_on(spark, key) for key in enciphered)
    )
