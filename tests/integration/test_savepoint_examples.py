"""The examples of what savepoints are for, in this process."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from penstock.testing.local import local_cluster

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "savepoints"))


@pytest.mark.parametrize(
    ("example", "last_line"),
    [
        ("upgrade", "200 orders, each counted once; the fixed code knew the totals of the old one"),
        ("engine_upgrade", "went on to the same 77 results"),
        ("migrate", "200 orders, each counted once, on 1 slot and then on 3"),
        ("ab", "differ"),
        ("what_if", "+ "),
    ],
)
def test_example(example: str, last_line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with local_cluster():
        importlib.import_module(example).main(tmp_path)
    assert last_line in capsys.readouterr().out.splitlines()[-1]
