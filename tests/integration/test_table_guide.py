"""The guide to files and tables is true: its code runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.local import local_cluster

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "files.md"


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deltalake")
    names: dict[str, Any] = {"__name__": "__main__"}
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    with local_cluster(slots=2):
        exec(compile("\n".join(code), "<guide>", "exec"), names)
    assert [(row.id, row.country) for row in names["rows"]] == [(1, "DE"), (2, "FR"), (3, "DE")]
    assert names["total"] == 3.5
    assert {path.parent.name for path in (tmp_path / "merged").rglob("*.parquet")} == {"country=DE"}
    assert "sqlite" not in repr(names["iceberg"])
