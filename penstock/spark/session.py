"""The way to a Spark session, with its obstacles in one sentence each.

On a machine that nobody named a job gets the slots that it asks for, as from Flink's local cluster, and so do
other jobs beside it: a slot is a process, and processes may be more than cores.  Spark cannot add slots
later, so there are plenty from the start.  Everything that Spark counts by cores otherwise goes on to be
counted so.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession, is_remote

from penstock.core import interrupts, options
from penstock.core.config import GIVEN_MASTER as MASTER
from penstock.core.config import Configuration
from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import ClusterError
from penstock.core.news import news
from penstock.graph.nodes import Node
from penstock.spark.failures import gist, root_cause
from penstock.spark.given import given_settings, is_submitted
from penstock.spark.jvm import forget, kill, launched, quieten
from penstock.spark.masters import is_here, is_in_driver
from penstock.spark.told import told

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
        "(--master, or penstock.spark.master), or use local[*] for this machine alone",
        code=Code.NO_SPARK,
    )


@contextmanager
def in_one_sentence(master: str) -> Iterator[None]:
    """Why there is no session, if none comes of the block: without the JVM's stack."""
    try:
        yield
    except Exception as error:
        raise ClusterError(
            f"Spark could not be started with master {master!r}: {gist(root_cause(str(error)))}. If the "
            "address is right, the messages of Spark above say more",
            code=Code.NO_SPARK,
        ) from None


def is_connect(given: object = None) -> bool:
    """Whether the program uses Spark Connect; ``given``: a session or frame that it hands over."""
    theirs = type(given).__module__.startswith("pyspark.sql.connect.")
    return theirs or is_remote() or ("SPARK_REMOTE" in os.environ and SparkSession.getActiveSession() is None)


def refuse_connect(given: object = None) -> None:
    """Refuse sessions of Spark Connect, and their frames: they do not tell what the engine asks its Spark.

    A barrier stage runs through them, and its tasks could call this process.
    """
    if is_connect(given):
        raise ClusterError(
            "the program uses Spark Connect (SPARK_REMOTE, or a session made by .remote()), which does not "
            "tell its clients what a job has to know: how many slots there are, what Python executors run, "
            "whether Spark is still there. Run it with a classic session on the same cluster: leave these "
            "out and give the master itself (SparkSession.builder.master(...), --master or spark-submit)",
            code=Code.SPARK_CONNECT,
        )


CORES = "spark.penstock.cores"
"""In the settings of such a session: how many cores there are."""
_PARALLELISM = "spark.default.parallelism"
_LEAST = 16
_SPARE = 2
"""How many times the slots that cores, or the first job, would need."""


def asked_slots(nodes: Sequence[Node], parallelism: int | None) -> int:
    """How many slots a program asks for by itself; 0 if it leaves that open."""
    return max((node.parallelism or parallelism or 0 for node in nodes), default=0)


def with_room(settings: Mapping[str, str], cores: int, asked: int) -> dict[str, str]:
    """The settings of a session whose first job asks for so many slots."""
    slots = max(_LEAST, _SPARE * cores, _SPARE * asked)
    return {_PARALLELISM: str(cores), **settings, CORES: str(cores), MASTER: f"local[{slots}]"}


def cores_of(spark: SparkSession) -> int | None:
    """The cores of a session made with :func:`with_room`; ``None`` of any other."""
    cores = told(spark, CORES, "")
    return int(cores) if cores else None


_log = log_of(__name__)
_DEFAULT_MASTER = "local[*]"


def start_session(configuration: Configuration, asked: int = 0) -> SparkSession:
    """A quiet Spark session for a program that did not bring one, and whose job asks for so many slots."""
    wanted = configuration.get(options.PYTHON_EXECUTABLE)
    # One that is not there yet comes in an archive, or is none: whoever ships the job finds out.
    there = wanted is not None and shutil.which(wanted) is not None
    os.environ.setdefault("PYSPARK_PYTHON", wanted if there and wanted else sys.executable)
    if not is_submitted():
        _log_quietly()
    with interrupts.guarded():
        given = _given()
        settings = session_settings(configuration, given)
        master = settings[MASTER]
        is_told = told_master(configuration, given) is not None
        check_master(master)
        news.info("starting Spark %s", master)
        quieten()
        if is_here(master):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if is_submitted() or SparkContext._gateway is not None:
            return _session(settings if is_told else _with_room(settings, given, asked))
        gateway = launched(settings)
        try:
            SparkContext._ensure_initialized(gateway=gateway)
            with interrupts.breaking(lambda: kill(gateway.proc)):
                return _session(settings if is_told else _with_room(settings, given, asked))
        except BaseException:
            forget(gateway.proc)
            raise


def _log_quietly() -> None:
    """A JVM of ours logs as we like it, where nobody has put settings for it."""
    told_otherwise = any(name in os.environ for name in ("SPARK_CONF_DIR", "SPARK_HOME"))
    if not told_otherwise and not (Path(_find_spark_home()) / "conf").is_dir():
        os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "conf")


def session_settings(configuration: Configuration, given: dict[str, str]) -> dict[str, str]:
    """What the session is made with, beyond what Spark was told from outside."""
    own = {key: value for key, value in configuration.to_dict().items() if key.startswith("spark.")}
    wish = configuration.get(options.SPARK_MASTER)
    master = told_master(configuration, given) or _DEFAULT_MASTER
    if wish not in (None, master):
        _log.warning(
            "the Spark master is %s, as Spark was told (by spark-submit, its environment or "
            "spark-defaults.conf, or as spark.master); %s is for where none is given, so %s is not used",
            master,
            options.SPARK_MASTER.key,
            wish,
        )
    settings = {
        "spark.app.name": "penstock",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
        "spark.python.worker.faulthandler.enabled": "true",  # a crash in native code says where
    }
    if is_here(master):
        # Executors of other machines would look for the driver on their own loopback.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if is_in_driver(master):
        settings["spark.python.daemon.module"] = "penstock.spark.daemon"
    settings = {key: value for key, value in settings.items() if key not in given}
    return {**settings, **own, MASTER: master}


def told_master(configuration: Configuration, given: dict[str, str]) -> str | None:
    """The master that anybody has named."""
    own: str | None = configuration.to_dict().get(MASTER)
    return own or given.get(MASTER) or configuration.get(options.SPARK_MASTER)


def _with_room(settings: dict[str, str], given: dict[str, str], asked: int) -> dict[str, str]:
    """Slots for the job and for others beside it: the machine is ours."""
    cores = int(SparkContext._jvm.java.lang.Runtime.getRuntime().availableProcessors())
    roomy = with_room(settings, cores, asked)
    return {key: value for key, value in roomy.items() if key in settings or key not in given}


def submitted_master() -> str | None:
    """The master that spark-submit gives this program."""
    return _given().get(MASTER)


def _given() -> dict[str, str]:
    """Of a program that was submitted only the JVM knows: in a container of YARN there is no Spark's home."""
    if not is_submitted():
        return given_settings(os.environ, Path(_find_spark_home()))
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _session(settings: dict[str, str]) -> SparkSession:
    with in_one_sentence(settings[MASTER]):
        SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
    interrupts.renew()  # the context has put a handler of its own in the place of ours
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
