"""PyFlink's ten examples on real Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import run
from pyflink_examples import EXPECTED, ported, summary

pytestmark = pytest.mark.spark


def test_pyflinks_examples_on_spark(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for example in EXPECTED:
        (programs / f"{Path(example).name}.py").write_text(ported(example), encoding="utf-8")
    run(tmp_path, "programs.py", "local[2]", programs)
    for example, expected in EXPECTED.items():
        output = (programs / f"{Path(example).name}.out").read_text(encoding="utf-8")
        assert summary(output) == expected, f"{example}:\n{output}"
