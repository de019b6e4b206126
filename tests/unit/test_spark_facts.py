"""What a slot is told on its way to an executor."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pyspark
import pytest

from penstock.exchange.lines import Transport
from penstock.spark import worker
from penstock.spark.cluster import slot_function
from penstock.spark.shipping import Shipment
from penstock.spark.worker import WorkerInfo


def test_every_fact_gets_to_the_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fact that is left behind is a setting without effect, and only where jobs run on Spark."""
    told: dict[str, Any] = {
        "job": "j",
        "generation": 7,
        "secret": b"s",
        "driver": ("10.0.0.1", 99),
        "store_url": "file:///checkpoints",
        "inline_limit": 5,
        "heartbeat_interval_s": 1.5,
        "heartbeat_timeout_s": 2.5,
        "transport": Transport(control_ports="1-2"),
        "job_name": "name",
        "attempt": 3,
        "log_format": "json",
        "local_backup": "/quick/disk",
    }
    plain = {field.name: field.default for field in fields(WorkerInfo)}
    assert told.keys() == plain.keys() and not [name for name in told if told[name] == plain[name]]
    info, arrived = WorkerInfo(**told), []
    context = SimpleNamespace(
        partitionId=lambda: 1, getTaskInfos=lambda: [None, SimpleNamespace(address="h:1")]
    )
    monkeypatch.setattr(pyspark.BarrierTaskContext, "get", lambda: context)
    monkeypatch.setattr(pyspark.SparkFiles, "getRootDirectory", lambda: "")
    monkeypatch.setattr(worker, "run_worker", lambda *arguments: arrived.append(arguments))
    function = cloudpickle.loads(cloudpickle.dumps(slot_function(info, Shipment())))
    assert [batch.to_pydict() for batch in function(iter(()))] == [{"slot": [1]}]
    assert arrived == [(info, 1, "h")]
