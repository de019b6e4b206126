"""Kills at named points of a checkpoint's way, one after the other, each exactly once.

A :class:`KillingSink` stands around any sink and passes everything on.  When an attempt of the job comes to
the point whose turn it is, it notes that in a file, which all processes of all attempts see, and kills -9
the worker it runs in or the driver.  Each attempt first has a checkpoint published, so every kill comes
after another epoch.

Several jobs may share a driver.  Then each waits at its point until all the others are at theirs, and the
driver dies when the last one has come.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, TypedSink, WriterContext
from penstock.core.batch import Batch, concat
from penstock.core.ids import Epoch


class Point(Enum):
    """Where to kill, in the order of a checkpoint's way and of the kills."""

    WRITING = "before the barrier"
    FLUSHED = "after flush, before prepare"
    PREPARED = "after prepare, before publication"
    PUBLISHED = "after publication, before commit"
    MIDDLE = "in the middle of the commit"
    """Some committables are committed, others not. Without commits: some of an epoch's rows are flushed."""


@dataclass(frozen=True)
class Kills:
    """Which kills were done, as files in ``directory``.

    ``victim`` is ``worker`` or ``driver``; with any other, somebody else kills and says when it is ``end``.
    ``peers`` are the directories of all jobs of the driver.
    """

    directory: Path
    victim: str
    peers: tuple[Path, ...] = ()

    def enlist_driver(self) -> None:
        """The calling process is the driver from now on."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "driver").write_text(str(os.getpid()))

    def done(self) -> list[dict[str, Any]]:
        """What is known of each kill, in order."""
        marks = [self._mark(point) for point in Point]
        return [json.loads(mark.read_text()) for mark in marks if mark.exists()]

    def over(self) -> bool:
        """Whether all were done."""
        return self._mark(Point.MIDDLE).exists() or (self.directory / "end").exists()

    def end(self) -> None:
        """There will be no more."""
        (self.directory / "end").touch()

    def due(self, point: Point, generation: int) -> bool:
        """Whether it is the turn of ``point``, in an attempt that came after the last kill."""
        if self.victim not in ("worker", "driver"):
            return False
        done = self.done()
        turn = list(Point)[len(done)] if len(done) < len(Point) else None
        return point is turn and all(mark["generation"] < generation for mark in done)

    def publish(self, generation: int, epoch: int) -> None:
        """A checkpoint is published. Called by the driver only."""
        draft = self.directory / "published.draft"
        draft.write_text(str(epoch))
        draft.rename(self.directory / f"published-{generation}")

    def published(self, generation: int) -> int:
        """The newest epoch that the attempt has published, or 0."""
        file = self.directory / f"published-{generation}"
        return int(file.read_text()) if file.exists() else 0

    def strike(self, point: Point, generation: int, worker: int) -> None:
        """Kill, unless another process was quicker."""
        mark = self._mark(point)
        known = {"point": point.name, "epoch": self.published(generation), "generation": generation}
        text = json.dumps({**known, "time": time.time()})
        draft = mark.with_suffix(f".{os.getpid()}")
        draft.write_text(text)
        try:
            os.link(draft, mark)
        except FileExistsError:
            return
        finally:
            draft.unlink()
        if self.victim == "worker":
            os.kill(worker, signal.SIGKILL)
            return
        while not all((peer / mark.name).exists() for peer in self.peers):
            time.sleep(0.02)
        os.kill(int((self.directory / "driver").read_text()), signal.SIGKILL)

    def back(self, generation: int) -> None:
        """A writer of an attempt is there: for the seconds of recovery."""
        try:
            with (self.directory / f"up-{generation}").open("x") as file:
                file.write(str(time.time()))
        except FileExistsError:
            pass

    def recoveries(self) -> list[float]:
        """Seconds from each kill to the first writer of the next attempt."""
        ups = {int(f.name[3:]): float(f.read_text()) for f in self.directory.glob("up-*")}
        seconds = []
        for point, mark in zip(Point, self.done(), strict=True):
            files = [peer / self._mark(point).name for peer in (self.peers or [self.directory])]
            killed = max(json.loads(file.read_text())["time"] for file in files)
            back = min(at for generation, at in ups.items() if generation > mark["generation"])
            seconds.append(round(back - killed, 2))
        return seconds

    def _mark(self, point: Point) -> Path:
        return self.directory / f"{list(Point).index(point) + 1}-{point.name}"


@dataclass(frozen=True)
class Prepared:
    """A committable and who made it; ``inner`` is ``None`` for sinks that have no commits."""

    epoch: int
    generation: int
    worker: int
    inner: Any


class KillingSink(TypedSink):
    """Stands around ``inner``."""

    def __init__(self, inner: Sink, kills: Kills) -> None:
        self._inner = inner
        self._kills = kills
        self._commits = True

    def typed(self, type_info: Any) -> Sink:
        inner = self._inner
        return KillingSink(inner.typed(type_info), self._kills) if isinstance(inner, TypedSink) else self

    def check(self) -> None:
        self._inner.check()
        committer = self._inner.create_committer()
        self._commits = committer is not None
        if committer is not None:
            committer.close()

    def check_interval(self, interval_ms: int | None) -> None:
        self._inner.check_interval(interval_ms)

    def on_driver_message(self, message: Any) -> None:
        self._inner.on_driver_message(message)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        self._kills.back(context.generation)
        inner = self._inner.create_writer(context)
        return _Writer(inner, self._kills, context.generation, self._commits)

    def create_committer(self) -> Committer:
        return _Committer(self._inner.create_committer(), self._kills)


class _Writer(SinkWriter):
    def __init__(self, inner: SinkWriter, kills: Kills, generation: int, commits: bool) -> None:
        self._inner = inner
        self._kills = kills
        self._generation = generation
        self._commits = commits
        self._held: list[Batch] = []

    def _at(self, point: Point) -> bool:
        return self._kills.published(self._generation) > 0 and self._kills.due(point, self._generation)

    def _strike(self, point: Point) -> None:
        if self._at(point):
            self._kills.strike(point, self._generation, os.getpid())

    def write(self, batch: Batch) -> None:
        if not self._commits and self._at(Point.MIDDLE):
            self._held.append(batch)
            return
        self._inner.write(batch)
        self._strike(Point.WRITING)

    def flush(self, end_of_input: bool) -> None:
        if self._held:
            held, self._held = concat(self._held), []
            half = len(held) // 2
            if half:
                self._inner.write(held.slice(0, half))
                self._inner.flush(False)
            self._inner.write(held.slice(half, len(held)))
            if half:
                self._strike(Point.MIDDLE)
        self._inner.flush(end_of_input)

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        self._strike(Point.FLUSHED)
        made = self._inner.prepare_commit(epoch) if self._commits else [None]
        return [Prepared(int(epoch), self._generation, os.getpid(), item) for item in made]

    def snapshot(self, epoch: Epoch) -> list[Any]:
        state = self._inner.snapshot(epoch)
        self._strike(Point.PREPARED)
        return state

    def next_flush_ms(self) -> int | None:
        return self._inner.next_flush_ms()

    def on_time(self, now_ms: int) -> None:
        self._inner.on_time(now_ms)

    def close(self) -> None:
        self._inner.close()


class _Committer(Committer):
    def __init__(self, inner: Committer | None, kills: Kills) -> None:
        self._inner = inner
        self._kills = kills

    def commit(self, committables: Sequence[Prepared]) -> Sequence[CommitOutcome]:
        newest = max(committables, key=lambda item: (item.generation, item.epoch))
        many = len(committables) > 1 and newest.inner is not None
        self._kills.publish(newest.generation, newest.epoch)
        if self._kills.due(Point.PUBLISHED, newest.generation):
            self._kills.strike(Point.PUBLISHED, newest.generation, newest.worker)
        if not (many and self._kills.due(Point.MIDDLE, newest.generation)):
            return self._pass(committables)
        half = len(committables) // 2
        first = self._pass(committables[:half])
        self._kills.strike(Point.MIDDLE, newest.generation, newest.worker)
        return [*first, *self._pass(committables[half:])]

    def _pass(self, committables: Sequence[Prepared]) -> Sequence[CommitOutcome]:
        if self._inner is None:
            return [CommitOutcome.COMMITTED] * len(committables)
        return self._inner.commit([item.inner for item in committables])

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
