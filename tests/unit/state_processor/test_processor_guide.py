"""The code in the guide runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click_job import click, run_until, settings, start

from penstock.coordinator.job_directory import job_directory
from penstock.state_processor import open_snapshot
from penstock.testing.local import local_cluster

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "state-processor.md"


@pytest.fixture
def there(tmp_path, monkeypatch):
    """The directory that the guide works in, with the checkpoints that it reads."""
    click(tmp_path, [("ann", 1), ("bob", 2), ("bob", 3)])
    with local_cluster(slots=2):
        run_until(tmp_path, start(tmp_path, settings(tmp_path)), 3)
    (tmp_path / "checkpoints" / job_directory("click job")).rename(tmp_path / "checkpoints" / "my-job")
    monkeypatch.chdir(tmp_path)


def test_the_guide(there):
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    plain = [block for block in blocks if "spark" not in block]
    assert len(plain) >= 3 and len(blocks) > len(plain)
    names = {"__name__": "__main__"}
    exec(compile("\n".join(plain), str(GUIDE), "exec"), names)
    assert dict(zip(names["counts"]["key"], names["counts"]["value"], strict=True)) == {"ann": 1, "bob": 2}
    assert open_snapshot(names["savepoint"]).timers("counting")["key"].to_pylist() == ["ann"]
    corrected = open_snapshot(names["corrected"])
    assert corrected.read("counting", "count").to_pylist() == [{"key": "bob", "value": 2}]
    assert corrected.operators()["operator"].to_pylist() == ["clicks", "counting"]
