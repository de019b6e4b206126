"""Errors on their way through Spark: what was raised in a worker arrives on the driver."""

from __future__ import annotations

from penstock.core.errors import ConfigError, UserCodeError
from penstock.spark.batch.failures import packed, unpacked


def through_spark(error: Exception) -> Exception:
    """Spark puts a worker's error into a page of its own."""
    text = f"An exception was thrown from the worker:\nRuntimeError: {packed(error)}\n\tat org.apache.spark"
    return RuntimeError(text)


def test_an_error_arrives_as_it_was_raised() -> None:
    raised = UserCodeError("divide", "2", "0", "ZeroDivisionError: division by zero")
    arrived = unpacked(through_spark(raised))
    assert isinstance(arrived, UserCodeError) and str(arrived) == str(raised)
    assert isinstance(unpacked(through_spark(ConfigError("no"))), ConfigError)


def test_errors_of_spark_itself_are_left_to_others() -> None:
    assert unpacked(RuntimeError("ExecutorLostFailure")) is None
