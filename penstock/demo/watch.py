"""How the demo stands, read from the topics and the job: nothing here is guessed."""

from __future__ import annotations

import json
from dataclasses import dataclass

from penstock.connectors.log import Consumer, Log
from penstock.coordinator.running_job import RunningJob
from penstock.demo.clicks import TOPIC
from penstock.demo.verdict import ALERTS, COUNTS


@dataclass(frozen=True, slots=True)
class Standing:
    """A moment of the demo."""

    produced: int
    """Events in the input topic."""
    counted: int
    """Events in the hours whose counts are committed."""
    alerts: int
    checkpoints: int
    crashes: int
    status: str


class Meter:
    """Reads on in the topics each time it is asked."""

    def __init__(self, log: Log, job: RunningJob) -> None:
        clicks = log.topic(TOPIC)
        self._ends = [clicks.reader(partition) for partition in range(clicks.partitions)]
        self._counts = Consumer(log.topic(COUNTS))
        self._alerts = Consumer(log.topic(ALERTS))
        self._job = job
        self._counted = 0
        self._raised = 0

    def read(self, crashes: int) -> Standing:
        """The standing now."""
        for _, batch in self._counts.poll():
            self._counted += sum(json.loads(row)["clicks"] for row in batch.column("value").to_pylist())
        self._raised += sum(batch.num_rows for _, batch in self._alerts.poll())
        produced = sum(reader.end_offset() for reader in self._ends)
        facts = self._job.facts()
        return Standing(produced, self._counted, self._raised, facts["checkpoints"], crashes, facts["status"])
