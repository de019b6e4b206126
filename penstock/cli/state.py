"""``penstock state``: what the operators of a snapshot hold. Reads only, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import click
import pyarrow as pa

from penstock.cli.output import console, say_exactly, say_json, size, table
from penstock.state_processor.snapshot import Snapshot, open_snapshot
from penstock.state_processor.values import json_text


@click.group()
def state() -> None:
    """Look into the state of a snapshot."""


@state.command()
@click.argument("path")
@click.option("--operator", metavar="UID", help="Only this operator, by uid, name or id.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs to read.")
def show(path: str, operator: str | None, as_json: bool) -> None:
    """List the operators and states in the snapshot at PATH: a savepoint, a chk-N directory, or a job's."""
    snapshot = open_snapshot(path)
    states = snapshot.states(operator).to_pylist()
    if as_json:
        say_json(states)
        return
    manifest = snapshot.manifest
    out = console()
    out.print(
        f"{manifest.kind.value} {manifest.epoch} of job {manifest.job_name or '-'} at {snapshot.location}"
    )
    out.print(table(_COLUMNS, _rows(snapshot, states), right=_COLUMNS[1:2] + _COLUMNS[4:6]))


_COLUMNS = ("OPERATOR", "PARALLELISM", "STATE", "KIND", "ENTRIES", "SIZE", "TYPED", "PICKLED")


def _rows(snapshot: Snapshot, states: list[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    before = None
    for row in states:
        entry = snapshot.operator(row["operator_id"])
        first = row["operator_id"] != before
        before = row["operator_id"]
        yield (
            row["operator"] if first else "",
            f"{entry.parallelism} of {entry.max_parallelism}" if first else "",
            row["state"],
            row["kind"],
            "?" if row["entries"] is None else row["entries"],
            size(row["bytes"]),
            row["typed"] or "-",
            ", ".join(row["pickled"]) or "-",
        )


@state.command()
@click.argument("path")
@click.option("--operator", metavar="UID", required=True, help="The operator, by uid, name or id.")
@click.option("--state", "name", metavar="NAME", required=True, help='The state; "timers" for its timers.')
@click.option("--key", help="Only this key: as text, or as JSON if it is a tuple.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Most rows shown.")
@click.option("--trusted", is_flag=True, help="Load pickled values: you know who wrote the snapshot.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a row.")
def query(
    path: str, operator: str, name: str, key: str | None, limit: int, trusted: bool, as_json: bool
) -> None:
    """Show rows of one state of the snapshot at PATH."""
    snapshot = open_snapshot(path, trusted)
    found = snapshot.timers(operator) if name == "timers" else snapshot.read(operator, name)
    matching = _matching(found, key)
    shown = list(islice(matching, limit))
    if as_json:
        for row in shown:
            say_exactly(json_text(row))
        return
    out = console()
    rows = [[_text(value) for value in row.values()] for row in shown]
    out.print(table([column.upper() for column in found.column_names], rows))
    more = sum(1 for _ in matching)
    if more:
        out.print(f"{more} more; --limit shows more of them, --key one of them.")


def _matching(found: pa.Table, key: str | None) -> Iterator[dict[str, Any]]:
    """Rows as plain values; maps as dicts."""
    maps = [field.name for field in found.schema if pa.types.is_map(field.type)]
    for batch in found.to_batches():
        for row in batch.to_pylist():
            for name in maps:
                row[name] = None if row[name] is None else dict(row[name])
            if key is None or key in (_text(row.get("key")), json_text(row.get("key"))):
                yield row


def _text(value: Any) -> str:
    if isinstance(value, dict) and all(name == f"f{n}" for n, name in enumerate(value)):
        return json_text(list(value.values()))
    return value if isinstance(value, str) else json_text(value)
