"""``penstock rescale``: a running job goes on at another parallelism, in the same driver."""

from __future__ import annotations

import click

from penstock.cli.jobs import awaited
from penstock.cli.output import say
from penstock.coordinator.events import RequestKind
from penstock.coordinator.registry import find
from penstock.core.clock import SystemClock
from penstock.core.error_codes import Code
from penstock.core.errors import ClusterError, ConfigError


@click.command()
@click.argument("job")
@click.option("-p", "--parallelism", required=True, type=click.IntRange(1), help="Subtasks of each step.")
@click.option("--timeout", default=900.0, show_default=True, help="Seconds to wait; the driver goes on.")
@click.option("--savepoint", "directory", metavar="DIR", hidden=True)
def rescale(job: str, parallelism: int, timeout: float, directory: str | None) -> None:
    """Let JOB go on at PARALLELISM: a checkpoint, then new slots that start from it.

    Steps with a parallelism of their own keep it. A job that cannot be rescaled, or whose new slots do not
    start, goes on as it was. The driver stays: started again, it has the parallelism of its command line.
    """
    if directory is not None:
        raise click.UsageError(
            "a rescale needs no savepoint any more. To have one, use penstock savepoint first; to start the "
            "program anew from one, penstock stop JOB --savepoint DIR and penstock run -p N -s PATH"
        )
    entry, clock = find(job), SystemClock()
    began = clock.monotonic()
    answer = entry.rescale(parallelism)
    if answer is None:
        raise ClusterError(f"job {entry.name!r} (pid {entry.pid}) does not answer", code=Code.DRIVER_SILENT)
    if not answer.is_good:
        raise ConfigError(f"{answer.why_not}. It runs on as it was")
    where = awaited(entry, RequestKind.RESCALE, str(answer.body["request-id"]), timeout)
    took = clock.monotonic() - began
    say(f"Job {entry.name} ({entry.id}) runs at parallelism {parallelism}, after {took:.1f} s.", err=True)
    say(where)
