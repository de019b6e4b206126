"""The line that shows how a job stands, while it runs and only on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.live import Live
from rich.text import Text

from penstock.cli.output import age, console, stages
from penstock.coordinator.running_job import RunningJob
from penstock.core.clock import SystemClock
from penstock.core.discreet import plain

_INTERVAL_S = 0.25


@contextmanager
def progress_line(jobs: Sequence[RunningJob]) -> Iterator[None]:
    """Show the newest of ``jobs``, a list that may grow, until the block ends."""
    if not sys.stdout.isatty():
        yield
        return
    stop = threading.Event()
    thread = threading.Thread(target=_show, args=(jobs, stop), daemon=True, name="penstock-progress")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _show(jobs: Sequence[RunningJob], stop: threading.Event) -> None:
    while not any(_runs(job) for job in jobs):
        if stop.wait(_INTERVAL_S):
            return
    clock = SystemClock()
    started = clock.monotonic()
    with Live(console=console(), refresh_per_second=4, transient=True) as live:
        while not stop.wait(_INTERVAL_S):
            live.update(Text(plain(line(jobs[-1], clock.monotonic() - started))))


def _runs(job: RunningJob) -> bool:
    return not job.status().is_terminal_state()


def line(job: RunningJob, seconds: float) -> str:
    """The job in one line."""
    facts = job.facts()
    beginning = f"{facts['name']}: {facts['status']} for {age(seconds * 1000)}   "
    if facts["stages"]:
        return beginning + stages(facts["stages"])
    last = facts["last_checkpoint"]
    took = f", the last in {last['duration_ms']:.0f} ms" if last else ""
    return (
        f"{beginning}checkpoints {facts['checkpoints']}{took}   restarts {facts['restarts']}   "
        f"records received {facts['records_in']:,}"
    )
