"""What a slot is told when it is started: all of it, in plain values."""

from __future__ import annotations

import pickle
from dataclasses import MISSING, fields

from penstock.exchange.lines import Transport
from penstock.spark.cluster import slot_function
from penstock.spark.shipping import Shipment
from penstock.spark.worker import WorkerInfo

INFO = WorkerInfo(
    job="a1",
    generation=3,
    secret=b"secret",
    driver=("127.0.0.1", 4000),
    store_url="file:///chk",
    inline_limit=7,
    heartbeat_interval_s=1.5,
    heartbeat_timeout_s=2.5,
    transport=Transport(always=True, data_ports="5000-5010"),
    job_name="orders",
    attempt=2,
    log_format="json",
    local_backup="/mnt/disk1",
)


def test_nothing_is_lost_on_the_way() -> None:
    """Copies of checkpoints were not taken on Spark: a list of what travels had not the setting."""
    left_out = [each.name for each in fields(INFO) if getattr(INFO, each.name) in (each.default, MISSING)]
    assert left_out == [], "here everything is set to something"
    facts = INFO.packed()
    assert "penstock" not in repr(pickle.dumps(facts)), "workers can read it before they can import"
    assert WorkerInfo.unpacked(facts) == INFO


def test_the_function_of_a_slot_carries_it() -> None:
    run = slot_function(INFO, Shipment())
    carried = dict(zip(run.__code__.co_freevars, run.__closure__, strict=True))
    assert WorkerInfo.unpacked(carried["facts"].cell_contents) == INFO
