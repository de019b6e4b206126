"""News are heard once: on standard error, or where a program's logging goes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.core.news import news


@contextmanager
def no_logging() -> Iterator[None]:
    """As in a program that has not set up any; pytest has, anew for each test."""
    root = logging.getLogger()
    before, root.handlers = root.handlers, []
    try:
        yield
    finally:
        root.handlers = before


def test_without_logging_they_are_on_standard_error(capsys):
    with no_logging():
        news.info("starting Spark %s", "local[2]")
    assert capsys.readouterr().err == "starting Spark local[2]\n"


def test_secrets_are_no_news(capsys):
    with no_logging():
        news.info("reading %s", "s3://me:hunter2@bucket\x1b[2J")
    assert capsys.readouterr().err == "reading s3://me:***@bucket\\x1b[2J\n"


def test_with_logging_they_are_there_only(caplog, capsys):
    news.info("starting Spark")
    assert caplog.messages == ["starting Spark"] and capsys.readouterr().err == ""


def test_a_level_for_all_of_us_holds(capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger("penstock"), "level", logging.ERROR)
    with no_logging():
        news.info("starting Spark")
    assert capsys.readouterr().err == ""
