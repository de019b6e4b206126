"""``penstock backfill``: a program over its history first, then live, as one job."""

from __future__ import annotations

import os
from pathlib import Path

import click

from penstock.cli.output import say
from penstock.cli.past import read_time, substituted
from penstock.cli.program_options import check_program, program_options, settings_of
from penstock.cli.run import run_program
from penstock.connectors.combinators.backfill import Shaped, backfilled
from penstock.connectors.database.source import DatabaseSource
from penstock.connectors.files.lines import StreamFormat
from penstock.connectors.files.source import FileSource
from penstock.connectors.source import Source
from penstock.core.clock import SystemClock
from penstock.core.config import Configuration
from penstock.core.errors import GraphError
from penstock.core.ids import EventTime
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.graph.nodes import JobSpec
from penstock.replay.substitute import refuse_stamped_later

PASSWORD = "PENSTOCK_HISTORY_PASSWORD"
_DATABASES = ("mysql://", "mariadb://", "postgresql://")
_FUTURE = (
    "Warning: --switch-at lies in the future. What happens until then belongs to the history, which is read "
    "now, and is left out of the live source: it will be lost"
)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--history", required=True, metavar="PATH|URL", help="Files, or a database with --table.")
@click.option(
    "--switch-at", required=True, metavar="TIME", help="Event time at which the live stream begins."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "orc", "text"]),
    default="parquet",
    show_default=True,
    help="Of the files.",
)
@click.option("--table", help=f"Table of the database; its password is read from {PASSWORD}.")
@click.option("--time-column", metavar="NAME", help="Column with the records' timestamps, if they need one.")
@click.option("--columns", metavar="A,B", help="Columns of the live stream [default: all but --time-column].")
@click.option("--source", metavar="UID", help="The live source, by uid or name, if there are several.")
@program_options
@click.option("--name", help="Name of the job.")
@click.pass_context
def backfill(
    ctx: click.Context,
    script: Path,
    args: tuple[str, ...],
    history: str,
    switch_at: str,
    kind: str,
    table: str | None,
    time_column: str | None,
    columns: str | None,
    source: str | None,
    parallelism: int | None,
    master: str | None,
    settings: tuple[str, ...],
    name: str | None,
) -> None:
    """Run SCRIPT with ARGS over its history, then go on with its live source. One job, exactly once.

    Records before --switch-at come from the history, the others from the program's own source. A job that
    was interrupted goes on where it was when the command is given again. Once live, its checkpoints and
    savepoints fit the program without this command.
    """
    check_program(script)
    overrides = settings_of(settings, parallelism=parallelism, master=master, name=name)
    Configuration.from_dict(overrides).check()
    past = _history(history, kind, table)
    if time_column is not None or columns is not None:
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        past = Shaped(past, time_column, names)
    at = read_time(switch_at, "--switch-at")
    if at > SystemClock().now_ms():
        say(_FUTURE, err=True, colour="yellow")
    switch = _Switch(past, at, source)
    with substituted(overrides, switch.source) as launcher:
        launcher.change = switch.checked
        run_program(script, args, overrides, None, bool(ctx.find_root().params.get("debug")))


def _history(place: str, kind: str, table: str | None) -> Source:
    if not place.startswith(_DATABASES):
        if table is not None:
            raise click.UsageError("--table is for a history in a database, and this one is in files")
        if kind == "text":
            lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), place)
            return lines.build()
        return FileSource.orc(place) if kind == "orc" else FileSource.parquet(place)
    if table is None:
        raise click.UsageError("a history in a database needs --table")
    builder = DatabaseSource.builder().set_url(place).set_table(table)
    password = os.environ.get(PASSWORD)
    return (builder if password is None else builder.set_password(password)).build()


class _Switch:
    """Puts the history in front of one source of the program."""

    def __init__(self, history: Source, at: EventTime, wanted: str | None) -> None:
        self._history = history
        self._at = at
        self._wanted = wanted
        self._names: list[str] = []

    def source(self, name: str, source: Source, strategy: WatermarkStrategy) -> Source:
        """In place of ``source``."""
        self._names.append(name)
        if self._wanted not in (None, name):
            return source
        return backfilled(self._history, source, self._at, strategy)

    def checked(self, spec: JobSpec) -> JobSpec:
        """Refuse a program in which it is not clear what is live."""
        fitting = [name for name in self._names if self._wanted in (None, name)]
        if len(fitting) != 1:
            names = ", ".join(repr(name) for name in self._names)
            problem = "there is no such source" if self._wanted else "say which source is live"
            raise GraphError(f"{problem}: give one of them as --source: {names}")
        self._names = []
        for node in spec.nodes:
            if node.source is not None and (node.uid or node.name) == fitting[0]:
                refuse_stamped_later(spec.nodes, node, held=True)
        return spec
