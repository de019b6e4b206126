"""The shipped rules by Prometheus' own tool, with true durations: when each fires, and quiet minutes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.testing.servers.server import find_program
from tests.prometheus_kit import RULES, PrometheusServer, faster

JOB = 'job_id="1",job_name="j"'
TASK = f'{JOB},task_id="t",task_name="map",subtask_index="0"'
STEP = f'{TASK},operator_id="o",operator_name="Source: s"'
MINUTES = 25
SAMPLES = 4 * MINUTES
"""One every 15 s."""

QUIET = {
    f"flink_jobmanager_job_numRestarts{{{JOB}}}": f"3x{SAMPLES}",
    f"flink_jobmanager_job_numberOfFailedCheckpoints{{{JOB}}}": f"2x{SAMPLES}",
    f"flink_jobmanager_job_lastCheckpointCompletedTimestamp{{{JOB}}}": f"1+15000x{SAMPLES}",
    f"flink_jobmanager_job_runningState{{{JOB}}}": f"1x{SAMPLES}",
    f"flink_taskmanager_job_task_backPressuredTimeMsPerSecond{{{TASK}}}": f"300x{SAMPLES}",
    f"flink_taskmanager_job_task_operator_pendingRecords{{{STEP}}}": f"50x{SAMPLES}",
    f"flink_taskmanager_job_task_currentInputWatermark{{{TASK}}}": f"1+15000x{SAMPLES}",
    f'flink_taskmanager_job_task_currentInputWatermark{{{JOB},task_id="s"}}': f"{-(2**63)}x{SAMPLES}",
    f'penstock_watermark_held_by{{{JOB},step="s",subtask="0",stalled="no"}}': f"1+15000x{SAMPLES}",
}
HELD = f'penstock_watermark_held_by{{{JOB},step="s",subtask="0",stalled="yes"}}'

Trouble = tuple[str, str, str, str, str]
"""Alert, name of the series, its values, when it does not fire yet, when it does."""
TROUBLES: list[Trouble] = [
    ("JobRestarted", "numRestarts", "0x8 1x92", "1m", "3m"),
    ("CheckpointsFail", "numberOfFailedCheckpoints", "0x8 1x92", "1m", "3m"),
    ("CheckpointsStandStill", "lastCheckpointCompletedTimestamp", f"1000x{SAMPLES}", "10m", "12m"),
    ("Backpressured", "backPressuredTimeMsPerSecond", f"900x{SAMPLES}", "4m", "6m"),
    ("SourceFallsBehind", "pendingRecords", f"0+100x{SAMPLES}", "9m", "13m"),
    ("WatermarkStuck", "currentInputWatermark", f"1000x{SAMPLES}", "6m", "9m"),
    ("JobDoesNotRun", "runningState", f"0x{SAMPLES}", "1m", "3m"),
]


def checked(tmp_path: Path, series: dict[str, str], expected: list[dict[str, Any]]) -> None:
    """``promtool test rules``: at each time, what fires."""
    tool = find_program(["promtool"])
    if tool is None:
        pytest.skip(str(PrometheusServer.why_not()))
    (tmp_path / "rules.yml").write_text(RULES.read_text())
    whole = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": expected,
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(whole))
    done = subprocess.run([tool, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def at(when: str, *alerts: str) -> dict[str, Any]:
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts]
    expr = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {"expr": expr, "eval_time": when, "exp_samples": samples}


def test_quiet_minutes_are_quiet(tmp_path: Path) -> None:
    checked(tmp_path, QUIET, [at(f"{minute}m") for minute in range(MINUTES)])


@pytest.mark.parametrize("trouble", TROUBLES, ids=[trouble[0] for trouble in TROUBLES])
def test_a_trouble_is_told_when_it_lasts(trouble: Trouble, tmp_path: Path) -> None:
    alert, metric, values, not_yet, by_now = trouble
    (name,) = [series for series in QUIET if f"_{metric}{{" in series and 'task_id="s"' not in series]
    checked(tmp_path, {**QUIET, name: values}, [at(not_yet), at(by_now, alert)])


def test_a_job_without_an_exchange_is_watched_by_its_sources(tmp_path: Path) -> None:
    series = {
        name: values for name, values in QUIET.items() if "Watermark" not in name and "held" not in name
    }
    checked(tmp_path, {**series, HELD: f"1000x{SAMPLES}"}, [at("6m"), at("9m", "WatermarkStuck")])


def test_faster_rules_differ_in_nothing_but_time() -> None:
    rules = RULES.read_text()
    quick = faster(rules, 60)
    assert faster(rules, 1).count("ms") >= rules.count("for:")
    assert "[10000ms:500ms]" in quick and "[5000ms]" in quick and "for: 2000ms" in quick
    assert "300000" in quick and "600000" in quick
    kept = [
        {name: value for name, value in rule.items() if name not in ("for", "expr")}
        for text in (rules, quick)
        for rule in yaml.safe_load(text)["groups"][0]["rules"]
    ]
    assert kept[: len(kept) // 2] == kept[len(kept) // 2 :]
