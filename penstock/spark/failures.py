"""Spark's errors in one sentence."""

from __future__ import annotations

import re
import sys

from penstock.core.errors import ClusterError, PenstockError, ProcessLostError

_REQUIREMENTS = ("penstock", "pyarrow", "numpy", "pandas", "cloudpickle", "fsspec")
_PYTHON = (
    (r"RuntimeError: PENSTOCK-MISSING (.*)", "cannot import what Penstock needs ({0})"),
    (r"No module named '([^']+)'", "lacks the package {0!r}"),
    (
        r"\[PYTHON_VERSION_MISMATCH\]\D*([\d.]+) than that in driver: (\d+\.\d+)",
        "is version {0} and that of the program is {1}: Spark needs the same minor version",
    ),
    (r'Cannot run program "[^"]+": (.*)', "cannot be started ({0})"),
)
_KNOWN: tuple[tuple[str, ClusterError], ...] = (
    (
        r"requires more slots",
        ClusterError("Spark has fewer free cores than the job needs slots; lower the parallelism"),
    ),
    (
        r"Python worker exited unexpectedly|crashed",
        ProcessLostError("a Python worker of the job died"),
    ),
    (
        r"ExecutorLostFailure|Executor heartbeat timed out",
        ProcessLostError("Spark lost an executor of the job"),
    ),
    (
        r"was cancelled|cancelled part of|cancelled as part",
        ClusterError("the job's Spark job was cancelled"),
    ),
)


def translate(error: Exception, python: str) -> Exception:
    """A :class:`ClusterError` without the JVM's stack; ``python`` is what executors run."""
    if isinstance(error, PenstockError):
        return error
    wrong = wrong_python(error, python)
    if wrong is not None:
        return wrong
    text = str(error)
    for pattern, known in _KNOWN:
        if re.search(pattern, text):
            return type(known)(*known.args)
    return ClusterError(f"the job's Spark job failed: {_gist(text) or type(error).__name__}")


def wrong_python(error: Exception, python: str) -> ClusterError | None:
    """The error in one paragraph, if executors run a Python that cannot do the job."""
    text = str(error)
    for pattern, problem in _PYTHON:
        found = re.search(pattern, text)
        if found:
            what = problem.format(*found.groups())
            return ClusterError(f"the Python of the executors ({python}) {what}. {_way_out(found[1])}")
    return None


def _way_out(missing: str) -> str:
    """What to do about it; a package that Penstock does not need itself may be a module of the user's."""
    way = (
        "Before the Spark session is made, set PYSPARK_PYTHON to a Python that has what the program needs "
        f"(the program itself runs in {sys.executable}), or install it there"
    )
    is_package = re.fullmatch(r"[A-Za-z_][\w.]*", missing) is not None
    if not is_package or missing.partition(".")[0] in _REQUIREMENTS:
        return way
    return f"{way}; modules of your own are shipped by env.add_python_file()"


def _gist(text: str) -> str:
    """The first line, and what was raised if that was Python."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): .*", text, re.MULTILINE)
    python = raised[-1:] if "Traceback (most recent call last)" in text else []
    return " ".join([*lines[:1], *python])[:300]
