"""When a part file is closed and the next one begun.

Whatever the policy, every open file is closed at every barrier: what a snapshot covers is then a set of
whole files, and a writer has no state to restore.  A policy can only ask for more, smaller files.  It
is asked after each batch and at each bucket check, so a file may exceed the size by one batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from penstock.core.durations import DurationLike, to_bytes, to_millis


@dataclass(frozen=True, slots=True)
class PartInfo:
    """What a policy may know about an open file."""

    size: int
    """Bytes that reached the file; a format that gathers blocks may hold back more."""
    created_ms: int
    last_write_ms: int


class RollingPolicy(ABC):
    """Decides whether to close an open part file now."""

    @abstractmethod
    def should_roll(self, part: PartInfo, now_ms: int) -> bool:
        """Whether to close the file; asked after each batch and at each bucket check."""

    @staticmethod
    def default_rolling_policy(
        part_size: int | str = 1024 * 1024 * 128,
        rollover_interval: DurationLike = 60 * 1000,
        inactivity_interval: DurationLike = 60 * 1000,
    ) -> DefaultRollingPolicy:
        """Roll by size, age and time without writes."""
        return DefaultRollingPolicy(
            to_bytes(part_size), to_millis(rollover_interval), to_millis(inactivity_interval)
        )

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Roll at barriers only."""
        return OnCheckpointRollingPolicy()


@dataclass(frozen=True, slots=True)
class DefaultRollingPolicy(RollingPolicy):
    """Rolls a file that is large, old or no longer written to."""

    part_size: int
    rollover_ms: int
    inactivity_ms: int

    def should_roll(self, part: PartInfo, now_ms: int) -> bool:
        return (
            part.size >= self.part_size
            or now_ms - part.created_ms >= self.rollover_ms
            or now_ms - part.last_write_ms >= self.inactivity_ms
        )


class OnCheckpointRollingPolicy(RollingPolicy):
    """Rolls at barriers only."""

    def should_roll(self, part: PartInfo, now_ms: int) -> bool:
        return False
