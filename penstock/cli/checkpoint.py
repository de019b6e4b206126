"""``penstock checkpoint`` and ``penstock state``: what is in checkpoint directories, snapshots and operators.

Reads only, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from penstock.cli.jobs import JobOrCommand, trigger
from penstock.cli.output import age, console, moment, say, say_exactly, say_json, size, table
from penstock.core.clock import SystemClock
from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.snapshot.journal import candidates
from penstock.snapshot.manifest import Manifest, OperatorEntry
from penstock.snapshot.paths import JOURNAL
from penstock.snapshot.reading import load_entries
from penstock.snapshot.recovery import load_published, read_manifest, verify_files
from penstock.snapshot.storage import SnapshotStore
from penstock.snapshot.store import open_store
from penstock.snapshot.verification import CheckedFile, check_snapshot
from penstock.state_processor.snapshot import Snapshot, open_snapshot
from penstock.state_processor.values import json_text

_COLUMNS = ("OPERATOR", "PARALLELISM", "STATE", "KIND", "ENTRIES", "SIZE", "TYPED", "PICKLED")


@click.group(cls=JobOrCommand)
def checkpoint() -> None:
    """Look at checkpoints and savepoints; with the name of a running job, take one of it now."""


checkpoint.add_command(trigger)


@checkpoint.command("list")
@click.argument("directory")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs to read.")
def list_checkpoints(directory: str, as_json: bool) -> None:
    """List the jobs below DIRECTORY (or URL) and their checkpoints, newest first."""
    found = [row for name, root in _jobs(directory) for row in _published(name, root)]
    if as_json:
        say_json(found)
        return
    if not found:
        say(f"There are no checkpoints below {directory}.")
        return
    now = SystemClock().now_ms()
    rows = [
        (
            row["job"],
            row["epoch"],
            row["kind"],
            "-" if row["bytes"] is None else size(row["bytes"]),
            "-" if row["created_ms"] is None else age(now - row["created_ms"]),
            row["problem"] or row["location"],
        )
        for row in found
    ]
    columns = ("JOB", "EPOCH", "KIND", "SIZE", "AGE", "LOCATION")
    console().print(table(columns, rows, right=("EPOCH", "SIZE")))


def _jobs(directory: str) -> Iterator[tuple[str, SnapshotStore]]:
    if "://" not in directory and not Path(directory).is_dir():
        raise SnapshotError(f"there is no directory {directory}")
    store = open_store(directory, create=False)
    parts = [path.split("/") for path in store.list()]
    if any(path[0] == JOURNAL for path in parts):
        yield store.url.rsplit("/", 1)[-1], store
    for name in sorted({path[0] for path in parts if len(path) > 2 and path[1] == JOURNAL}):
        yield name, store.sub(name)


def _published(job: str, root: SnapshotStore) -> Iterator[dict[str, Any]]:
    for entry in candidates(load_entries(root)):
        row: dict[str, Any] = {
            "job": job,
            "epoch": entry.epoch,
            "kind": "checkpoint",
            "bytes": None,
            "created_ms": None,
            "location": f"{root.url}/{entry.location}",
            "problem": None,
        }
        try:
            _, found = load_published(root, entry)
        except SnapshotError as error:
            yield row | {"problem": str(error)}
            continue
        manifest = found.manifest
        yield row | {
            "job": manifest.job_name,
            "kind": manifest.kind.value,
            "bytes": entry.manifest_length + sum(b.length for b in manifest.blobs() if b.inline is None),
            "created_ms": manifest.created_ms,
            "location": str(found.location).removesuffix("/_metadata"),
        }


@checkpoint.command()
@click.argument("path")
def show(path: str) -> None:
    """Describe one snapshot and verify its files. PATH: a chk-N directory, a savepoint, or a job's."""
    found = read_manifest(path, verify=False)
    manifest = found.manifest
    out = console()
    out.print(f"{manifest.kind.value} {manifest.epoch} of job {manifest.job_name} ({manifest.job_id})")
    out.print(f"at {found.location}")
    out.print(
        f"created {moment(manifest.created_ms)} UTC by Penstock {manifest.penstock_version}, "
        f"Spark {manifest.spark_version or '-'}, generation {manifest.generation}"
    )
    columns = ("STEP", "UID", "PARALLELISM", "MAX", "STATE", "COMMITTABLES", "PICKLED", "FINISHED")
    rows = [_operator(manifest, entry) for entry in manifest.operators]
    out.print(table(columns, rows, right=columns[2:6]))
    try:
        verify_files(open_store(found.location.root, create=False), manifest, checksums=True)
    except CorruptSnapshotError as error:
        raise CorruptSnapshotError(f"{error}. This snapshot cannot be restored.") from error
    total = sum(blob.length for blob in manifest.blobs())
    out.print(f"{size(total)} of state in {len(manifest.files())} files: all present, checksums right.")


@checkpoint.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs to read.")
def verify(path: str, as_json: bool) -> None:
    """Read every byte of a snapshot and report every damage. Exit status 1 if there is any.

    PATH: a chk-N directory, a savepoint, a manifest, or a job's directory (all its checkpoints and its
    journal).
    """
    checked = []
    out = console()
    with out.status("reading ...") if out.is_terminal else nullcontext() as status:
        read = 0
        for file in check_snapshot(path):
            checked.append(file)
            read += file.length
            if not as_json:
                _print_checked(file)
            if status is not None:
                status.update(f"{len(checked)} files, {size(read)} read ...")
    if as_json:
        say_json([asdict(file) for file in checked])
    damaged = [file for file in checked if file.problems]
    if damaged:
        raise CorruptSnapshotError(
            f"{len(damaged)} of {len(checked)} files are damaged. Bring them back from a copy, or restore "
            f"another snapshot; a job's newest whole checkpoint is found by itself"
        )
    if not as_json:
        say(f"{len(checked)} files, {size(read)}: all present, checksums right.")


def _print_checked(file: CheckedFile) -> None:
    say(f"{'DAMAGED' if file.problems else 'ok':8}{size(file.length):>12}  {file.name}")
    for problem in file.problems:
        say(f"{'':8}{'':12}  {problem}")


def _operator(manifest: Manifest, entry: OperatorEntry) -> tuple[object, ...]:
    blobs = [blob for subtask in entry.subtasks for blob in subtask.state.blobs()]
    pickled = any(handle.pickled for subtask in entry.subtasks for handle in subtask.state.keyed)
    pickled = pickled or any(subtask.state.lists is not None for subtask in entry.subtasks)
    finished = sum(subtask.finished for subtask in entry.subtasks)
    waiting = sum(item.operator_id == entry.operator_id for item in manifest.committables)
    return (
        entry.name,
        entry.uid or "-",
        entry.parallelism,
        entry.max_parallelism,
        size(sum(blob.length for blob in blobs)),
        waiting,
        "yes" if pickled else "no",
        f"{finished} of {len(entry.subtasks)}" if finished else "-",
    )


@click.group()
def state() -> None:
    """Look into the state of a snapshot."""


@state.command("show")
@click.argument("path")
@click.option("--operator", metavar="UID", help="Only this operator, by uid, name or id.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs to read.")
def show_state(path: str, operator: str | None, as_json: bool) -> None:
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
