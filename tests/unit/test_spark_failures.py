"""Spark's errors in one sentence; no Spark is started."""

from __future__ import annotations

import pytest

from penstock.core.errors import ClusterError
from penstock.spark.failures import translate

STACK = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
  File "cluster.py", line 143, in run
    raise RuntimeError(f"PENSTOCK-MISSING {error}") from None
RuntimeError: PENSTOCK-MISSING No module named 'penstock'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (STACK, "cannot import what Penstock needs (No module named 'penstock')"),
        ("ModuleNotFoundError: No module named 'mine'\n\tat org.apache", "lacks the Python package 'mine'"),
        (
            "Caused by: Python worker exited unexpectedly (crashed)\n\tat org.apache",
            "a Python worker of the gang died",
        ),
        ("something nobody knows\n\tat org.apache", "the gang's Spark job failed: something nobody knows"),
    ],
)
def test_one_sentence_without_the_stack(text: str, words: str) -> None:
    error = translate(RuntimeError(text))
    assert isinstance(error, ClusterError)
    assert words in str(error) and "org.apache" not in str(error) and "{error}" not in str(error)
