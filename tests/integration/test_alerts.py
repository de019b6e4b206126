"""A real Prometheus with the shipped rules: it fires on what is wrong, and on nothing else.

Time runs sixty times faster in the rules, so that minutes are seconds; nothing here says how long anything
takes.
``scripts/quiet_minutes.py`` has the rules as they are.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from alert_job import BEHIND_MS, too_slow, watched
from local_jobs import kill_slot, until

from penstock.connectors.log import Log, Producer
from tests.prometheus_kit import RULES, PrometheusServer, faster
from tests.servers import skip_without

FACTOR = 60
QUIET_SCRAPES = 20
pytestmark = pytest.mark.slow


def test_alerts_fire_on_trouble_and_are_silent_without(tmp_path: Path) -> None:
    skip_without(PrometheusServer)
    with watched(tmp_path) as job:
        with PrometheusServer(job.serving.url, job.serving.token, faster(RULES.read_text(), FACTOR)) as seen:
            until(lambda: seen.scrapes() >= QUIET_SCRAPES, "Prometheus has looked for a while")
            assert seen.firing() == set() and seen.problems() == []
            with job.trouble("slow"):
                until(lambda: "Backpressured" in seen.firing(), "back pressure is told")
            with job.trouble("unwritable"):
                until(lambda: "CheckpointsFail" in seen.firing(), "failing checkpoints are told")
            assert "JobRestarted" not in seen.firing()
            kill_slot(job.launcher)
            until(lambda: "JobRestarted" in seen.firing(), "the lost worker is told")
            assert "WatermarkStuck" not in seen.firing()


def test_a_stuck_watermark_is_told(tmp_path: Path) -> None:
    skip_without(PrometheusServer)
    with watched(tmp_path, BEHIND_MS) as job:
        with PrometheusServer(job.serving.url, job.serving.token, faster(RULES.read_text(), FACTOR)) as seen:
            until(lambda: "WatermarkStuck" in seen.firing(), "the stuck watermark is told")


def test_a_source_that_falls_behind_is_told(tmp_path: Path) -> None:
    skip_without(PrometheusServer)
    topic = Log(tmp_path / "log").create_topic("t")
    with too_slow(tmp_path, topic) as job, Producer(topic) as producer:
        with PrometheusServer(job.serving.url, job.serving.token, faster(RULES.read_text(), FACTOR)) as seen:

            def told() -> bool:
                producer.send_many([b"x"] * 50)
                time.sleep(0.2)
                return "SourceFallsBehind" in seen.firing()

            until(told, "the growing backlog is told")
            assert seen.problems() == []
