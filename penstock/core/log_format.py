"""Logs as lines of JSON, if a setting or the environment asks for them.

Each line is an object with ``timestamp``, ``level``, ``logger``, ``message``; ``job``, ``attempt``,
``vertex`` and ``subtask``, which may be ``null``; and ``exception``, if there is one.  They go to standard
error: on the driver those of Penstock, in workers also those of the functions, which have no other place.
Handlers that a program has set up stay as they are.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.core.discreet import shown
from penstock.core.errors import ConfigError
from penstock.core.log_place import FIELDS, PlaceFilter

TEXT, JSON = "text", "json"
VARIABLE = "PENSTOCK_LOG_FORMAT"


def chosen_format(setting: str | None) -> str:
    """What the setting says, else the environment; else text."""
    if setting is not None:
        return setting
    found = os.environ.get(VARIABLE, "").strip().lower() or TEXT
    if found not in (TEXT, JSON):
        raise ConfigError(f"the environment variable {VARIABLE} is {found!r:.80}; it may be text or json")
    return found


class JsonFormatter(logging.Formatter):
    """One line of JSON a record, in ASCII, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        line: dict[str, object] = {
            "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": shown(_message(record)),
        }
        line |= {name: _plain(getattr(record, name, None)) for name in FIELDS}
        if record.exc_info or record.exc_text:
            line["exception"] = shown(record.exc_text or self.formatException(record.exc_info or _NONE))
        return json.dumps(line)


_NONE = (None, None, None)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # arguments that do not fit: a line is better than none
        return str(record.msg)


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, int) else shown(str(value))


class _ToStandardError(logging.Handler):
    """Looked up each time: a progress line replaces it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.addFilter(PlaceFilter())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


_handler = _ToStandardError()


def use_format(chosen: str) -> None:
    """Write the log of the engine so, from now on; plain text is what there is without us."""
    logger = logging.getLogger("penstock")
    if chosen == JSON and _handler not in logger.handlers:
        logger.addHandler(_handler)


def forget_format() -> None:
    """Take back what :func:`use_format` did."""
    logging.getLogger("penstock").removeHandler(_handler)


@contextmanager
def all_formatted(chosen: str) -> Iterator[None]:
    """In a worker: everything that is logged meanwhile, also by functions. Spark uses the process again."""
    root = logging.getLogger()
    if chosen != JSON or _handler in root.handlers:
        yield
        return
    root.addHandler(_handler)
    try:
        yield
    finally:
        root.removeHandler(_handler)
