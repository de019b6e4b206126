"""What a user of Spark is told when something is wrong: one sentence, without the JVM's stack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drivers import run
from flow_graphs import read_text

pytestmark = pytest.mark.spark


def test_errors_are_sentences(tmp_path: Path) -> None:
    driver = run(tmp_path, "wrong.py", tmp_path)
    told: dict[str, tuple[str, str]] = {}
    for line in driver.lines:
        parts = line.split(" ", 2)
        if len(parts) == 3 and parts[2].startswith('"'):
            told[parts[0]] = (parts[1], json.loads(parts[2]))
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
        assert not (tmp_path / name).exists() or read_text(tmp_path / name) == []
