"""What every snapshot store must do.  Subclass, return an empty store, run with pytest.

::

    class TestMyStore(StoreSuite):
        def new_store(self) -> SnapshotStore:
            return MyStore(...)
"""

from __future__ import annotations

import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path

from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.core.handles import Blob, digest
from penstock.snapshot.storage import SnapshotStore

_BAD_PATHS = ("", "/etc/passwd", "../up", "a/../b", "a//b", "a/./b", "a\\b", "a\0b", "a/")


class StoreSuite(ABC):
    """The contract of :class:`~penstock.snapshot.storage.SnapshotStore`, one test per promise."""

    @abstractmethod
    def new_store(self) -> SnapshotStore:
        """An empty store that no other test uses."""

    def test_created_bytes_are_read_back(self) -> None:
        """Creation makes exactly the bytes given."""
        store = self.new_store()
        assert store.create_if_absent("a/b/c", b"hello")
        assert store.read("a/b/c") == b"hello"
        assert store.size("a/b/c") == 5
        assert store.exists("a/b/c")

    def test_a_name_is_created_once(self) -> None:
        """The second creation is refused and changes nothing, also for equal bytes."""
        store = self.new_store()
        assert store.create_if_absent("x", b"first")
        assert not store.create_if_absent("x", b"second")
        assert not store.create_if_absent("x", b"first")
        assert store.read("x") == b"first"

    def test_of_many_creators_one_wins(self) -> None:
        """However threads are timed, exactly one creates, and its bytes stay."""
        store = self.new_store()
        for round_number in range(5):
            path = f"journal/{round_number:010d}.json"
            outcomes = _race(8, partial(_create_numbered, store, path))
            winners = [index for index, created in enumerate(outcomes) if created]
            assert len(winners) == 1
            assert store.read(path) == b"%d" % winners[0]

    def test_a_deleted_name_can_be_created_again(self) -> None:
        """Deletion forgets the name."""
        store = self.new_store()
        store.create_if_absent("x", b"first")
        store.delete("x")
        assert not store.exists("x")
        assert store.create_if_absent("x", b"second")

    def test_written_files_have_length_and_checksum(self) -> None:
        """A writer counts and sums what it was given."""
        store = self.new_store()
        with store.write("chk-1/state") as writer:
            writer.write(b"abc")
            writer.write(b"")
            writer.write(b"defg")
        assert writer.blob() == Blob(7, digest(b"abcdefg"), "chk-1/state")
        assert store.read("chk-1/state") == b"abcdefg"
        assert store.write_file("chk-1/state", [b"new"]) == Blob(3, digest(b"new"), "chk-1/state")
        assert store.read("chk-1/state") == b"new"

    def test_an_interrupted_file_does_not_appear(self) -> None:
        """Leaving the writer by an exception leaves nothing behind."""
        store = self.new_store()

        def interrupted() -> None:
            with store.write("chk-1/state") as writer:
                writer.write(b"half")
                raise KeyError("interrupted")

        _expect(KeyError, interrupted)
        assert not store.exists("chk-1/state")
        assert store.list() == []

    def test_ranges_are_exact(self) -> None:
        """A range gives its bytes; one that is not there is corruption."""
        store = self.new_store()
        store.create_if_absent("x", b"0123456789")
        assert store.read("x", 3) == b"3456789"
        assert store.read("x", 3, 4) == b"3456"
        assert store.read("x", 10) == b""
        assert store.read("x", 4, 0) == b""
        _expect(CorruptSnapshotError, lambda: store.read("x", 8, 3))
        _expect(CorruptSnapshotError, lambda: store.read("x", 11))

    def test_missing_files_are_corruption(self) -> None:
        """Reading what is not there says so; asking for its size does not fail."""
        store = self.new_store()
        store.create_if_absent("d/x", b"1")
        _expect(CorruptSnapshotError, lambda: store.read("missing"))
        _expect(CorruptSnapshotError, lambda: store.read("d/missing"))
        assert store.size("missing") is None
        assert store.size("d") is None
        assert not store.exists("d/x/y")

    def test_blobs_are_verified(self) -> None:
        """Other bytes than promised are corruption, inline or stored."""
        store = self.new_store()
        store.create_if_absent("x", b"..state..")
        assert store.read_blob(Blob(5, digest(b"state"), "x", 2)) == b"state"
        assert store.read_blob(Blob.of(b"inline")) == b"inline"
        _expect(CorruptSnapshotError, lambda: store.read_blob(Blob(5, digest(b"STATE"), "x", 2)))
        _expect(CorruptSnapshotError, lambda: store.read_blob(Blob(3, digest(b"abc"), inline=b"abd")))
        _expect(CorruptSnapshotError, lambda: store.read_blob(Blob(9, digest(b"state"), "x", 2)))

    def test_local_files_are_stored_and_fetched(self) -> None:
        """The bytes of a local file come back as one; other bytes than promised do not."""
        store = self.new_store()
        with tempfile.TemporaryDirectory() as directory:
            file, other = Path(directory, "file"), Path(directory, "other")
            file.write_bytes(b"rows" * 700_000)
            blob = store.store("shared/x", file)
            assert blob == Blob(2_800_000, digest(b"rows" * 700_000), "shared/x")
            file.unlink()
            store.fetch([(blob, file), (Blob(4, digest(b"rows"), "shared/x", 4), other)])
            assert file.read_bytes() == b"rows" * 700_000
            assert other.read_bytes() == b"rows"
            wrong = [(Blob(4, digest(b"ROWS"), "shared/x"), Path(directory, "wrong"))]
            _expect(CorruptSnapshotError, lambda: store.fetch(wrong))
            assert not Path(directory, "wrong").exists()

    def test_listing_is_deep_sorted_and_relative(self) -> None:
        """A listing names every file below a directory, and not its namesakes."""
        store = self.new_store()
        for path in ("b", "a/2", "a/1", "a/c/d", "ab/1"):
            store.create_if_absent(path, b"")
        assert store.list() == ["a/1", "a/2", "a/c/d", "ab/1", "b"]
        assert store.list("a") == ["a/1", "a/2", "a/c/d"]
        assert store.list("nowhere") == []

    def test_trees_are_deleted_whole(self) -> None:
        """Deleting a directory takes everything in it and nothing else; missing things are fine."""
        store = self.new_store()
        for path in ("a/1", "a/c/d", "ab/1"):
            store.create_if_absent(path, b"")
        store.delete_tree("a")
        store.delete_tree("a")
        store.delete("a/1")
        assert store.list() == ["ab/1"]
        store.delete_tree()
        assert store.list() == []
        assert store.create_if_absent("again", b"")

    def test_sub_stores_see_their_part(self) -> None:
        """A sub store is the same tree with another root."""
        store = self.new_store()
        inner = store.sub("job/one")
        assert inner.create_if_absent("chk-1/x", b"1")
        assert store.read("job/one/chk-1/x") == b"1"
        store.create_if_absent("job/two/y", b"2")
        assert inner.list() == ["chk-1/x"]
        inner.delete_tree()
        assert store.list() == ["job/two/y"]

    def test_paths_cannot_leave_the_store(self) -> None:
        """Absolute paths and '..' are refused by every method."""
        store = self.new_store()
        for path in _BAD_PATHS:
            for method in (store.read, store.size, store.delete, store.write, store.sub):
                _expect(SnapshotError, partial(method, path))
            _expect(SnapshotError, partial(store.create_if_absent, path, b""))
            if path:
                _expect(SnapshotError, partial(store.list, path))
                _expect(SnapshotError, partial(store.delete_tree, path))

    def test_large_files(self) -> None:
        """A few megabytes, in pieces, come back whole."""
        store = self.new_store()
        pieces = [bytes([n]) * 65_536 for n in range(64)]
        blob = store.write_file("big", pieces)
        assert blob.length == 64 * 65_536
        assert store.read_blob(blob) == b"".join(pieces)
        assert store.read("big", 65_536 * 3, 2) == b"\3\3"


def _create_numbered(store: SnapshotStore, path: str, number: int) -> bool:
    return store.create_if_absent(path, b"%d" % number)


def _race(count: int, work: Callable[[int], bool]) -> list[bool]:
    outcomes = [False] * count
    start = threading.Barrier(count)

    def run(index: int) -> None:
        start.wait()
        outcomes[index] = work(index)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def _expect(kind: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was expected")
