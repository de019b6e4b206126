"""Whose state is whose: operators of a snapshot against operators of the program.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core.errors import SnapshotError
from penstock.core.ids import OperatorId
from penstock.snapshot.manifest import Manifest, OperatorEntry


@dataclass(frozen=True, slots=True)
class Matching:
    """The outcome."""

    restored: dict[OperatorId, OperatorEntry]
    """Operators of the program that have an entry in the snapshot."""
    dropped: tuple[str, ...]
    """Operators of the snapshot whose state nobody takes, described for people."""
    fresh: tuple[OperatorId, ...]
    """Operators of the program without a past: they start empty."""


def match(
    manifest: Manifest, planned: Mapping[OperatorId, str], allow_non_restored: bool = False
) -> Matching:
    """Match by operator id.  ``planned`` maps the ids of the program's operators to their names.

    State that no operator takes would be lost in silence, so it is an error unless allowed.  State is
    anything stored: keyed or operator state, positions of a source, output waiting to be committed.
    """
    dropped = tuple(
        _describe(manifest, operator_id)
        for operator_id in sorted(_stateful(manifest))
        if operator_id not in planned
    )
    if dropped and not allow_non_restored:
        entries = {entry.operator_id for entry in manifest.operators}
        fresh = sorted(name for operator_id, name in planned.items() if operator_id not in entries)
        raise SnapshotError(
            f"the snapshot has state of operators that the program does not have: {', '.join(dropped)}. "
            f"Operators of the program without state in the snapshot: {', '.join(fresh) or 'none'}. Give "
            f"operators the uid they had, or drop that state with --allow-non-restored-state"
        )
    restored = {entry.operator_id: entry for entry in manifest.operators if entry.operator_id in planned}
    fresh_ids = tuple(operator_id for operator_id in planned if operator_id not in restored)
    return Matching(restored, dropped, fresh_ids)


def _stateful(manifest: Manifest) -> set[OperatorId]:
    return (
        {entry.operator_id for entry in manifest.operators if entry.is_stateful}
        | set(manifest.enumerators)
        | {item.operator_id for item in manifest.committables}
    )


def _describe(manifest: Manifest, operator_id: OperatorId) -> str:
    entry = manifest.operator(operator_id)
    if entry is None:
        return f"operator {operator_id}"
    identity = f"uid {entry.uid!r}" if entry.uid is not None else "no uid"
    return f"{entry.name!r} ({identity}, id {operator_id})"
