"""Taking over the bytes of an existing snapshot into a savepoint's own directory, edited on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.core.handles import Blob, KeyedHandle, KeyedPiece
from penstock.snapshot.storage import SnapshotStore
from penstock.state.rocks.files import NativeBlocks
from penstock.state_processor.block import untrusted
from penstock.state_processor.editing import Edits, converted, edited
from penstock.state_processor.files import new_path


class Copier:
    """Copies blobs from one store to another; what is carried in the manifest stays there."""

    def __init__(self, source: SnapshotStore, target: SnapshotStore, trusted: bool) -> None:
        self._source = source
        self._target = target
        self._trusted = trusted

    def blob(self, blob: Blob) -> Blob:
        """The same bytes, verified, in the new place."""
        if blob.inline is not None:
            return blob
        return self._written([self._source.read_blob(blob)])

    def keyed(self, pieces: Iterable[KeyedPiece], edits: Edits, max_parallelism: int) -> list[KeyedPiece]:
        """Pieces of keyed state after the edits; empty ones are left out."""
        found: list[KeyedPiece] = []
        for piece in pieces:
            if isinstance(piece, KeyedHandle) and not edits:
                found.append(KeyedHandle(self.blob(piece.blob), piece.key_groups, piece.pickled))
                continue
            handle = self._rewritten(piece, edits, max_parallelism)
            if handle.blob.length:
                found.append(handle)
        return found

    def _rewritten(self, piece: KeyedPiece, edits: Edits, max_parallelism: int) -> KeyedHandle:
        pickled = False

        def data() -> Iterator[bytes]:
            nonlocal pickled
            for block, opaque in self._blocks(piece, edits, max_parallelism):
                pickled = pickled or opaque
                yield block

        return KeyedHandle(self._written(data()), piece.key_groups, pickled)

    def _blocks(self, piece: KeyedPiece, edits: Edits, max_parallelism: int) -> Iterator[tuple[bytes, bool]]:
        if isinstance(piece, KeyedHandle):
            data = self._source.read_blob(piece.blob)
            return edited(data, edits, max_parallelism, self._trusted)
        if not self._trusted:
            raise untrusted(f"a checkpoint of the backend {piece.backend}", ["keyed state"])
        tables = NativeBlocks(piece, self._source, *piece.key_groups).tables()
        return converted(tables, edits, max_parallelism)

    def _written(self, data: Iterable[bytes]) -> Blob:
        return self._target.write_file(new_path(), data)
