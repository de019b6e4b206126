"""Spark's JVM: with no secret on its command line, quiet, and gone when this process is.

PySpark writes all settings on the command line of the JVM, where every user of the machine can read them.
Those whose names say that they are secret are left out here; the session gets them, with all others, when
the JVM runs.

The JVM is in a process group of its own, so that Ctrl-C in a terminal is this process's alone, and it ends
with this process, however that ends: it reads its standard input, which closes then.  What would keep it
alive is an interrupt while it starts: PySpark removes the directory where the JVM is to write its port, the
JVM's main thread fails on that and never gets to read, while other threads of it go on.  So it is started on
a thread that no interrupt reaches.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from penstock.core.discreet import is_secret

NOISE = "^WARNING: Using incubator modules: "
"""Lines of the JVM that are not shown: Spark asks for these modules, nobody else has to know."""
_LEAVING_S = 60.0
"""How long the JVM may take to end by itself."""


def quieten() -> None:
    """py4j tells of every connection that it closes; not if nobody has asked it to."""
    logger = logging.getLogger("py4j")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)


def launched(settings: Mapping[str, str]) -> Any:
    """The gateway of a new JVM, which ends with this process at the latest."""
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        if not is_secret(key):
            conf.set(key, value)
    found: list[Any] = []

    def launch() -> None:
        try:
            with _without_noise() as places:
                found.append(launch_gateway(conf, {"process_group": 0, **places}))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=launch, daemon=True, name="penstock-gateway")
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    atexit.register(_leave, found[0].proc)
    return found[0]


def kill(process: subprocess.Popen[bytes]) -> None:
    """End it now."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def forget(process: subprocess.Popen[bytes]) -> None:
    """A session that did not come to be leaves nothing that the next one would stumble over."""
    kill(process)
    process.wait()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _leave(process: subprocess.Popen[bytes]) -> None:
    """The JVM sees the end of its input and tidies up; nothing of it is there when this process is gone."""
    try:
        context = SparkContext._active_spark_context
        if context is not None and process.poll() is None:
            with contextlib.suppress(Exception):
                context.stop()  # else its threads here complain that the JVM is gone
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        process.wait(_LEAVING_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        kill(process)
        process.wait()


@contextmanager
def _without_noise() -> Iterator[dict[str, int]]:
    """A place for what the JVM says, on its way to standard error.

    A process of its own, for the JVM and its workers may speak when this one has long ended; in a session of
    its own, for an interrupt must not end it before them.
    """
    grep = shutil.which("grep")
    if grep is None:
        yield {}
        return
    reading, writing = os.pipe()
    try:
        subprocess.Popen(
            [grep, "-a", "-v", "--line-buffered", NOISE],
            stdin=reading,
            stdout=2,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        yield {"stderr": writing}
    finally:
        os.close(reading)
        os.close(writing)
