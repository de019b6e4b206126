"""Names and data on a terminal: shown, never obeyed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import penstock.cli
from penstock.cli.main import cli
from penstock.cli.output import as_file_name, console, say, table
from tests.paper_job import published

NASTY = "[/eu] [red]x[/] :boom: \x1b]0;owned\x07 \u202eabc"
SHOWN = "[/eu] [red]x[/] :boom: \\x1b]0;owned\\x07 \\u202eabc"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))


def status():
    return {"status": "RUNNING", "checkpoints": 3, "restarts": 1, "last_checkpoint": None, "held": NASTY}


@pytest.fixture
def job():
    with published(NASTY, status) as made:
        yield made


def test_a_job_may_have_any_name(job):
    result = CliRunner().invoke(cli, ["list"])
    assert result.exit_code == 0, result.exception
    assert result.output.count(SHOWN) == 3, "in the table, and twice in the warning"
    assert "\x1b" not in result.output


@pytest.mark.parametrize("name", ["my pwd:", "token=", 'a"b\\c', NASTY])
def test_what_programs_read_is_json_whatever_the_name(name):
    """A name may end as a secret begins; then what ends its text must not be taken for one."""
    with published(name, lambda: {**status(), "held": "s3://me:hunter2@bucket"}):
        result = CliRunner().invoke(cli, ["list", "--json"])
    (found,) = json.loads(result.output)
    assert found["name"] == name and found["held"] == "s3://me:***@bucket"
    assert "\x1b" not in result.output


@pytest.mark.parametrize("text", ["注" * 200, "é" * 300, "x" * 300, "a/b\0c", "..", "", "\U0001f4a5"])
def test_any_text_is_a_file_name(text, tmp_path):
    name = as_file_name(text)
    assert len(name.encode()) <= 160 and "/" not in name and name not in (".", "..")
    (tmp_path / f"{name or 'none'}-20260101-000000-1234567.log").touch()


def test_errors_about_it_too(job):
    with published(NASTY, status):
        result = CliRunner().invoke(cli, ["savepoint", NASTY])
    assert result.exit_code == 1 and "\x1b" not in result.stderr and "fits 2 running jobs" in result.stderr


@pytest.mark.parametrize("print_it", [say, lambda text: console().print(text)])
def test_lines_are_shown_as_they_are(print_it, capsys):
    print_it(f"{NASTY}\nat s3://me:hunter2@bucket")
    assert capsys.readouterr().out.splitlines() == [SHOWN, "at s3://me:***@bucket"]


def test_cells_stay_in_their_line(capsys):
    console().print(table(["[b]NAME"], [["[/eu]\nsecond\tline"], ["s3://me:hunter2@bucket"]]))
    out = capsys.readouterr().out
    assert "[b]NAME" in out and "[/eu]\\nsecond\\tline" in out and "s3://me:***@bucket" in out


def test_commands_print_in_these_ways_only():
    """``say`` and its sisters, and ``console()``; the door has none of them, for rich takes its time."""
    other_ways = re.compile(
        r"click\.s?echo|(?<![\w.])print\(|rich\.print|Console\(|(?:stdout|stderr)\.write|markup"
    )
    found = {
        (file.name, line.strip())
        for file in Path(penstock.cli.__file__).parent.glob("*.py")
        for line in file.read_text().splitlines()
        if other_ways.search(line) and file.name != "output.py"
    }
    assert {line for _, line in found if "shown(" not in line} == {
        'click.secho("Interrupted.", fg="red", err=True)'
    }
    assert {name for name, _ in found} == {"main.py"}
