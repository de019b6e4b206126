"""What the guide for those who come from PyFlink says is so: its program, its names, what it calls absent."""

from __future__ import annotations

import importlib
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from compat_rig import environment

import penstock.datastream
import penstock.datastream._ported as ported
from penstock.core.errors import PenstockError
from penstock.datastream import CustomStateBackend, DataStream, SourceFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import file_system, kafka
from penstock.java_gateway import get_gateway
from penstock.testing.local import local_cluster
from penstock.util import java_utils

HERE = Path(__file__).parent
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "pyflink.md"


def programs() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_guide(
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ported, "_said", set())
    code, _ = programs()
    with local_cluster(slots=2), caplog.at_level(logging.WARNING, "penstock"):
        exec(compile(code, "<guide>", "exec"), {"__name__": "__main__"})
    assert sorted(capsys.readouterr().out.splitlines()) == ["(ann,5)", "(bob,3)"]
    assert [record.message for record in caplog.records if "add_jars" in record.message] != []


def test_its_typed_program() -> None:
    names = {"__name__": "__main__"}
    with local_cluster(slots=2):
        exec(compile(programs()[1], "<guide>", "exec"), names)
    assert names["totals"] == [3, 7]


# --- what it says is not there ------------------------------------------------------------------


def section(title: str) -> str:
    found = GUIDE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert found, title
    return found


def test_connectors_that_are_not_there_are_named() -> None:
    absent = json.loads((HERE / "exceptions.json").read_text())["Not a connector of Penstock."]
    said = section("What is not there").replace("DynamicKafkaSource", "dynamic_kafka").lower()
    modules = [name.removeprefix("datastream.connectors.").partition(":")[0] for name in absent]
    assert len(modules) >= 4 and [name for name in modules if name not in said] == []
    (row,) = [line for line in said.splitlines() if "no connectors" in line]
    for name in re.findall(r"(?<=[|,]) (\w+)(?=,| \|)", row.rpartition("|")[0].rpartition("|")[0] + "|"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"penstock.datastream.connectors.{name}")


REFUSED: dict[str, Callable[[], object]] = {
    "get_gateway()": get_gateway,
    'SourceFunction("org...")': lambda: SourceFunction("org.example.Source"),
    "CustomStateBackend": lambda: CustomStateBackend("org.example.Backend"),
    "iterate()": lambda: environment().from_collection([1]).iterate(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_so(name: str) -> None:
    assert f"`{name}`" in section("What is not there")
    with pytest.raises(PenstockError, match=r"no Java|Java|loop"):
        REFUSED[name]()


def test_what_is_accepted_is_there() -> None:
    paragraph = section("What is accepted and does nothing").strip().partition("\n\n")[0]
    names = re.findall(r"`(\w+)`", paragraph)
    assert len(names) >= 4
    assert [name for name in names if not callable(getattr(StreamExecutionEnvironment, name, None))] == []


def test_names_of_1x_are_there() -> None:
    text = section("Names of 1.x")
    known = [penstock.datastream, kafka, file_system, java_utils, StreamExecutionEnvironment, DataStream]
    names = [name for name in re.findall(r"`(\w+)`", text) if not name.startswith("_")]
    assert "get_j_env_configuration" in text and len(names) >= 8
    assert [name for name in names if not any(hasattr(place, name) for place in known)] == []
