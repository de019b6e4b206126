"""The list of files that a database has stored: as long as the database has files, however old it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from penstock.core.handles import Blob, digest
from penstock.snapshot.storage import MemoryStore
from penstock.state.backend import FrozenFiles
from penstock.state.rocks.files import is_rows

LIVE = 6


def frozen(directory: Path, numbers: Iterable[int], known: dict[str, Blob]) -> FrozenFiles:
    """A checkpoint's directory with these files of rows, and one that always changes."""
    directory.mkdir()
    for number in numbers:
        (directory / f"{number:06}.sst").write_bytes(b"rows %d" % number)
    (directory / "CURRENT").write_bytes(b"current")
    return FrozenFiles("rocksdb", directory, is_rows, {}, False, "me", known)


def test_thousands_of_compactions_leave_a_short_list(quick_disk: Path) -> None:
    store, known, most = MemoryStore(), dict[str, Blob](), 0
    for round_ in range(3000):
        live = range(round_ * 3, round_ * 3 + LIVE)  # three are new, three are compacted away
        part = frozen(quick_disk / "scratch", live, known)
        found, written = part.upload(store)
        assert set(found) == {f"{number:06}.sst" for number in live}
        assert written == sum(len(b"rows %d" % number) for number in (live if round_ == 0 else live[3:]))
        part.release()
        most = max(most, len(known))
    assert most == LIVE


def test_an_upload_that_breaks_off_forgets_nothing(quick_disk: Path) -> None:
    class Breaking(MemoryStore):
        broken = False

        def write_file(self, path: str, chunks: Iterable[bytes]) -> Blob:
            if self.broken and path.startswith(f"shared/{digest(b'rows 9')}"):
                raise OSError("no space left")
            return super().write_file(path, chunks)

    store, known = Breaking(), dict[str, Blob]()
    frozen(quick_disk / "a", range(5), known).upload(store)
    store.broken = True
    with pytest.raises(OSError, match="no space"):
        frozen(quick_disk / "b", (3, 4, 8, 9), known).upload(store)
    assert len(known) == 6, "8 is stored, 9 is not, and the old ones may still be wanted"
    store.broken = False
    _, written = frozen(quick_disk / "c", (3, 4, 8, 9), known).upload(store)
    assert written == len(b"rows 9") and len(known) == 4


def test_an_older_snapshot_that_is_uploaded_later_stores_what_it_needs(quick_disk: Path) -> None:
    store, known = MemoryStore(), dict[str, Blob]()
    older = frozen(quick_disk / "older", (1, 2), known)
    frozen(quick_disk / "newer", (2, 3), known).upload(store)
    found, _ = older.upload(store)
    assert {name: store.read_blob(blob) for name, blob in found.items()} == {
        "000001.sst": b"rows 1",
        "000002.sst": b"rows 2",
    }
