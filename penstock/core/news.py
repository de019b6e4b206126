"""What people want to hear while they wait: that something starts, is waited for, or goes on from somewhere.

A line each, at level INFO of the logger ``penstock.news``.  Programs that have set up logging get them there;
for all others they are on standard error.  A level that somebody gave to the logger ``penstock`` holds here.
"""

from __future__ import annotations

import logging
import sys

from penstock.core.discreet import log_of


class _OnStandardError(logging.Handler):
    """For programs without logging. Standard error is looked up each time: a progress line replaces it."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers and not logging.getLogger("penstock").handlers:
            print(record.getMessage(), file=sys.stderr, flush=True)


def _is_wanted(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.getLogger("penstock").level


news = log_of("penstock.news")
news.setLevel(logging.INFO)
news.addFilter(_is_wanted)
news.addHandler(_OnStandardError())
