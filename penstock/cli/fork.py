"""``penstock fork``: two programs from one savepoint over the same input, and what differs."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import click

from penstock.cli.output import console
from penstock.cli.past import own_checkpoints, read_time, substituted
from penstock.cli.program_options import check_program, non_restored_option, program_options, settings_of
from penstock.cli.run import run_program
from penstock.connectors.source import Source
from penstock.coordinator import registry
from penstock.core.errors import ConfigError
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.graph.nodes import JobSpec
from penstock.replay.forking import BoundedSource, Recorders, Until
from penstock.replay.substitute import part_by_part, refuse_stamped_later
from penstock.snapshot.recovery import read_manifest

Outputs = dict[str, Counter[str]]


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("savepoint")
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--against", type=click.Path(path_type=Path), help="The original [default: the running job's].")
@click.option("--until", metavar="TIME", help="Event time to stop at: 2026-01-31T12:00, or milliseconds.")
@click.option("--quiet-after", default=2.0, show_default=True, help="Seconds without input that end it.")
@program_options
@non_restored_option
@click.option("--show", default=20, show_default=True, help="Differing lines shown of each kind.")
@click.pass_context
def fork(
    ctx: click.Context,
    savepoint: str,
    script: Path,
    args: tuple[str, ...],
    against: Path | None,
    until: str | None,
    quiet_after: float,
    parallelism: int | None,
    master: str | None,
    settings: tuple[str, ...],
    allow_non_restored_state: bool,
    show: int,
) -> None:
    """What if SCRIPT had run instead? Both programs start from SAVEPOINT and read the same input.

    Nothing is written anywhere: sinks are replaced by recorders, and the difference is printed. Input ends
    at --until, or where the partitions end now.
    """
    original = against or _running_program(savepoint)
    overrides = settings_of(
        settings,
        parallelism=parallelism,
        master=master,
        snapshot=savepoint,
        allow_non_restored_state=allow_non_restored_state,
    )
    limit = Until(None if until is None else read_time(until, "--until"), quiet_after)
    debug = bool(ctx.find_root().params.get("debug"))
    before = recorded(original, args, overrides, limit, debug)
    after = recorded(script, args, overrides, limit, debug)
    _print(before, after, original, script, show)


def recorded(
    script: Path, args: tuple[str, ...], overrides: dict[str, str], until: Until, debug: bool
) -> Outputs:
    """Run a program with bounded sources; what its sinks would have got."""
    check_program(script)
    recorders = Recorders()
    with (
        substituted(overrides, partial(_bounded, until), recorders.new) as launcher,
        own_checkpoints(overrides) as own,
    ):
        launcher.change = partial(_checked, until)
        for job in run_program(script, args, own, None, debug):
            job.result().result()
    return recorders.outputs()


def _checked(until: Until, spec: JobSpec) -> JobSpec:
    for node in spec.nodes:
        if until.time is not None and node.source is not None:
            refuse_stamped_later(spec.nodes, node)
    return spec


def _bounded(until: Until, name: str, source: Source, strategy: WatermarkStrategy) -> Source:
    return part_by_part(source, lambda part: BoundedSource(part, strategy, until))


def _running_program(savepoint: str) -> Path:
    name = read_manifest(savepoint, verify=False).manifest.job_name
    for entry in registry.entries():
        if entry.name == name and entry.command is not None:
            return Path(entry.command["directory"], entry.command["script"])
    raise ConfigError(
        f"job {name!r} does not run here under penstock run, so the original program is not known: give it "
        f"with --against"
    )


def _print(before: Outputs, after: Outputs, original: Path, changed: Path, show: int) -> None:
    out = console()
    for sink in sorted(before.keys() | after.keys()):
        old, new = before.get(sink, Counter()), after.get(sink, Counter())
        gone, come = old - new, new - old
        out.print(
            f"{sink}: {(old & new).total()} the same, {gone.total()} only from {original.name}, "
            f"{come.total()} only from {changed.name}",
        )
        for mark, lines in (("-", gone), ("+", come)):
            for line in sorted(lines.elements())[:show]:
                out.print(f"{mark} {line}")
            if lines.total() > show:
                out.print(f"{mark} ... and {lines.total() - show} more")
