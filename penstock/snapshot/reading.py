"""Reading a journal again and again, and each of its entries once.

Entries never change, but a number can be deleted and used anew.  So what was read before counts only while
the entry above it, read now or vouched for in the same way, names its checksum; the newest is always read.
"""

from __future__ import annotations

from penstock.core.errors import CorruptSnapshotError
from penstock.core.handles import digest
from penstock.snapshot.journal import Entry, Seq, Unreadable, decode, entry_path, seq_of
from penstock.snapshot.paths import JOURNAL
from penstock.snapshot.storage import SnapshotStore


class JournalReader:
    """Reads the journal below a job's root."""

    def __init__(self, root: SnapshotStore) -> None:
        self._root = root
        self._known: dict[Seq, bytes] = {}

    def load(self, anew: Seq | None = None) -> list[Entry]:
        """All entries, as they were at one moment.  From number ``anew`` on, all are read whatever is known.

        An entry that vanishes between listing and reading was deleted by retention, so there are newer
        ones that the listing may lack: it is repeated.
        """
        while True:
            listed = (seq_of(path) for path in self._root.list(JOURNAL))
            entries = self._read(sorted((seq for seq in listed if seq is not None), reverse=True), anew)
            if entries is not None:
                return entries

    def _read(self, numbers: list[Seq], anew: Seq | None) -> list[Entry] | None:
        entries: list[Entry] = []
        read: dict[Seq, bytes] = {}
        for number in numbers:
            above = entries[-1] if entries and (anew is None or number < anew) else None
            raw = self._vouched_for(number, above)
            if raw is None:
                try:
                    raw = self._root.read(entry_path(number))
                except CorruptSnapshotError:
                    return None
            read[number] = raw
            entries.append(decode(number, raw))
        self._known = read
        entries.reverse()
        return entries

    def _vouched_for(self, number: Seq, above: Entry | None) -> bytes | None:
        known = self._known.get(number)
        if known is None or above is None or isinstance(above, Unreadable) or above.seq != number + 1:
            return None
        return known if above.previous == digest(known) else None


def load_entries(root: SnapshotStore) -> list[Entry]:
    """All journal entries below a job's root."""
    return JournalReader(root).load()
