"""The three guarantees as the demo runs them: what differs in the job, and what each one promises.

The program is the same.  ``exactly_once`` and ``at_least_once`` differ in one setting, which shows only if
barriers arrive apart; so in ``at_least_once`` one of the two readers is slow, as on a busy machine.
``none`` takes no checkpoints and writes straight into the topics.
"""

from __future__ import annotations

import threading
from enum import Enum
from pathlib import Path
from typing import Any

from penstock.connectors.log import LogSource
from penstock.connectors.source import Split, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.demo.verdict import Verdict

_SLOW_READ_S = 0.2


class Mode(Enum):
    """What the job promises about each click. The value is the name on the command line."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"
    NONE = "none"

    @property
    def title(self) -> str:
        """The guarantee in words."""
        return "at-most-once" if self is Mode.NONE else self.value.replace("_", "-")

    @property
    def note(self) -> str:
        """What somebody who watches should know beforehand, in a sentence; mostly nothing."""
        return _NOTES.get(self, "")

    @property
    def has_checkpoints(self) -> bool:
        """Whether the job takes any."""
        return self is not Mode.NONE

    @property
    def sinks(self) -> DeliveryGuarantee:
        """How the sinks write: waiting for a checkpoint makes no sense where there is none."""
        return DeliveryGuarantee.EXACTLY_ONCE if self.has_checkpoints else DeliveryGuarantee.AT_LEAST_ONCE

    @property
    def source(self) -> type[LogSource]:
        """The source to read the clicks with."""
        return SlowAtOddPartitions if self is Mode.AT_LEAST_ONCE else LogSource

    def settings(self, work: Path) -> dict[str, str]:
        """The job's settings that differ."""
        if not self.has_checkpoints:
            return {}
        return {
            "execution.checkpointing.interval": "500 ms",
            "execution.checkpointing.mode": self.name,
            "execution.checkpointing.dir": str(work / "checkpoints"),
        }

    def is_kept(self, verdict: Verdict) -> bool:
        """Whether the promise was kept."""
        if self is Mode.EXACTLY_ONCE:
            return verdict.ok
        return self is Mode.NONE or verdict.lost == 0


_NOTES = {
    Mode.AT_LEAST_ONCE: f"One of the two readers is slowed down by {_SLOW_READ_S} s per read: barriers that "
    "arrive together would repeat nothing, and there would be nothing to see.",
    Mode.NONE: "No checkpoints are taken: what a killed worker holds is lost, and so are clicks that come "
    "before the job is back.",
}


class SlowAtOddPartitions(LogSource):
    """A log whose odd partitions, which are one of two readers', are slow to read."""

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        reader = super().open_split(split, position, clock)
        return _SlowReader(reader) if split.info.partition % 2 else reader


class _SlowReader(SplitReader):
    """Blocks its task while it reads: a barrier has to wait for that."""

    def __init__(self, reader: SplitReader) -> None:
        self._reader = reader

    def poll(self, max_rows: int) -> Batch | None:
        batch = self._reader.poll(max_rows)
        if batch is not None:
            threading.Event().wait(_SLOW_READ_S)
        return batch

    def position(self) -> Any:
        return self._reader.position()

    def close(self) -> None:
        self._reader.close()
