"""Truth against output: what was committed, compared with counts taken directly from the input topic.

How the demo stands meanwhile is read from the topics and the job: nothing here is guessed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.log import Consumer, Json, Log
from penstock.coordinator.running_job import RunningJob
from penstock.demo.clicks import HOUR_MS, TOPIC

COUNTS = "hourly-counts"
ALERTS = "alerts"

CountryHour = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How output and truth compare. ``lost`` and ``duplicated`` are in clicks."""

    events: int
    lost: int
    duplicated: int
    wrong_rows: int
    """Pairs of country and hour that are not there exactly once, with the right number."""
    wrong_alerts: int
    """Alerts that are missing, superfluous or repeated."""
    counts: dict[CountryHour, int]
    """What the job committed."""
    alerts: frozenset[CountryHour]

    @property
    def ok(self) -> bool:
        """Whether everything was counted exactly once."""
        return not (self.lost or self.duplicated or self.wrong_rows or self.wrong_alerts)


def judge(log: Path, threshold: int) -> Verdict:
    """Read all three topics and compare."""
    truth = true_counts(log)
    rows: defaultdict[CountryHour, list[int]] = defaultdict(list)
    for row in committed(log, COUNTS):
        rows[row["country"], row["hour"]].append(row["clicks"])
    lost = duplicated = wrong = 0
    for pair in truth.keys() | rows.keys():
        expected, found = truth.get(pair, 0), rows.get(pair, [])
        lost += max(0, expected - sum(found))
        duplicated += max(0, sum(found) - expected)
        wrong += found != [expected]
    raised = Counter((row["country"], row["hour"]) for row in committed(log, ALERTS))
    due = {pair for pair, clicks in truth.items() if clicks >= threshold}
    wrong_alerts = sum(raised[pair] != (pair in due) for pair in raised.keys() | due)
    counts = {pair: sum(found) for pair, found in rows.items()}
    return Verdict(sum(truth.values()), lost, duplicated, wrong, wrong_alerts, counts, frozenset(raised))


def committed(log: Path, topic: str) -> list[dict[str, Any]]:
    """All rows of an output topic."""
    with Consumer(Log(log).topic(topic)) as consumer:
        batches = list(_all(consumer))
    return [json.loads(value) for batch in batches for value in batch.column("value").to_pylist()]


def true_counts(log: Path) -> dict[CountryHour, int]:
    """Clicks by country and hour, from the input topic, without the engine."""
    decode = Json(pa.schema([("country", pa.string()), ("ts", pa.int64())])).decode
    with Consumer(Log(log).topic(TOPIC)) as consumer:
        parts = [decode(batch.column("value")) for batch in _all(consumer)]
    table = pa.Table.from_batches(parts)
    hours = pc.multiply(pc.divide(table["ts"], HOUR_MS), HOUR_MS)
    counted = table.append_column("hour", hours).group_by(["country", "hour"]).aggregate([([], "count_all")])
    return {(row["country"], row["hour"]): row["count_all"] for row in counted.to_pylist()}


def _all(consumer: Consumer) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = []
    while found := consumer.poll(50_000):
        batches += [batch for _, batch in found]
    return batches


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
