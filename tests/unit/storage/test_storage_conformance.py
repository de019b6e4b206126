"""The same promises of every storage: local files, those of fsspec, an S3 server, memory, the simulator."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from penstock.storage.contract import (
    TEMPORARY,
    FoundFile,
    MissingFileError,
    NoFileSystemError,
    ShortFileError,
    Storage,
)
from penstock.storage.local import LocalStorage
from penstock.storage.memory import MemoryStorage
from penstock.storage.places import join, normalise, storage_of, url_of
from penstock.storage.remote import RemoteStorage
from penstock.testing import Faults
from penstock.testing.sim.audit import Auditor
from penstock.testing.sim.environment import SimulatedEnvironment
from penstock.testing.sim.storage import SimStorage

Place = tuple[Storage, str]


def simulated() -> SimStorage:
    world = SimulatedEnvironment(1, Faults())
    return SimStorage(world, Auditor(world, "place", 1))


KINDS = ("local", "own", "file: by fsspec", "memory: by fsspec", "s3", "memory", "simulator")
WITH_DIRECTORIES = KINDS[:4]
WITH_THREADS = [kind for kind in KINDS if kind != "simulator"]
BY_LINKS_OR_FSSPEC = ["local", "own", "memory: by fsspec"]
"""How they create a name exclusively, which may turn out not to be so."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def place(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """A storage, and a directory in it that is not there yet."""
    name = f"place-{uuid.uuid4().hex}"
    match kind:
        case "local" | "own":
            return LocalStorage(own=kind == "own"), str(tmp_path / name)
        case "file: by fsspec":
            return RemoteStorage("file:///"), (tmp_path / name).as_uri()
        case "memory: by fsspec":
            return RemoteStorage("memory://"), f"memory://{name}"
        case "s3":
            url = f"{request.getfixturevalue('s3')}/{name}"
            return RemoteStorage(url), url
        case "memory":
            return MemoryStorage(), "driver-memory:/place"
    return simulated(), "sim://place"


def written(storage: Storage, path: str, data: bytes) -> str:
    stream = storage.create(path)
    stream.write(data)
    storage.seal(stream)
    storage.sync_directories([path])
    return path


def test_a_name_is_created_once(place: Place) -> None:
    storage, top = place
    for data in (b"first", b""):
        path = join(top, "a", f"of {len(data)}")
        assert storage.create_new(path, data)
        assert not storage.create_new(path, b"second")
        assert not storage.create_new(path, data)
        assert (storage.read(path), storage.size(path)) == (data, len(data))


@pytest.mark.parametrize("kind", WITH_THREADS)
def test_of_many_creators_one_wins(place: Place) -> None:
    storage, top = place
    for number in range(3):
        path, start = join(top, str(number)), Barrier(6)

        def create(mine: int, path: str = path, start: Barrier = start) -> bool:
            start.wait()
            return storage.create_new(path, b"%d" % mine)

        with ThreadPoolExecutor(6) as threads:
            outcomes = list(threads.map(create, range(6)))
        assert outcomes.count(True) == 1
        assert storage.read(path) == b"%d" % outcomes.index(True)


def test_exclusive_creation_is_proven_and_leaves_nothing(place: Place) -> None:
    storage, top = place
    written(storage, join(top, "x"), b"")
    assert storage.creates_exclusively(top)
    assert storage.list_files(top) == [join(top, "x")] and storage.leftovers(top) == []


@pytest.mark.parametrize("kind", BY_LINKS_OR_FSSPEC)
def test_a_creation_that_replaces_is_found_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, top = place
    monkeypatch.setattr("penstock.storage.remote._proven", set())
    monkeypatch.setattr("penstock.storage.remote.create_remote", lambda fs, path, data: True)

    def refuse(*args: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert not storage.creates_exclusively(top)


def test_local_files_without_links_are_created_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    storage, path = LocalStorage(), str(tmp_path / "x")
    assert storage.create_new(path, b"1")
    (tmp_path / "x").unlink()
    (tmp_path / "x").symlink_to(tmp_path / "elsewhere")
    assert not storage.create_new(path, b"2"), "a link is a name that is taken, wherever it leads"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["x"]


def test_files_are_written_in_pieces_and_replaced(place: Place) -> None:
    storage, top = place
    path = join(top, "deep", "er", "state")
    for pieces in ([b"abc", b"", b"defg"], [b"new"]):
        with storage.writing(path) as stream:
            for piece in pieces:
                stream.write(piece)
        assert storage.read(path) == b"".join(pieces)
    assert storage.find(top) == [FoundFile(path, 3)]


def test_what_is_left_by_an_exception_is_not_there(place: Place) -> None:
    storage, top = place
    written(storage, join(top, "other"), b"")

    def interrupted() -> None:
        with storage.writing(join(top, "half")) as stream:
            stream.write(b"ha")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert storage.list_files(top) == [join(top, "other")] and storage.leftovers(top) == []


def test_streams_read_and_seek(place: Place) -> None:
    storage, top = place
    path = written(storage, join(top, "a b=%2F"), b"0123456789")
    with storage.open_read(path) as stream:
        assert (stream.read(2), stream.seek(5), bytes(stream.read())) == (b"01", 5, b"56789")


def test_ranges_are_exact(place: Place) -> None:
    storage, top = place
    path = written(storage, join(top, "x"), b"0123456789")
    ranges = [(0, None), (3, None), (3, 4), (10, None), (4, 0)]
    assert [storage.read(path, *asked) for asked in ranges] == [b"0123456789", b"3456789", b"3456", b"", b""]
    for asked in ((8, 3), (11, None)):
        with pytest.raises(ShortFileError, match="only 10 bytes"):
            storage.read(path, *asked)


def test_what_is_not_there_says_so(place: Place, kind: str) -> None:
    """First without, then with a directory around it."""
    storage, top = place
    lost = join(top, "d", "lost")
    asked: list[Callable[[str], object]] = [storage.read, storage.open_read, storage.find]
    for _ in range(2):
        for ask in asked:
            with pytest.raises(MissingFileError, match="lost"):
                ask(lost)
        assert (storage.exists(lost), storage.size(lost)) == (False, None)
        assert storage.remove(lost) == (kind == "s3"), "an object store does not tell"
        storage.remove_tree(lost)
        storage.create_new(join(top, "d", "x"), b"")
    assert storage.exists(join(top, "d")) and storage.size(join(top, "d")) is None
    with pytest.raises(MissingFileError):
        storage.read(join(top, "d"))
    assert storage.size(join(top, "d", "x", "y")) is None


def test_files_are_found_at_any_depth_and_temporary_ones_are_not(place: Place) -> None:
    storage, top = place
    names = ["a/1", "a/2", "a/c/d", "ab/1", "b"]
    for name in (*reversed(names), f"a/{TEMPORARY}x", f"{TEMPORARY}y/z"):
        written(storage, join(top, name), name.encode())
    assert storage.find(top) == [FoundFile(join(top, name), len(name)) for name in names]
    assert storage.list_files(join(top, "a")) == [join(top, name) for name in names[:3]]
    assert storage.find(join(top, "b")) == [FoundFile(join(top, "b"), 1)]


def test_files_get_other_names(place: Place) -> None:
    storage, top = place
    before, after = written(storage, join(top, "a[1]"), b"x"), join(top, "c#1")
    storage.move(before, after)
    assert storage.find(top) == [FoundFile(after, 1)] and not storage.exists(before)


def test_files_and_trees_are_removed(place: Place) -> None:
    storage, top = place
    for name in ("a/1", "a/c/d", "ab/1"):
        written(storage, join(top, name), b"")
    assert storage.remove(join(top, "ab/1"))
    written(storage, join(top, "ab/1"), b"again")
    storage.remove_tree(join(top, "a"))
    assert storage.list_files(top) == [join(top, "ab/1")] and storage.leftovers(top) == []
    storage.remove_tree(top)
    assert not storage.exists(top)


def test_directories_are_made_and_removed_where_there_are_any(place: Place, kind: str) -> None:
    storage, top = place
    for _ in range(2):
        storage.make_directory(join(top, "a", "b"))
        storage.make_own_directory(join(top, "a", "c"))
    assert storage.exists(join(top, "a", "b")) == (kind in WITH_DIRECTORIES)
    storage.remove_empty(top)
    assert storage.exists(top) == (kind in WITH_DIRECTORIES and kind not in ("local", "own"))


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("file:/a b/c/", "/a b/c"),
        ("file:///a%20b/c", "/a b/c"),
        ("file://localhost/a", "/a"),
        ("file:///a#b?c", "/a#b?c"),
        ("file:rel", str(Path("rel").absolute())),
        ("rel/", str(Path("rel").absolute())),
        ("s3://bucket/a/", "s3://bucket/a"),
        ("memory://", "memory://"),
    ],
)
def test_places_have_one_name(given: str, path: str) -> None:
    assert normalise(given) == path
    assert normalise(url_of(path)) == path


def test_names_are_joined() -> None:
    assert join("/a/", "b", "", "c") == "/a/b/c" and join("/a/") == "/a"
    assert join("memory://", "b") == "memory://b" and join("s3://a", "") == "s3://a"


def test_a_place_of_no_known_kind() -> None:
    with pytest.raises(NoFileSystemError, match="nosuchscheme"):
        storage_of("nosuchscheme://bucket/x")
