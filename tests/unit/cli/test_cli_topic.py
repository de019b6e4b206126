"""``penstock topic``."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.connectors.log import Log, Producer


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def topic(*args, stdin=None, ok=True):
    result = CliRunner().invoke(cli, ["topic", *args], input=stdin)
    assert (result.exit_code == 0) is ok, result.output + result.stderr
    return result


def test_the_life_of_a_topic(home):
    assert "no topics" in topic("list").output
    topic("create", "words", "--partitions", "2")
    assert Log(home / "log").topics() == ["words"]
    assert "Produced 3 records" in topic("produce", "words", stdin="a\nb\nc\n").stderr
    assert sorted(topic("consume", "words").output.split()) == ["a", "b", "c"]
    listed = json.loads(topic("list", "--json").output)
    assert listed == [{"name": "words", "partitions": 2, "records": 3}]
    assert "words" in topic("list").output
    assert "SEGMENTS" in topic("describe", "words").output
    topic("delete", "words", stdin="n\n", ok=False)
    assert Log(home / "log").topics() == ["words"]
    topic("delete", "words", "--yes")
    assert Log(home / "log").topics() == []


def test_records_of_strangers_steer_no_terminal(home):
    """A webhook's records come from anybody; a program that reads them gets every byte."""
    topic("create", "t")
    with Producer(Log(home / "log").topic("t")) as producer:
        producer.send(b"a\x1b]0;owned\x07\tb \xff \xc2\x9b31m password='x'")
        producer.sync()
    assert b"a\x1b]0;owned\x07\tb \xff" in topic("consume", "t").stdout_bytes
    command = [sys.executable, "-m", "penstock.cli.main", "topic", "consume", "t"]
    main, other = pty.openpty()
    subprocess.run(command, stdout=other, check=True)
    said = os.read(main, 1000)
    os.close(main)
    os.close(other)
    assert said == b"a\\x1b]0;owned\\x07\tb \\xff \\x9b31m password='x'\r\n"


def test_root_chooses_the_log(tmp_path):
    topic("create", "t", "--root", str(tmp_path / "other"))
    assert Log(tmp_path / "other").topics() == ["t"]


def test_produce_from_a_file_with_keys(tmp_path):
    (tmp_path / "lines").write_text("de:1\nfr:2:3\n")
    topic("create", "t")
    topic("produce", "t", str(tmp_path / "lines"), "--key-separator", ":")
    assert topic("consume", "t", "--keys").output == "de\t1\nfr\t2:3\n"
    result = topic("produce", "t", "--key-separator", ":", stdin="x:1\nnothing\n", ok=False)
    assert result.exit_code == 1 and "line 2 has no key" in result.stderr


def test_where_to_start_and_when_to_stop(home):
    topic("create", "t", "--partitions", "2")
    with Producer(Log(home / "log").topic("t")) as producer:
        for number in range(10):
            producer.send(str(number).encode(), timestamp=number * 100, partition=number % 2)
    assert topic("consume", "t", "--partition", "1").output.split() == list("13579")
    assert topic("consume", "t", "--partition", "0", "--offset", "3").output.split() == list("68")
    assert sorted(topic("consume", "t", "--timestamp", "650").output.split()) == list("789")
    assert len(topic("consume", "t", "--from-beginning", "--max", "4").output.split()) == 4
    assert topic("consume", "t", "--follow", "--from-beginning", "--max", "10").output.count("\n") == 10


@pytest.mark.parametrize(
    "args",
    [
        ["consume", "t", "--offset", "3"],
        ["consume", "t", "--from-beginning", "--timestamp", "5"],
        ["create", "t2", "--partitions", "0"],
        ["consume", "t", "--max", "0"],
        ["create"],
    ],
)
def test_bad_usage(args):
    topic("create", "t")
    assert topic(*args, ok=False).exit_code == 2


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["consume", "ghost"], "no topic 'ghost'"),
        (["produce", "ghost"], "no topic 'ghost'"),
        (["describe", "ghost"], "no topic 'ghost'"),
        (["delete", "ghost", "--yes"], "no topic 'ghost'"),
        (["create", "t"], "exists already"),
        (["create", "../x"], "no topic name"),
        (["consume", "t", "--partition", "7"], "there is no 7"),
        (["produce", "t", "--partition", "7"], "there is no 7"),
    ],
)
def test_errors_are_one_paragraph(args, words):
    topic("create", "t")
    result = topic(*args, stdin="x\n", ok=False)
    assert result.exit_code == 1
    assert words in result.stderr and "Traceback" not in result.stderr
