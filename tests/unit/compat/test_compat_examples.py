"""The ten examples of PyFlink's DataStream API that need no service print here what they print there."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from pyflink_examples import EXPECTED, ported, summary

from penstock.testing.local import local_cluster


@pytest.mark.parametrize("example", EXPECTED)
def test_example_prints_what_pyflink_prints(
    example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program.py"
    program.write_text(ported(example))
    monkeypatch.setattr(sys, "argv", [str(program)])
    with local_cluster(slots=2):
        runpy.run_path(str(program), run_name="__main__")
    output = capsys.readouterr().out
    assert summary(output) == EXPECTED[example], output
