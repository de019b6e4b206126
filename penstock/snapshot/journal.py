"""The linear history that publishes snapshots, and keeps an old driver from adding to it.

Pure: entries that were read go in, a decision or the next entry to write comes out.  The argument why
this is safe, with the failure reaction behind each step, is ``docs/design/002-journal-and-fencing.md``.

The journal is a row of small files with contiguous numbers, each created only if absent, each naming
the checksum of the one before it.  A :class:`Fence` says that a driver took over or, if it is a closing
one, that the job has ended and its snapshots go; a :class:`Published` that a snapshot is complete.
Retention deletes from the low end, strictly upwards, and never the newest entry.  So that fences of attempts
that published nothing do not pile up, a fence may *carry* the publications that count: then everything below
it may be deleted in the same way.

Invariants: (1) a number is used twice only after its first entry was deleted; (2) such a leftover is
never linked to by its successor, so :func:`history` does not contain it; (3) a driver appends only
behind the last entry it has seen, so nothing it writes can come after a fence it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, NewType

from penstock.core.errors import FormatVersionError
from penstock.core.handles import digest
from penstock.core.ids import Epoch, Generation
from penstock.snapshot.paths import JOURNAL
from penstock.snapshot.strict_json import (
    Malformed,
    array,
    boolean,
    canonical,
    check_sum,
    checksum,
    fields,
    integer,
    parse,
    text,
)

Seq = NewType("Seq", int)
"""Number of a journal entry, from 1."""
FIRST = Seq(1)
"""Always a driver's claim: nobody publishes before one."""

FORMAT_VERSION = 4
"""The newest format this Penstock reads.  Since 2 an entry has its own checksum: no other entry vouches for
the newest one.  Since 3 a fence says whether the job has ended with it.  4 is a fence that carries
publications; all other entries are still written as 3."""
_PLAIN_VERSION = 3
CROWDED = 16
"""More fences than this in a journal, and the next one carries what counts."""
_REMEMBERED = 256
"""Entries never change, and a driver reads its journal again with every snapshot."""
_ENTRY_NAME = re.compile(JOURNAL + r"/([0-9]{10})\.json", re.ASCII)


@dataclass(frozen=True, slots=True)
class Published:
    """A snapshot is complete; whoever recovers may use it."""

    seq: Seq
    generation: Generation
    epoch: Epoch
    location: str
    """Manifest path below the job's root, or the URL of a savepoint's directory."""
    manifest_checksum: str
    manifest_length: int
    previous: str | None = None
    """Checksum of the entry before this one; none when carried by a fence."""
    format_version: int = _PLAIN_VERSION


@dataclass(frozen=True, slots=True)
class Fence:
    """A driver took the job over; older generations publish nothing from here on."""

    seq: Seq
    generation: Generation
    owner: str = ""
    """Random name of the driver, so that no two fences are the same bytes."""
    previous: str | None = None
    """Checksum of the entry before this one."""
    format_version: int = _PLAIN_VERSION
    closing: bool = False
    """Whether the job has ended: no snapshot below may be used, and all are being deleted."""
    carried: tuple[Published, ...] | None = None
    """The publications below that count, oldest first; ``None``: look below."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A number that is taken by bytes that are no entry: torn by a crash, or rotten."""

    seq: Seq
    checksum: str


Entry = Fence | Published | Unreadable


@dataclass(frozen=True, slots=True)
class Append:
    """The publisher may try to create this number, linked to this predecessor."""

    seq: Seq
    previous: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The publisher must stop; the sentence says why."""

    reason: str


class ClaimOutcome(Enum):
    """What became of a fence that was just created."""

    OWNER = "owner"
    """It is the newest entry of the history."""
    SUPERSEDED = "superseded"
    """It is in the history, and somebody else took over since."""
    STALE = "stale"
    """It took a number that had been used and deleted before: it counts for nothing; claim again."""


def entry_path(seq: Seq) -> str:
    """File of an entry, below the job's root."""
    return f"{JOURNAL}/{seq:010d}.json"


def seq_of(path: str) -> Seq | None:
    """Number of the entry in this file, if it is one."""
    found = _ENTRY_NAME.fullmatch(path)
    return None if found is None else Seq(int(found.group(1)))


@lru_cache(_REMEMBERED)
def encode(entry: Fence | Published) -> bytes:
    """The bytes of an entry."""
    document: dict[str, Any] = {name: getattr(entry, name) for name in _names(entry, entry.format_version)}
    document["entry"] = "fence" if isinstance(entry, Fence) else "published"
    if document.get("carried") is not None:
        document["carried"] = [{name: getattr(it, name) for name in _CARRIED} for it in document["carried"]]
    if entry.format_version >= 2:
        document["checksum"] = digest(canonical(document))
    return canonical(document)


@lru_cache(_REMEMBERED)
def decode(seq: Seq, raw: bytes) -> Entry:
    """The entry in ``raw``, found under number ``seq``."""
    try:
        document = parse(raw)
        version = integer(document.get("format_version"), "format_version", low=1)
        if version > FORMAT_VERSION:
            raise FormatVersionError(
                f"journal entry {entry_path(seq)} has format {version}, this Penstock reads up to "
                f"{FORMAT_VERSION}: a newer Penstock runs or ran this job. Use that version or later"
            )
        if version >= 2:
            check_sum(document)
        entry = _entry(document)
    except Malformed:
        return Unreadable(seq, digest(raw))
    return entry if entry.seq == seq else Unreadable(seq, digest(raw))


_CARRIED = ("seq", "generation", "epoch", "location", "manifest_checksum", "manifest_length")
_SINCE = {"closing": 3, "carried": 4}


def _names(entry: Fence | Published | type[Fence], version: int) -> list[str]:
    """Fields of an entry in a format version."""
    return [name for name in entry.__slots__ if version >= _SINCE.get(name, 1)]


def _entry(document: dict[str, Any]) -> Fence | Published:
    kind = document.pop("entry", None)
    if kind == "fence":
        names = _names(Fence, document["format_version"])
        seq, generation, owner, previous, version, *rest = fields(document, "fence", *names)
        closing = boolean(rest[0], "closing") if rest else False
        carried = _carried(rest[1], _seq(seq)) if len(rest) > 1 else None
        by = text(owner, "owner")
        return Fence(_seq(seq), _generation(generation), by, _previous(previous), version, closing, carried)
    if kind != "published":
        raise Malformed("neither a fence nor a publication")
    names = list(Published.__slots__)
    *what, previous, version = fields(document, "published", *names)
    return replace(_published(*what), previous=_previous(previous), format_version=version)


def _published(seq: Any, generation: Any, epoch: Any, location: Any, promised: Any, length: Any) -> Published:
    return Published(
        _seq(seq),
        _generation(generation),
        Epoch(integer(epoch, "epoch")),
        text(location, "location"),
        checksum(promised, "manifest_checksum"),
        integer(length, "manifest_length"),
    )


def _carried(value: Any, below: Seq) -> tuple[Published, ...] | None:
    if value is None:
        return None
    items = array(value, "carried")
    found = tuple(_published(*fields(item, "carried", *_CARRIED)) for item in items)
    numbers = [entry.seq for entry in found]
    if numbers != sorted(set(numbers)) or any(number >= below for number in numbers):
        raise Malformed("carried publications are not in order")
    return found


def _seq(value: Any) -> Seq:
    return Seq(integer(value, "seq", 1, 9_999_999_999))


def _generation(value: Any) -> Generation:
    return Generation(integer(value, "generation"))


def _previous(value: Any) -> str | None:
    return None if value is None else checksum(value, "previous")


def link(entry: Entry) -> str:
    """What the next entry must name as its ``previous``."""
    return entry.checksum if isinstance(entry, Unreadable) else digest(encode(entry))


def history(entries: Iterable[Entry]) -> list[Entry]:
    """The entries that count, oldest first: those linked, one by one, to the newest.

    Everything else is a leftover of a driver that wrote to a number already deleted.
    """
    chain: list[Entry] = []
    for entry in sorted(entries, key=lambda entry: entry.seq, reverse=True):
        if chain:
            later = chain[-1]
            linked = isinstance(later, Unreadable) or later.previous == link(entry)
            if entry.seq != later.seq - 1 or not linked:
                break
        chain.append(entry)
    chain.reverse()
    return chain


def next_generation(entries: Iterable[Entry], first: int = 1) -> Generation:
    """A generation above all that were ever seen, ``first`` if none was; an unreadable entry may hide one."""
    found = list(entries)
    known = [int(entry.generation) for entry in found if not isinstance(entry, Unreadable)]
    return Generation(max(known, default=first - 1) + 1 + (len(found) - len(known)))


def takeover(
    entries: Iterable[Entry],
    owner: str = "",
    closing: bool = False,
    first: int = 1,
    carried: Iterable[Published] | None = None,
) -> Fence:
    """The fence with which a driver takes the job over, or closes it; ``first`` begins an empty journal."""
    found = list(entries)
    last = max(found, key=lambda entry: entry.seq, default=None)
    generation = next_generation(found, first)
    if last is None:
        return Fence(FIRST, generation, owner, closing=closing)
    fence = Fence(Seq(last.seq + 1), generation, owner, link(last), closing=closing)
    if carried is None:
        return fence
    plain = (replace(entry, previous=None, format_version=_PLAIN_VERSION) for entry in carried)
    return replace(fence, format_version=FORMAT_VERSION, carried=tuple(plain))


def is_crowded(entries: Iterable[Entry]) -> bool:
    """Whether fences have piled up, and nothing is wrong that one which carries what counts would hide."""
    chain = history(entries)
    if any(isinstance(entry, Unreadable) for entry in chain) or lost_entry(chain) is not None:
        return False
    return sum(isinstance(entry, Fence) for entry in chain) > CROWDED


def claim_outcome(entries: Iterable[Entry], fence: Fence) -> ClaimOutcome:
    """Judge a fence by what was read *after* it was created.

    A number is only deleted after the one below it, so if the fence took a used number, its
    predecessor is gone too (or is somebody's leftover with other bytes).
    """
    chain = history(entries)
    if fence not in chain:
        return ClaimOutcome.STALE
    position = chain.index(fence)
    if position == 0 and fence.seq > 1:
        return ClaimOutcome.STALE
    return ClaimOutcome.OWNER if position == len(chain) - 1 else ClaimOutcome.SUPERSEDED


def may_publish(
    entries: Iterable[Entry], generation: Generation, behind: Entry | None = None
) -> Append | Refused:
    """Whether the driver of ``generation`` may append, as far as these entries tell.

    ``behind`` is the newest entry the driver knows to be in the history.  If it is no longer there,
    numbers above it may have been deleted too, and what looks free may have been used.
    """
    chain = history(entries)
    if not chain or (behind is not None and behind not in chain):
        return Refused("what this driver wrote is gone from the journal")
    last = chain[-1]
    if isinstance(last, Unreadable):
        return Refused(f"journal entry {entry_path(last.seq)} is unreadable and may be a takeover")
    if last.generation != generation:
        return Refused(
            f"generation {last.generation} wrote the newest journal entry, this is generation {generation}"
        )
    return Append(Seq(last.seq + 1), link(last))


def candidates(entries: Iterable[Entry]) -> list[Published]:
    """Snapshots that may be recovered from, newest first."""
    found: list[Published] = []
    fenced = Generation(0)
    for entry in since_closed(entries):
        if isinstance(entry, Fence):
            fenced = max(fenced, entry.generation)
            found = found if entry.carried is None else list(entry.carried)
        elif isinstance(entry, Published) and entry.generation >= fenced:
            found.append(entry)
    found.reverse()
    return found


def newest_manifest(entries: Iterable[Entry]) -> str | None:
    """Checksum of the newest snapshot's manifest: what changes when somebody publishes, or ends the job."""
    found = candidates(entries)
    return found[0].manifest_checksum if found else None


def told_by(entries: Iterable[Entry], published: Published) -> Seq:
    """Number of the entry that must stay as long as this snapshot is to be found."""
    carrying = [e.seq for e in since_closed(entries) if isinstance(e, Fence) and e.carried is not None]
    above = [seq for seq in carrying if seq > published.seq]
    return max(above, default=published.seq)


def since_closed(entries: Iterable[Entry]) -> list[Entry]:
    """The history from the newest closing fence on, or all of it."""
    chain = history(entries)
    closed = [place for place, entry in enumerate(chain) if isinstance(entry, Fence) and entry.closing]
    return chain[closed[-1] :] if closed else chain


def lost_entry(entries: Iterable[Entry]) -> Seq | None:
    """Number of an entry that nobody had a reason to delete, if one is missing.

    Retention, however far it got, leaves a publication in the history, and the end of a job a closing
    fence.  If there are only plain fences, all of them from number 1 on must be there, unless one of them
    carries what counted below.
    """
    chain = history(entries)
    if not chain or chain[0].seq == 1:
        return None
    plain = all(isinstance(e, Fence) and not e.closing and e.carried is None for e in chain)
    return Seq(chain[0].seq - 1) if plain else None


def next_epoch(entries: Iterable[Entry], known_max: Epoch | None = None) -> Epoch:
    """An epoch above all published ones and above ``known_max`` (the directories that exist)."""
    known = [int(known_max or 0)]
    for entry in entries:
        carried = entry.carried or () if isinstance(entry, Fence) else (entry,)
        known += [int(it.epoch) for it in carried if isinstance(it, Published)]
    return Epoch(max(known) + 1)
