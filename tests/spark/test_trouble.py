"""What a user of Spark is told when something is wrong: one sentence, without the JVM's stack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drivers import run
from flow_graphs import read_text
from memory_group import WHY_NOT, memory_group

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wrong")


@pytest.fixture(scope="module")
def told(work: Path) -> dict[str, tuple[str, str]]:
    """What the program was told, by case: the error's class and text."""
    with memory_group() as group:
        driver = run(work, "wrong.py", work, *([] if group is None else [group]))
    found: dict[str, tuple[str, str]] = {}
    for line in driver.lines:
        parts = line.split(" ", 2)
        if len(parts) == 3 and parts[2].startswith('"'):
            found[parts[0]] = (parts[1], json.loads(parts[2]))
    return found


def test_an_out_of_memory_kill_is_named_as_such(told: dict[str, tuple[str, str]]) -> None:
    """A real one: the kernel kills the worker in a control group that has no more memory."""
    if "out_of_memory" not in told:
        pytest.skip(WHY_NOT)
    kind, text = told["out_of_memory"]
    assert kind == "ProcessLostError", text
    assert "signal 9 (SIGKILL): the kernel's out-of-memory killer did that, it used" in text
    assert "Give the machine or the container more memory" in text


def test_errors_are_sentences(told: dict[str, tuple[str, str]], work: Path) -> None:
    for case, (_, text) in told.items():
        for word in ("org.apache", "java.", "Py4J", "\tat "):
            assert word not in text, f"{case}: {text}"
    kind, text = told["too_few_slots"]
    assert kind == "ClusterError" and "needs 3 slots" in text and "lower the parallelism" in text
    kind, text = told["user_error"]
    assert kind == "UserCodeError"
    for word in ("digest", "42", "ValueError: cannot digest this", "in explode"):
        assert word in text
    kind, text = told["dead_worker"]
    assert kind == "ProcessLostError" and "exit status 3" in text and "slot " in text
    kind, text = told["stuck_writer"]
    assert kind == "ClusterError" and "orders" in text and "subtask 0, does not open" in text, text
    kind, text = told["dynamic_allocation"]
    assert kind == "ClusterError" and "spark.dynamicAllocation.enabled=false" in text
    for case in ("other_python", "other_python_for_a_frame"):
        kind, text = told[case]
        assert kind == "ClusterError" and "bare-python) lacks the package" in text, case
        assert "set PYSPARK_PYTHON" in text and "Traceback" not in text, case
    kind, text = told["bad_master"]
    assert kind == "ClusterError" and "'nonsense://here'" in text and "Could not parse Master URL" in text
    assert told["large_results"][0] == "fine", told["large_results"][1]
    assert told["large_inline_state"][0] == "fine", told["large_inline_state"][1]
    for name in ("few", "user", "dead"):
        assert not (work / name).exists() or read_text(work / name) == []
