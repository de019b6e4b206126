"""What of a job's history took its time and is over: checkpoints and restarts, each told once.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.coordinator.checkpoint_history import CheckpointRecord, CheckpointState
from penstock.coordinator.history_view import HistoryView
from penstock.core.ids import WallMs
from penstock.core.job import JobStatus


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took its time and is over."""

    name: str
    begun_ms: WallMs
    ended_ms: WallMs
    attributes: dict[str, str | int | float | bool] = field(default_factory=dict)
    failure: str | None = None


class SpanFinder:
    """What of a history is over and was not told yet."""

    def __init__(self) -> None:
        self._told: set[tuple[int, WallMs]] = set()
        self._restarts_to = WallMs(0)

    def new(self, view: HistoryView) -> Iterator[Span]:
        """The spans that have ended since the last call, by the names that Flink has for them."""
        ended = [one for one in view.checkpoints if one.state is not CheckpointState.IN_PROGRESS]
        for record in ended:
            if (int(record.epoch), record.triggered_ms) not in self._told:
                yield _checkpoint(record)
        self._told = {(int(record.epoch), record.triggered_ms) for record in ended}
        yield from self._restarts(view)

    def _restarts(self, view: HistoryView) -> Iterator[Span]:
        begun: WallMs | None = None
        for status, at in view.statuses:
            if status is JobStatus.RESTARTING:
                begun = at if begun is None else begun
            elif begun is not None and (status is JobStatus.RUNNING or status.is_terminal_state()):
                if begun > self._restarts_to:
                    self._restarts_to = begun
                    yield _restart(view, begun, at, status)
                begun = None


def _checkpoint(record: CheckpointRecord) -> Span:
    parts = record.parts.values()
    ended = record.ended_ms or record.latest_ack_ms or record.triggered_ms
    return Span(
        "Checkpoint",
        record.triggered_ms,
        max(ended, record.triggered_ms),
        {
            "checkpointId": int(record.epoch),
            "checkpointStatus": record.state.name,
            "checkpointType": record.kind.name,
            "isUnaligned": record.unaligned,
            "checkpointedSize": sum(part.written_bytes for part in parts),
            "fullSize": sum(part.state_bytes for part in parts),
            "subtasks": record.subtasks,
            "acknowledged": len(record.parts),
            "maxAlignmentMs": max((part.alignment_ms for part in parts), default=0.0),
            "maxSyncMs": max((part.sync_ms for part in parts), default=0.0),
            "maxAsyncMs": max((part.async_ms for part in parts), default=0.0),
            "maxStartDelayMs": max((part.start_delay_ms for part in parts), default=0.0),
        },
        record.failure if record.state is CheckpointState.FAILED else None,
    )


def _restart(view: HistoryView, begun: WallMs, ended: WallMs, status: JobStatus) -> Span:
    attributes: dict[str, str | int | float | bool] = {"status": status.name}
    attempts = [one.number for one in view.attempts if begun <= one.started_ms <= ended]
    if attempts:
        attributes["attempt"] = attempts[-1]
    causes = [one.root.name for one in view.failures if one.root.at_ms <= ended]
    if causes:
        attributes["cause"] = causes[-1]
    restored = view.restored
    if restored is not None and begun <= restored.restored_ms <= ended:
        attributes["restoredCheckpointId"] = int(restored.epoch)
    failure = None if status is JobStatus.RUNNING else f"the job is {status.name}"
    return Span("Restart", begun, max(begun, ended), attributes, failure)
