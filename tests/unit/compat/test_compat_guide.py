"""The program of the guide for those who come from PyFlink prints what the guide says."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

import penstock.datastream._ported as ported
from penstock.testing.local import local_cluster

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "pyflink.md"


def test_the_guide(
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ported, "_said", set())
    [code] = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    with local_cluster(slots=2), caplog.at_level(logging.WARNING, "penstock"):
        exec(compile(code, "<guide>", "exec"), {"__name__": "__main__"})
    assert sorted(capsys.readouterr().out.splitlines()) == ["(ann,5)", "(bob,3)"]
    assert [record.message for record in caplog.records if "add_jars" in record.message] != []
