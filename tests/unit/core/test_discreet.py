"""What is shown to people: no secrets, no control characters, in errors, logs, settings and commands."""

from __future__ import annotations

import io
import logging
import pickle
from pathlib import Path

import pytest

import penstock
from penstock.common import Encoder
from penstock.connectors.database.address import parse_url
from penstock.connectors.files.sink import FileSink
from penstock.connectors.kafka.client import redacted
from penstock.connectors.lake.delta.table import TableAddress
from penstock.core.config import Configuration
from penstock.core.discreet import discreet, is_secret, log_of, loggers, plain, shown
from penstock.core.errors import ConfigError, UserCodeError
from penstock.core.options import OPTIONS

PACKAGE = Path(penstock.__file__).parent


@pytest.mark.parametrize(
    "text",
    [
        "cannot reach mysql://shop:hunter2@db:3306/orders: refused",
        "redis://:hunter2@cache:6379/0",
        "https://me:p@ss:hunter2@host/path",
        "postgresql://me:hunter2/with?all#signs@host/db",
        "s3://AKIA:hunter2@bucket/a, s3://AKIA:hunter2@bucket/b",
        "jdbc:mysql://db/shop?user=me&password=hunter2&useSSL=true",
        "jdbc:sqlserver://db;user=me;password=hunter2;encrypt=true",
        "https://storage/a?X-Amz-Security-Token=hunter2&x=1",
        "{'sasl.password': 'hunter2', 'group.id': 'g'}",
        '{"api-key": "hunter2"}',
        """org.apache.kafka.PlainLoginModule required username="me" password="hun\\"ter2";""",
        "connect(host='db', password='hunter2')",
        "aws_secret_access_key = 'hunter2'",
    ],
)
def test_secrets_are_taken_out_and_the_rest_stays(text):
    found = discreet(text)
    assert "ter2" not in found and "***" in found
    assert discreet(found) == found
    assert found.split("***")[0] == text[: len(found.split("***")[0])]


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8080/orders?mail=a@b",
        "kafka://one:9092,two:9092 answers user@example.com",
        "mysql://user@host:3306/shop",
        'has no username="..." and password="..."; give both',
        "give token=..., or open_to_all=True",
        "the password: ask whoever runs the database",
        "token = next(tokens)",
        "file:///tmp/a:b/c@d",
    ],
)
def test_what_is_no_secret_is_left_as_it_is(text):
    assert discreet(text) == text


def test_time_to_look_grows_with_the_text_only():
    """Each of these is slow for a pattern that tries every way: a hang, not a failure, is what this finds."""
    pieces = ("://a:", "password", "?x", "password='", "a.-", "\\")
    assert [discreet(piece * 50_000)[: len(piece)] for piece in pieces] == list(pieces)


def test_control_characters_are_written_out():
    assert plain("a\x1b[2J\n\t\u202eb\x9b\ud800ü") == "a\\x1b[2J\\n\\t\\u202eb\\x9b\\ud800ü"
    assert shown("a\n\tb\r\x07") == "a\n\tb\\r\\x07"


def test_errors_hold_no_passwords_in_any_form():
    error = ConfigError("no s3://me:hunter2@bucket")
    again = pickle.loads(pickle.dumps(error))
    assert "hunter2" not in f"{error} {error!r} {error.args} {again!r}"
    crashed = UserCodeError("step", "0", "{'url': 'http://u:hunter2@h'}", 'f(password="hunter2")')
    assert "hunter2" not in str(crashed) and "hunter2" not in str(pickle.loads(pickle.dumps(crashed)))


def test_settings_are_shown_without_their_secrets():
    config = Configuration.from_dict(
        {
            "s3.secret-key": "hunter2",
            "fs.azure.account.key": "hunter2",
            "properties.sasl.jaas.config": "hunter2",
            "spark.hadoop.fs.s3a.access.key": "hunter2",
            "state.checkpoints.dir": "s3://me:hunter2@bucket/c",
            "spark.executor.memory": "1g",
        }
    )
    assert "hunter2" not in repr(config) and "spark.executor.memory=1g" in repr(config)
    assert config.to_dict()["s3.secret-key"] == "hunter2", "the program itself reads it"
    hidden = [key for key in OPTIONS if is_secret(key)]
    assert all(key.endswith("-password") for key in hidden), "nothing that people need is hidden"


def test_connectors_do_not_show_what_they_connect_with():
    shown_ = [
        FileSink.for_row_format("s3://me:hunter2@bucket/out", Encoder.simple_string_encoder()).build(),
        TableAddress.of("s3://me:hunter2@bucket/table", {"aws_secret": "hunter2"}, None),
        redacted({"schema.registry.url": "http://me:hunter2@registry", "sasl.password": "hunter2"}),
        parse_url("mysql://me:hunter2@db/shop?password=hunter2"),
    ]
    assert "hunter2" not in repr(shown_) and "bucket/out" in repr(shown_)


@pytest.mark.parametrize(
    "name", ["penstock", "penstock.news", "penstock.snapshot.recovery", "penstock.made.now"]
)
def test_logs_hold_neither_secrets_nor_control_characters(name):
    log, stream = log_of(name), io.StringIO()
    handler = logging.StreamHandler(stream)
    log.addHandler(handler)
    try:
        try:
            raise OSError("at http://u:hunter2@h")
        except OSError:
            log.exception("job %s at %s", "a\x1b[2J", "redis://:hunter2@h")
    finally:
        log.removeHandler(handler)
    assert "hunter2" not in stream.getvalue() and "\x1b" not in stream.getvalue()
    assert "job a\\x1b[2J at redis://:***@h" in stream.getvalue() and "OSError" in stream.getvalue()


def test_every_logger_of_ours_is_looked_after():
    """Modules get theirs by ``log_of``; these have another reason to know the name of one."""
    known = {"core/discreet.py", "core/log_format.py", "core/news.py", "testing/sim/simulation.py"}
    known |= {
        "spark/jvm.py",
        "connectors/kafka/client.py",
    }  # Java's bridge; what librdkafka says is swallowed
    asked = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        if "logging.getLogger(" in file.read_text()
    }
    assert asked == known


def test_a_filter_for_all_is_one_for_those_to_come():
    seen = []

    class Tap(logging.Filter):
        def filter(self, record):
            seen.append(record.getMessage())
            return True

    tap = Tap()
    for logger in loggers():
        logger.addFilter(tap)
    late = log_of("penstock.made.late")
    late.warning("at s3://me:hunter2@bucket")
    for logger in loggers():
        logger.removeFilter(tap)
    late.warning("unheard")
    assert seen == ["at s3://me:***@bucket"]
