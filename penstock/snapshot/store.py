"""The door to all stores: :func:`open_store`, which proves that a place can hold snapshots.

Without exclusive creation two drivers of one job could both publish, so a remote file system that does not
have it, or only says so, is refused.
"""

from __future__ import annotations

from pathlib import Path

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, PenstockError
from penstock.snapshot.storage import SnapshotStore, root_of
from penstock.storage.contract import first_line, temporary_name
from penstock.storage.own_files import make_directory, write_file
from penstock.storage.places import is_url, url_of

_ATTEMPTS = 10
"""How often a directory that vanishes under our hands is made again."""


def open_store(url: str, create: bool = True) -> SnapshotStore:
    """The store at a path or URL.  ``create`` makes the directory and tries that it can be written."""
    store = SnapshotStore(url)
    if create and is_url(store.root):
        _check_remote(store, url)
    elif create:
        _check_local(Path(store.root))
    return store


def parent_and_name(url: str) -> tuple[str, str]:
    """A directory's URL split into the URL of its parent and its own name."""
    parent, _, name = root_of(url).rpartition("/")
    return url_of(parent or "/"), name


def local_path(url: str) -> Path | None:
    """The path of a local directory; ``None`` if it is elsewhere."""
    root = root_of(url)
    return None if is_url(root) else Path(root)


def _check_local(place: Path) -> None:
    hint = "choose another snapshot directory (execution.checkpointing.dir) or change its permissions"
    if place.exists() and not place.is_dir():
        raise ConfigError(
            f"{place} cannot hold snapshots because it is a file; {hint}", code=Code.STORE_UNUSABLE
        )
    for attempt in reversed(range(_ATTEMPTS)):
        try:
            make_directory(place)
        except OSError as error:
            raise ConfigError(
                f"{place} cannot be created ({error.strerror}); {hint}", code=Code.STORE_UNUSABLE
            ) from error
        probe = place / temporary_name()
        try:
            write_file(probe, b"")
            probe.unlink()
            return
        except OSError as error:
            # Another driver of the job, which ends at this moment, removes directories that are empty.
            if attempt and isinstance(error, FileNotFoundError):
                continue
            raise ConfigError(
                f"{place} cannot be written ({error.strerror}); {hint}", code=Code.STORE_UNUSABLE
            ) from error


def _check_remote(store: SnapshotStore, url: str) -> None:
    try:
        if store.files.size(store.root) is not None:
            raise ConfigError(
                f"{url} cannot hold snapshots because it is a file; choose another directory",
                code=Code.STORE_UNUSABLE,
            )
        if not store.files.creates_exclusively(store.root):
            raise ConfigError(
                f"{url} cannot hold snapshots: it has no exclusive creation of files (on S3: "
                f"conditional writes with If-None-Match; on HDFS: webhdfs: instead of hdfs:), so two drivers "
                f"of one job could not be kept apart. Use a server and client that support it, or a "
                f"directory all machines share",
                code=Code.STORE_UNUSABLE,
            )
    except PenstockError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{url} cannot be used for snapshots ({first_line(error)}); check the address, the "
            f"credentials and that the bucket or parent directory exists",
            code=Code.STORE_UNUSABLE,
        ) from error
