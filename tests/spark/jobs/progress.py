"""What the programs of the Spark tests share: settings, and waiting for progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

COUNT, RATE = 1500, 1000.0
TIMEOUT_S = 600.0


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for something to become true."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise TimeoutError(f"gave up after {TIMEOUT_S:g} s waiting until {what}")


def published(job: Any) -> int:
    """Snapshots that the job has published since this driver started it."""
    return int(job.coordinator.checkpoints.completed)


def environment(master: str, checkpoints: Path | None, **settings: str) -> StreamExecutionEnvironment:
    """Snapshots every 100 ms, quick restarts; ``a__b_c`` stands for the key ``a.b-c``."""
    config = Configuration()
    values = {
        "penstock.spark.master": master,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "penstock.slots.timeout": f"{TIMEOUT_S:g} s",  # a busy machine is slow to start Python
        "restart-strategy.fixed-delay.delay": "50 ms",
        "pipeline.auto-watermark-interval": "20 ms",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    if checkpoints is not None:
        values["execution.checkpointing.interval"] = "100 ms"
        values["execution.checkpointing.dir"] = str(checkpoints)
    values |= {key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
    for key, value in values.items():
        config.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(config)
