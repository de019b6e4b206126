"""Retry strategies of asynchronous I/O, where PyFlink programs look for them."""

from __future__ import annotations

from typing import Any

from penstock.operators.async_io.functions import (
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
)

__all__ = [
    "NO_RETRY_STRATEGY",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]

NO_RETRY_STRATEGY: NoRetryStrategy[Any] = NoRetryStrategy()
"""Asks once."""
