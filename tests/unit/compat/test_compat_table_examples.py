"""PyFlink's examples that begin with a generated table: they do not end, and print until they are ended."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyflink_examples import ported

from penstock.datastream.job import run_as, running_program
from penstock.graph.nodes import StartedBy
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

ENOUGH = 5


class Seen(io.StringIO):
    """Standard output, which says when there is enough of it."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        super().__init__()
        self._wanted = wanted
        self.lines: list[str] = []
        self.enough = threading.Event()

    def write(self, text: str) -> int:
        self.lines += [line for line in text.splitlines() if self._wanted(line)]
        if len(self.lines) >= ENOUGH:
            self.enough.set()
        return len(text)


def lines_of(
    example: str, wanted: Callable[[str], bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    program = tmp_path / "program.py"
    program.write_text(ported(example))
    monkeypatch.setattr(sys, "argv", [str(program)])
    seen, jobs = Seen(wanted), list[Any]()
    monkeypatch.setattr(sys, "stdout", seen)
    with local_cluster(slots=1), run_as(replace(running_program(), started_by=StartedBy(None, jobs.append))):
        code = compile(program.read_text(), str(program), "exec")

        def run() -> None:
            with pytest.raises(Exception, match="was cancelled"):
                exec(code, {"__name__": "__main__"})

        thread = threading.Thread(target=run)
        thread.start()
        try:
            assert seen.enough.wait(PATIENCE_S)
        finally:
            for job in jobs:
                job.cancel().result()
            thread.join(PATIENCE_S)
    return seen.lines


def test_words_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = re.compile(r"\((\w+),(\d+)\)")
    lines = lines_of(
        "streaming_word_count", lambda line: bool(counted.fullmatch(line)), tmp_path, monkeypatch
    )
    assert sum(line.endswith(",1)") for line in lines) >= 1


def test_a_model_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(
        "asyncio/remote_model_inference", lambda line: line.startswith("{"), tmp_path, monkeypatch
    )
    assert all(set(json.loads(line)) == {"user_id", "comments", "analysis_result"} for line in lines)
