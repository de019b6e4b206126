"""Spark's errors in one sentence."""

from __future__ import annotations

import re

from penstock.core.errors import ClusterError, PenstockError

_KNOWN = (
    (
        r"RuntimeError: PENSTOCK-MISSING (.*)",
        "an executor cannot import what Penstock needs ({0}); install penstock and its requirements "
        "(pyarrow, numpy, cloudpickle, fsspec) in the Python of the executors",
    ),
    (
        r"No module named '([^']+)'",
        "an executor lacks the Python package {0!r}; install it in the Python of the executors, or ship "
        "your own modules with env.add_python_file()",
    ),
    (r"requires more slots", "Spark has fewer free cores than the job needs slots; lower the parallelism"),
    (r"Python worker exited unexpectedly|crashed", "a Python worker of the gang died"),
    (r"ExecutorLostFailure|Executor heartbeat timed out", "Spark lost an executor of the gang"),
    (r"was cancelled|cancelled part of|cancelled as part", "the gang's Spark job was cancelled"),
)


def translate(error: Exception) -> Exception:
    """A :class:`ClusterError` without the JVM's stack."""
    if isinstance(error, PenstockError):
        return error
    text = str(error)
    for pattern, sentence in _KNOWN:
        found = re.search(pattern, text)
        if found:
            return ClusterError(sentence.format(*found.groups()))
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return ClusterError(f"the gang's Spark job failed: {first[:300]}")
