"""What is typed may be secret: neither usage errors nor the command to go on with repeat it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.core import interrupts
from penstock.core.discreet import discreet_command

SECRET = "geheim123"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "-p", f"db.password={SECRET}", "a.py"],
        ["run", "-p", f"db.password={SECRET} and more", "a.py"],
        ["run", "--parallelism", f"postgres://me:{SECRET}@host/db", "a.py"],
        ["run", "-D", f"db.password {SECRET}", "here.py"],
        ["run", "-D", f"db.password:{SECRET}", "here.py"],
        ["run", "-D", f"=db.password={SECRET}", "here.py"],
        ["list", f"postgres://me:{SECRET}@host/db"],
        ["list", f"api-key={SECRET}"],
        [f"db.password={SECRET}"],
        [f"--db.password={SECRET}", "run"],
    ],
)
def test_usage_errors_repeat_no_secret(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.py").write_text("")
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2, result.output
    assert "Error: " in result.output and SECRET not in result.output


def test_what_is_no_secret_is_repeated() -> None:
    result = CliRunner().invoke(cli, ["run", "-p", "parallelism.default=two", "a.py"])
    assert "'parallelism.default=two' is not a valid" in result.output


def test_the_command_to_go_on_with_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["penstock", "run", "-D", f"db.password={SECRET}", "-p", "2", "job.py", "--token", SECRET]
    monkeypatch.setattr(sys, "orig_argv", ["python", *typed, f"--url=mysql://me:{SECRET}@host/db"])
    told = interrupts.how_to_go_on()
    assert SECRET not in told
    assert "run -D 'db.password=***' -p 2 job.py --token '***' '--url=mysql://me:***@host/db'" in told


def test_a_command_without_secrets_stays_what_it_is() -> None:
    typed = ["penstock", "run", "-D", "a.b=c d", "--key", "7", "job.py", "--token", "--verbose", "x=y"]
    assert discreet_command(typed) == typed
