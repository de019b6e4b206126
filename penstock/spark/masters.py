"""The way to a Spark session, with its obstacles in one sentence each."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession, is_remote

from penstock.core.errors import ClusterError
from penstock.spark.failures import gist, root_cause

_REACH_S = 5.0
_PORT = 7077


def check_master(master: str) -> None:
    """Refuse a standalone master that nobody answers at: Spark would try for a minute and die of it."""
    if not master.startswith("spark://"):
        return
    problems = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":") if ":" in address else (address, "", str(_PORT))
        try:
            with socket.create_connection((host, int(port)), _REACH_S):
                return
        except (OSError, ValueError) as error:
            problems.append(f"{address}: {getattr(error, 'strerror', None) or error}")
    raise ClusterError(
        f"no Spark master answers at {master} ({'; '.join(problems)}). Start it, correct the address "
        "(--master, or penstock.spark.master), or use local[*] for this machine alone"
    )


@contextmanager
def in_one_sentence(master: str) -> Iterator[None]:
    """Why there is no session, if none comes of the block: without the JVM's stack."""
    try:
        yield
    except Exception as error:
        raise ClusterError(
            f"Spark could not be started with master {master!r}: {gist(root_cause(str(error)))}. If the "
            "address is right, the messages of Spark above say more"
        ) from None


def refuse_connect() -> None:
    """Refuse sessions of Spark Connect: they have no way to start a gang, nor to be called by one."""
    if is_remote() or ("SPARK_REMOTE" in os.environ and SparkSession.getActiveSession() is None):
        raise ClusterError(
            "the program uses Spark Connect (SPARK_REMOTE, or a session made by .remote()), through which a "
            "job's slots can neither be started nor reach the driver. Run it with a classic session: "
            "leave these out and give the master itself (SparkSession.builder.master(...), --master or "
            "spark-submit)"
        )
