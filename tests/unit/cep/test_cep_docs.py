"""The example program and the guide's code do what they say."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from penstock.datastream import StreamExecutionEnvironment
from penstock.testing import Harness, Record, local_cluster

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = ROOT / "examples" / "temperature_pattern.py"
    spec = importlib.util.spec_from_file_location("temperature_pattern", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "temperature_pattern", module)
    spec.loader.exec_module(module)
    return module


def test_the_example_finds_the_jump(example: ModuleType) -> None:
    """The freezer's jump is as large, but takes exactly a minute."""
    with local_cluster(slots=2):
        env = StreamExecutionEnvironment.get_execution_environment()
        alerts = list(example.build(env, example.READINGS).execute_and_collect())
    assert alerts == ["boiler: from 61.0 to 83.0 within 41 s"]


def test_the_example_by_hand(example: ModuleType) -> None:
    """Each reading may begin a jump; one that is exactly 20 degrees away is none."""
    degrees = [(0, 10.0), (10, 30.0), (20, 31.0), (30, 9.0)]

    def readings(stream: Any) -> Any:
        by_sensor = stream.key_by(lambda reading: reading.sensor)
        return example.CEP.pattern(by_sensor, example.JUMP).process(example.Alert())

    with Harness(readings) as harness:
        for second, value in degrees:
            harness.push(Record(example.Reading("s", second * 1000, value), second * 1000))
        harness.finish()
        assert harness.take() == [
            "s: from 10.0 to 31.0 within 20 s",
            "s: from 30.0 to 9.0 within 20 s",
            "s: from 31.0 to 9.0 within 10 s",
        ]


def test_the_code_of_the_guide() -> None:
    page = (ROOT / "docs" / "guides" / "patterns.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "__main__"}
    with local_cluster(slots=2):
        exec(compile(code, "patterns.md", "exec"), names)
    assert names["lines"] == ["ann paid", "bob did not pay"]
