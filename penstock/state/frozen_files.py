"""Frozen state as a backend's own files: what a native checkpoint stores.

Files that never change are stored once, in a directory that all checkpoints of a job share.  When one may
be left out because it is there already is argued in design note 010.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.core.handles import Blob, digest

_SHARED = "shared"


class FileStorage(Protocol):
    """Where checkpoints are kept, as far as state needs it."""

    def write_file(self, path: str, chunks: Iterable[bytes]) -> Blob:
        """Write a file durably; one that is there is replaced."""
        ...

    def read_blob(self, blob: Blob) -> bytes:
        """The bytes of a blob, verified."""
        ...


@dataclass(frozen=True, slots=True)
class FrozenFiles:
    """A directory that holds everything as it was at one moment; no file in it changes."""

    backend: str
    directory: Path
    is_lasting: Callable[[str], bool]
    """Whether a file, by name, never changes and its name is never used again: it is worth sharing."""
    description: Mapping[str, bytes]
    """More files, by name, that say what is in the others."""
    pickled: bool
    owner: str
    """Stands for the backend's instance, so that no two of them ever store a file under one name."""
    known: dict[str, Blob]
    """Lasting files that are stored already. :meth:`upload` adds those it stores, and takes out those that
    are gone from the directory: they never come back."""

    def upload(self, storage: FileStorage) -> tuple[dict[str, Blob], int]:
        """Store the lasting files that are not stored yet. Gives all of them, and the bytes written."""
        found: dict[str, Blob] = {}
        written = 0
        for file in sorted(self.directory.iterdir()):
            if not self.is_lasting(file.name):
                continue
            blob = self.known.get(file.name)
            if blob is None:
                data = file.read_bytes()
                blob = storage.write_file(f"{_SHARED}/{digest(data)}-{self.owner}", [data])
                self.known[file.name] = blob
                written += len(data)
            found[file.name] = blob
        for gone in self.known.keys() - found.keys():
            del self.known[gone]
        return found, written

    def small_files(self) -> dict[str, bytes]:
        """The rest, by name: it goes with each checkpoint."""
        files = (file for file in self.directory.iterdir() if not self.is_lasting(file.name))
        return {**{file.name: file.read_bytes() for file in files}, **self.description}

    def release(self) -> None:
        """Called on the task's thread when the writer is done, or the snapshot was aborted."""
        shutil.rmtree(self.directory, ignore_errors=True)
