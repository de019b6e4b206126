"""The command that an interrupted program is gone on with."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from penstock.core import interrupts


def test_a_program_is_started_again_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ["python", "-X", "dev", "my job.py", "--since", "it's Monday"]
    monkeypatch.setattr(sys, "orig_argv", argv)
    told = interrupts.how_to_go_on().removeprefix("go on with: ")
    assert shlex.split(told) == argv


@pytest.mark.parametrize("on_path", [True, False])
def test_penstock_goes_by_its_name_where_that_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_path: bool
) -> None:
    script = tmp_path / "penstock"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) if on_path else os.devnull)
    monkeypatch.setattr(sys, "orig_argv", ["/usr/bin/python3", str(script), "run", "-p", "2", "job.py"])
    told = shlex.split(interrupts.how_to_go_on().removeprefix("go on with: "))
    assert told == ["penstock" if on_path else str(script), "run", "-p", "2", "job.py"]


def test_under_spark_submit_the_command_is_that_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the Python process was started with would run without Spark's options."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert interrupts.how_to_go_on() == "go on with the same spark-submit command"


def test_in_a_shell_there_is_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_RUNS_FILE", False)
    assert interrupts.how_to_go_on() == "go on by running the job again"


def test_handlers_that_others_install_meanwhile_are_there_afterwards() -> None:
    """As PySpark does when it makes a context."""

    def theirs(number: int, frame: object) -> None:
        raise AssertionError("not while the guard is open")

    before = signal.getsignal(signal.SIGTERM)
    seen: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with interrupts.guarded() as guard:
            signal.signal(signal.SIGTERM, theirs)
            interrupts.renew()
            assert signal.getsignal(signal.SIGTERM) == guard._on_signal
            with interrupts.guarded() as inner:
                assert inner is guard
        assert signal.getsignal(signal.SIGTERM) is theirs and seen == []
    finally:
        signal.signal(signal.SIGTERM, before)
