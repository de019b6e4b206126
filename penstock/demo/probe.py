"""A sink that writes nothing and tells the driver when, and in which process, each attempt got to work."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from penstock.connectors.sink import Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch


@dataclass(frozen=True, slots=True)
class FirstBatch:
    """A subtask of an attempt has got its first records."""

    generation: int
    pid: int
    at_ms: int
    host: str = ""


class Probe(Sink):
    """Put it beside the step to watch. The driver's copy gathers what the writers report."""

    def __init__(self) -> None:
        self._reports: list[FirstBatch] = []

    def __reduce__(self) -> tuple[type[Probe], tuple[()]]:
        return (Probe, ())

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _ProbeWriter(context)

    def on_driver_message(self, message: FirstBatch) -> None:
        self._reports.append(message)

    def newest(self) -> FirstBatch | None:
        """The first report of the newest attempt."""
        reports = list(self._reports)
        generation = max((report.generation for report in reports), default=-1)
        newest = [report for report in reports if report.generation == generation]
        return min(newest, key=lambda report: report.at_ms, default=None)


class _ProbeWriter(SinkWriter):
    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._reported = False

    def write(self, batch: Batch) -> None:
        if not self._reported:
            self._reported = True
            context = self._context
            now, host = context.clock.now_ms(), socket.gethostname()
            context.to_driver(FirstBatch(context.generation, os.getpid(), now, host))
