"""``penstock replay``: a program over a piece of the past, and how that differs from last time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from penstock.cli.output import as_file_name, console, moment, say
from penstock.cli.past import PastPlace, own_checkpoints, read_place, substituted
from penstock.cli.program_options import check_program, non_restored_option, program_options, settings_of
from penstock.cli.run import run_program
from penstock.connectors.source import Source
from penstock.core.errors import ConfigError
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.graph.explain import wall_clock
from penstock.graph.nodes import JobSpec
from penstock.replay.difference import NOTE, Difference, compare, note_of
from penstock.replay.replayed import (
    Ends,
    Piece,
    ReplayedSink,
    ReplayedSource,
    refuse_uncut,
    replayed,
)

PLACE = "TIME|OFFSETS|SNAPSHOT"


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--from", "start", metavar=PLACE, required=True, help='Where to begin; "earliest" is a place.')
@click.option(
    "--until", "end", metavar="TIME|OFFSETS", help="Where to end [default: where the input ends now]."
)
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("replay"),
    show_default=True,
    help="Where what sinks would get is written.",
)
@click.option("--compare", "old", metavar="OLD", type=click.Path(path_type=Path), help="An earlier --output.")
@program_options
@non_restored_option
@click.option("--show", default=20, show_default=True, help="Differing records shown of each kind.")
@click.pass_context
def replay(
    ctx: click.Context,
    script: Path,
    args: tuple[str, ...],
    start: str,
    end: str | None,
    output: Path,
    old: Path | None,
    parallelism: int | None,
    master: str | None,
    settings: tuple[str, ...],
    allow_non_restored_state: bool,
    show: int,
) -> None:
    """Run SCRIPT with ARGS over a piece of the past, and write what its sinks get to files.

    Nothing else is touched. The piece is given by event times, by offsets (clicks-0=120,clicks-1=98, or a
    JSON file of them), or begins at a savepoint or checkpoint. With --compare the same piece as then is
    read, and the exit status is 1 if the results differ.
    """
    check_program(script)
    _check_output(output)
    begin, stop = _places(start, end)
    overrides = settings_of(
        settings,
        parallelism=parallelism,
        master=master,
        snapshot=begin.snapshot,
        allow_non_restored_state=allow_non_restored_state,
    )
    then = {} if old is None else note_of(old)
    ends = _Replay(begin, stop, output, then if end is None else {})
    with substituted(overrides, ends.source, ends.sink) as launcher, own_checkpoints(overrides) as own:
        launcher.change = ends.checked
        jobs = run_program(script, args, own, None, bool(ctx.find_root().params.get("debug")))
        for job in jobs:
            job.result().result()
    _warn(launcher.specs)
    ends.write_note(script, start, end)
    out = console()
    out.print(f"replayed into {output}")
    if old is not None and not _print(out, compare(old, output), show):
        ctx.exit(1)


def _check_output(output: Path) -> None:
    if ":/" in str(output):
        raise ConfigError(f"--output is a directory that this machine sees, not a URL as {str(output)!r} is")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ConfigError(f"{str(output)!r} is not empty, or no directory; give another as --output")


def _places(start: str, end: str | None) -> tuple[PastPlace, PastPlace]:
    begin, stop = read_place(start, "--from"), read_place(end, "--until") if end else PastPlace()
    if stop.snapshot is not None:
        raise click.UsageError("--until takes a time or offsets; only --from can be a snapshot")
    if begin.time is not None and stop.time is not None and begin.time >= stop.time:
        raise click.UsageError("there is nothing to replay: --until is not behind --from")
    return begin, stop


class _Replay:
    """The ends of the replayed jobs, and what is to be remembered of them."""

    def __init__(self, begin: PastPlace, stop: PastPlace, output: Path, ends: dict[str, Ends]) -> None:
        self._piece = Piece(begin.time, stop.time, begin.offsets, stop.offsets, begin == PastPlace())
        self._output = output
        self._given = ends
        self._parts: dict[str, tuple[ReplayedSource, ...]] = {}
        self._sinks: set[str] = set()

    def source(self, name: str, source: Source, strategy: WatermarkStrategy) -> Source:
        """In place of ``source``."""
        name = _numbered(name, self._parts)
        piece, then = self._piece, self._given.get(name)
        if then is not None:
            ends = {split_id: end for split_id, end in then.items() if end is not None}
            piece = replace(piece, ends=ends, only=frozenset(then))
        made, self._parts[name] = replayed(source, strategy, piece, alone=False)
        return made

    def checked(self, spec: JobSpec) -> JobSpec:
        """Refuse a job of which the piece cannot be cut out."""
        refuse_uncut(spec.nodes, self._piece, [part for parts in self._parts.values() for part in parts])
        return spec

    def sink(self, name: str) -> ReplayedSink:
        """In place of the sink of that name."""
        directory = _numbered(as_file_name(name) or "sink", self._sinks)
        self._sinks.add(directory)
        return ReplayedSink(self._output / directory)

    def write_note(self, script: Path, start: str, end: str | None) -> None:
        """The replay is complete."""
        ends = {
            name: {split_id: end for part in parts for split_id, end in part.ends.items()}
            for name, parts in self._parts.items()
        }
        note = {"script": script.name, "from": start, "until": end, "ends": ends}
        self._output.mkdir(parents=True, exist_ok=True)
        (self._output / NOTE).write_text(json.dumps(note, indent=2))


def _numbered(name: str, taken: Collection[str]) -> str:
    """The name, or the second of it: of two steps, or of two jobs of one script, in their order."""
    numbers = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(each for each in numbers if each not in taken)


def _warn(specs: list[JobSpec]) -> None:
    for spec in specs:
        for sentence in wall_clock(spec.nodes):
            say(f"Warning: {sentence}; another run may give other results", err=True, colour="yellow")


def _print(out: Console, differences: list[Difference], show: int) -> bool:
    """Say what differs; whether nothing does."""
    for found in differences:
        out.print(
            f"{found.sink}: {found.same} the same, {len(found.gone)} only then, {len(found.come)} only now",
        )
        for mark, lines in (("-", found.gone), ("+", found.come)):
            for time, record in lines[:show]:
                at = "no event time" if time is None else moment(time)
                out.print(f"{mark} {at}  {record}")
            if len(lines) > show:
                out.print(f"{mark} ... and {len(lines) - show} more")
    equal = all(found.is_none for found in differences)
    out.print("no difference" if equal else "the results differ")
    return equal
