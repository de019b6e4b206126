"""When to roll a partition to a new segment, and which old segments to delete."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.connectors.log.segment import segment_bases, segment_path
from penstock.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Limits:
    """A topic's sizes and ages. Segments are deleted whole, oldest first, never the active one."""

    segment_bytes: int = 64 << 20
    """A frame that would make the segment larger starts a new one."""
    retention_bytes: int | None = None
    """Delete while what stays still holds at least this many bytes."""
    retention_ms: int | None = None
    """Delete what was last appended to longer ago. Not by the records' own times."""

    def __post_init__(self) -> None:
        for name in ("segment_bytes", "retention_bytes", "retention_ms"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"{name} must be positive, not {value}")

    def expired(self, bytes_left: int, idle_ms: int) -> bool:
        """Whether a segment may go, given what stays without it and how long ago it was written to."""
        too_big = self.retention_bytes is not None and bytes_left >= self.retention_bytes
        too_old = self.retention_ms is not None and idle_ms > self.retention_ms
        return too_big or too_old


def apply_retention(directory: Path, limits: Limits, now_ms: int) -> int:
    """Delete expired segments of a partition whose lock is held; returns how many."""
    bases = segment_bases(directory)
    paths = [segment_path(directory, base) for base in bases]
    stats = [path.stat() for path in paths]
    total = sum(stat.st_size for stat in stats)
    deleted = 0
    for path, stat in zip(paths[:-1], stats, strict=False):
        if not limits.expired(total - stat.st_size, now_ms - stat.st_mtime_ns // 1_000_000):
            break
        path.unlink()
        total -= stat.st_size
        deleted += 1
    return deleted
