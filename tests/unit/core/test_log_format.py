"""Logs as JSON: with their place, without secrets, a line each."""

from __future__ import annotations

import ast
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.core.config import Configuration
from penstock.core.discreet import log_of
from penstock.core.errors import ConfigError
from penstock.core.log_format import (
    VARIABLE,
    JsonFormatter,
    all_formatted,
    chosen_format,
    forget_format,
    use_format,
)
from penstock.core.log_place import LogPlace, at_attempt, at_task, place_now, placed
from penstock.core.telling_options import LOG_FORMAT

PACKAGE = Path(penstock.__file__).parent
LOG = log_of("penstock.core.test_log_format")


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """The lines so far, as objects."""
    lines: list[str] = []

    def all_of_them() -> list[dict[str, Any]]:
        lines.extend(capsys.readouterr().err.splitlines())
        return [json.loads(line) for line in lines]

    yield all_of_them
    forget_format()


def test_each_record_is_a_line_with_its_place(said: Any) -> None:
    use_format("json")
    use_format("json")
    with placed(LogPlace("orders", 3)):
        at_task(("Window", 1))
        LOG.warning("late by %d ms\nand more", 7)
        at_task(None)
        LOG.warning("between tasks")
    LOG.warning("elsewhere")
    first, second, third = said()
    assert first["message"] == "late by 7 ms\nand more" and first["level"] == "WARNING"
    assert first["logger"] == LOG.name and first["timestamp"].endswith("Z")
    places = [[line[name] for name in ("job", "attempt", "vertex", "subtask")] for line in said()]
    assert places == [["orders", 3, "Window", 1], ["orders", 3, None, None], [None] * 4]


def test_text_is_what_there_is_without_us(said: Any) -> None:
    use_format("text")
    assert not logging.getLogger("penstock").handlers
    with all_formatted("text"):
        logging.getLogger("functions").debug("nothing")
    assert said() == []


def test_secrets_are_in_no_line_of_whomever(said: Any) -> None:
    with all_formatted("json"), placed(LogPlace("at redis://:hunter2@h", 0)):
        for log in (LOG, logging.getLogger("functions"), logging.getLogger()):
            try:
                raise OSError("at http://u:hunter2@h \x1b[2J\u2028")
            except OSError:
                log.exception("password='hunter2' at %s", "s3://me:hunter2@bucket")
    lines = said()
    assert len(lines) == 3 and all("OSError" in line["exception"] for line in lines)
    assert "hunter2" not in json.dumps(lines) and "\x1b" not in json.dumps(lines)


def test_arguments_that_do_not_fit_are_a_line_all_the_same() -> None:
    record = logging.LogRecord("functions", logging.WARNING, "", 1, "%d records", ("no number",), None)
    assert json.loads(JsonFormatter().format(record))["message"] == "%d records"


def test_a_worker_gives_its_process_back(said: Any) -> None:
    root = logging.getLogger()
    before = list(root.handlers)
    heard: list[LogPlace] = []
    with all_formatted("json"), placed(LogPlace("orders", 1), whole_process=True):
        thread = threading.Thread(target=lambda: heard.append(place_now()))
        thread.start()
        thread.join()
    assert heard == [LogPlace("orders", 1)], "other threads of the process are at the same job"
    assert root.handlers == before and place_now() == LogPlace()


def test_attempts_are_of_threads_that_work_for_a_job() -> None:
    at_attempt(4)
    assert place_now() == LogPlace()
    with placed(LogPlace("orders", 0)):
        at_attempt(4)
        assert place_now() == LogPlace("orders", 4)


def test_the_setting_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert chosen_format(None) == "text"
    monkeypatch.setenv(VARIABLE, " JSON ")
    assert (chosen_format(None), chosen_format("text")) == ("json", "text")
    monkeypatch.setenv(VARIABLE, "xml")
    with pytest.raises(ConfigError, match=VARIABLE):
        chosen_format(None)
    with pytest.raises(ConfigError, match="text, json"):
        Configuration.from_dict({"penstock.log.format": "xml"}).check()
    assert Configuration.from_dict({"penstock.log.format": "JSON"}).get(LOG_FORMAT) == "json"


MAY_PRINT = {
    "core/news.py",  # for programs without logging
    "common/_showing.py",  # show() where there is no notebook
    "connectors/builtin/driver_output.py",  # DataStream.print()
    "luggage/outfit.py",  # in a process of its own that speaks by its output
    "spark/witness.py",  # beside the workers, where there is no logging
    "dataframe/ends.py",  # DataFrame.show()
    "sql/magic.py",  # below a notebook's cell
    "table/table.py",  # Table.print_schema()
    "table/table_result.py",  # TableResult.print()
}


def test_the_engine_prints_nothing_and_leaves_the_root_logger_alone() -> None:
    wrong, own = [], 0
    for file in sorted(PACKAGE.rglob("*.py")):
        place = file.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            arguments = [ast.unparse(argument) for argument in node.args]
            if called == "print" and place not in MAY_PRINT and not place.startswith(("cli/", "demo/")):
                wrong.append(f"{place}:{node.lineno} prints")
            if called in {f"logging.{name}" for name in ("debug", "info", "warning", "error", "exception")}:
                wrong.append(f"{place}:{node.lineno} uses the root logger")
            if called == "log_of":
                own += 1
                if arguments != ["__name__"] and place not in ("core/news.py", "core/discreet.py"):
                    wrong.append(f"{place}:{node.lineno} names its logger {arguments}")
    assert not wrong and own > 40
