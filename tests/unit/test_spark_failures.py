"""Spark's errors in one sentence; no Spark is started. The texts are what Spark 4.3 says, shortened."""

from __future__ import annotations

import sys

import pytest

from penstock.core.errors import ClusterError, GraphError
from penstock.spark.failures import WorkerDiedError, translate, wrong_python

WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 4207, in invoke_udf
    func, profiler, deserializer, serializer = read_udfs(
                                               ^^^^^^^^^^
  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1920, in read_udfs
"""
STACK = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
  File "cluster.py", line 143, in run
    raise RuntimeError(f"PENSTOCK-MISSING {error}") from None
RuntimeError: PENSTOCK-MISSING No module named 'penstock'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException
"""
NO_ARROW = WORKER + "    import pyarrow as pa\nModuleNotFoundError: No module named 'pyarrow'"
IN_A_GANG = f"""An error occurred while calling o234.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from a failed barrier \
ResultStage. Most recent failure reason: Stage failed because barrier task ResultTask(1, 0) finished \
unsuccessfully.
org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] {NO_ARROW}
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala)
"""
OTHER_VERSION = (
    WORKER
    + """    raise PySparkRuntimeError(
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different \
version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions.
Please check environment variables PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON are correctly set."""
)
NOT_THERE = """An error occurred while calling o135.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, \
most recent failure: Lost task 0.0 in stage 0.0 (TID 0) (localhost executor driver): java.io.IOException: \
Cannot run program "/opt/python": error=2, No such file or directory
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
Caused by: java.io.IOException: error=2, No such file or directory
"""
IN_THE_DAEMON = """: org.apache.spark.SparkException: Job aborted due to stage failure
Error from python worker:
  Traceback (most recent call last):
    File "/site-packages/penstock/spark/daemon.py", line 12, in <module>
      import pandas
  ModuleNotFoundError: No module named 'pandas'
org.apache.spark.SparkException: EOFException occurred while reading the port number from \
penstock.spark.daemon's stdout.
\tat org.apache.spark.errors.SparkCoreErrors$.eofExceptionWhileReadPortNumberError
"""

AT_ITS_START = """An error occurred while calling o234.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from a failed barrier \
ResultStage. Most recent failure reason: Stage failed because barrier task ResultTask(1, 0) finished \
unsuccessfully.
org.apache.spark.SparkException:
Error from python worker:
  context.c:56: warning: ignoring request
{}
PYTHONPATH was:
  /spark/python/lib/pyspark.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number from \
penstock.spark.daemon's stdout.
\tat org.apache.spark.errors.SparkCoreErrors$.eofExceptionWhileReadPortNumberError
"""


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "  Traceback (most recent call last):\n    import pandas\n  ImportError: I need:\n  numpy: none",
            "ImportError: I need: numpy: none",
        ),
        ("  Fatal Python error: no codec\n\n  Python runtime state", "Python runtime state"),
    ],
)
def test_a_python_that_ends_before_it_is_a_worker_says_why(said: str, words: str) -> None:
    error = translate(RuntimeError(AT_ITS_START.format(said)), "/opt/python")
    assert isinstance(error, ClusterError)
    assert (
        str(error) == f"the Python of the executors (/opt/python) could not be started as a worker: {words}"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "Caused by: Python worker exited unexpectedly (crashed)\n\tat org.apache",
            "a Python worker of the job died",
        ),
        (
            "An error occurred while calling o157.collectToPython.\n: org.apache.spark.SparkException: Job "
            "aborted due to stage failure: java.net.SocketException: Connection reset\n\tat org.apache",
            "a Python worker of the job died",
        ),
        (
            "An error occurred while calling o1.collect.\n: java.lang.IllegalStateException: no more\n\tat x",
            "the job's Spark job failed: no more",
        ),
        ("something nobody knows\n\tat org.apache", "the job's Spark job failed: something nobody knows"),
        (
            WORKER + "    yield oops(batch)\nValueError: bad row",
            "failed: An exception was thrown from the Python worker: ValueError: bad row",
        ),
    ],
)
def test_one_sentence_without_the_stack(text: str, words: str) -> None:
    error = translate(RuntimeError(text), "python3")
    assert isinstance(error, ClusterError)
    assert words in str(error) and "org.apache" not in str(error) and "\n" not in str(error)
    assert wrong_python(RuntimeError(text), "python3") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (STACK, "cannot import what Penstock needs (No module named 'penstock')"),
        (NO_ARROW, "lacks the package 'pyarrow'"),
        (IN_A_GANG, "lacks the package 'pyarrow'"),
        (IN_THE_DAEMON, "lacks the package 'pandas'"),
        (
            OTHER_VERSION,
            "is version 3.12 and that of the program is 3.11: Spark needs the same minor version",
        ),
        (NOT_THERE, "cannot be started (error=2, No such file or directory)"),
    ],
)
def test_a_python_of_the_executors_that_cannot_do_the_job(text: str, problem: str) -> None:
    error = wrong_python(RuntimeError(text), "/opt/python")
    assert isinstance(error, ClusterError)
    told = str(error)
    assert told.startswith(f"the Python of the executors (/opt/python) {problem}. ")
    assert "set PYSPARK_PYTHON" in told and sys.executable in told and "\n" not in told
    assert "add_python_file" not in told, "that is for modules of the user's own"
    assert str(translate(RuntimeError(text), "/opt/python")) == told


@pytest.mark.parametrize("module", ["mine", "mine.parts"])
def test_a_module_of_the_users_own_can_be_shipped(module: str) -> None:
    text = f"ModuleNotFoundError: No module named '{module}'\n\tat org.apache"
    told = str(translate(RuntimeError(text), "python3"))
    assert f"lacks the package '{module}'" in told and "env.add_python_file()" in told


CELL = (
    "An error occurred while calling o9.collectToPython.\n: org.apache.spark.SparkNumberFormatException: "
    '[CAST_INVALID_INPUT] The value \'{said}\' of the type "STRING" cannot be cast to "INT" because it is '
    "malformed.\n\tat org.apache.spark.sql.errors.QueryExecutionErrors$.invalidInputInCastToNumberError"
)


@pytest.mark.parametrize(
    "said",
    [
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "mine.CrashError: the upstream service crashed",
        "ValueError: java.net.SocketException: Connection reset",
        "ValueError: Python worker exited unexpectedly (crashed)",
        "ValueError: ExecutorLostFailure (executor 1 exited) Reason: nobody knows",
        "ValueError: the order was cancelled",
        "ValueError: it requires more slots",
        "ValueError: No module named 'numpy'",
        'ValueError: Cannot run program "python": no',
        "ValueError: java.io.EOFException",
    ],
)
def test_words_of_a_program_or_its_data_are_not_taken_for_sparks(said: str) -> None:
    """They would blame a machine for an error of the program."""
    raised = IN_A_GANG.replace("ModuleNotFoundError: No module named 'pyarrow'", said)
    for text in (raised, CELL.format(said=said.replace("'", ""))):
        error = translate(RuntimeError(text), "python3")
        assert type(error) is ClusterError
        assert str(error).startswith("the job's Spark job failed: "), error


def test_a_worker_that_crashed_behind_an_error_of_its_own_is_still_lost() -> None:
    text = WORKER + "ValueError: bad\n\tat org.apache.spark\nCaused by: java.io.EOFException\n\tat java.base"
    assert isinstance(translate(RuntimeError(text), "python3"), WorkerDiedError)


def test_our_own_errors_stay_what_they_are() -> None:
    error = GraphError("No module named 'x'")
    assert translate(error, "python3") is error


def test_what_a_slot_raised_before_it_could_register_is_told_as_it_is() -> None:
    raised = "penstock.core.errors.ClusterError: taskmanager.data.port allows port 5, and on h it is taken"
    text = IN_A_GANG.replace("ModuleNotFoundError: No module named 'pyarrow'", raised)
    found = translate(RuntimeError(text), "python3")
    assert isinstance(found, ClusterError)
    assert str(found) == "a slot could not begin: taskmanager.data.port allows port 5, and on h it is taken"
