"""What the engine keeps on disk is for its owner only, whatever the umask says."""

from __future__ import annotations

import ast
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.connectors.log import Log, Producer
from penstock.coordinator.registry import register
from penstock.snapshot.store import open_store
from penstock.storage import own_files
from penstock.storage.places import storage_of
from penstock.storage.work_place import WorkPlace, sweep

PACKAGE = Path(__file__).resolve().parents[3] / "penstock"


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(root: Path) -> list[str]:
    """Everything below ``root`` that others may read or write, with its mode."""
    found = {path: stat.S_IMODE(path.lstat().st_mode) for path in root.rglob("*")}
    assert found, f"nothing is below {root}"
    return [f"{mode:o} {path}" for path, mode in sorted(found.items()) if mode & 0o077]


def test_directories_above_are_made_private_too(tmp_path: Path) -> None:
    made = own_files.make_directory(tmp_path / "a" / "b" / "c")
    assert made == [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"]
    assert own_files.make_directory(tmp_path / "a" / "b") == []
    own_files.write_file(tmp_path / "a" / "file", b"x")
    assert not open_to_others(tmp_path)


def test_a_directory_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(0o755)
    own_files.make_directory(tmp_path / "shared" / "mine")
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "shared" / "mine").stat().st_mode) == 0o700


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        own_files.make_directory(tmp_path / "file" / "below")


def test_snapshots_and_journals(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "new" / "checkpoints"))
    assert store.create_if_absent("job/journal/1", b"entry")
    with store.sub("job").write("shared/state") as file:
        file.write(b"rows")
    assert not open_to_others(tmp_path)


def test_the_embedded_log(tmp_path: Path) -> None:
    topic = Log(tmp_path / "log").create_topic("t", 2)
    with Producer(topic) as producer:
        producer.send(b"a")
    assert not open_to_others(tmp_path)


def test_rows_on_their_way_through_files(tmp_path: Path) -> None:
    storage = storage_of(str(tmp_path))
    storage.make_own_directory(str(tmp_path / "frames" / "one"))
    assert not open_to_others(tmp_path)
    storage.make_directory(str(tmp_path / "output"))
    assert open_to_others(tmp_path) == [f"777 {tmp_path / 'output'}"], "what sinks write is for others"


def test_work_places(tmp_path: Path) -> None:
    place = WorkPlace.make(tmp_path / "tmp", "penstock-x-")
    assert not open_to_others(tmp_path)
    sweep(tmp_path / "tmp", "penstock-x-")
    assert place.path.is_dir(), "its process lives"
    place.remove()
    assert not place.path.exists()


def test_what_others_put_beside_work_places_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place is open to all users: nobody may have a file opened, or removed, that is not ours."""
    (tmp_path / "precious").write_text("x")
    for name in ("penstock-x-link", "penstock-x-theirs"):
        (tmp_path / name).mkdir()
    (tmp_path / "penstock-x-link" / "owner").symlink_to(tmp_path / "precious")
    (tmp_path / "penstock-x-theirs" / "owner").touch()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    sweep(tmp_path, "penstock-x-")
    monkeypatch.undo()
    assert (tmp_path / "penstock-x-theirs").is_dir()
    sweep(tmp_path, "penstock-x-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["penstock-x-link", "precious"]


def test_the_registry_of_running_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "some" / "home"))
    registration = register("a" * 32, "job")
    assert registration is not None
    registration.publish("http://127.0.0.1:8081", "token")
    try:
        assert registration.entry.path.is_file() and not open_to_others(tmp_path)
    finally:
        registration.close()
        registration.socket.close()


# --- nobody goes another way ----------------------------------------------------------------------

FOR_OTHERS = {
    "storage/own_files.py": "the way",
    "storage/work_place.py": "with the modes of own_files",
    "coordinator/registry.py": "with the mode of own_files, and only if it is new",
    "connectors/log/partition.py": "with the mode of own_files",
    "storage/local.py": "what sinks write is for others to read",
    "luggage/archives.py": "with the modes of own_files; and members of archives are no files",
    "connectors/kafka/wire.py": "in a temporary directory",
    "connectors/database/mysql_bulk.py": "a temporary file is private",
    "cli/new.py": "a project is its maker's, with the rights that their files have",
    "cli/replay.py": "the output that was asked for",
    "demo/chart.py": "the output that was asked for",
    "storage/exclusive.py": "by own_files, and remote stores have rights of their own",
    "storage/remote.py": "remote stores have rights of their own",
}
"""Modules that make files or directories by themselves, and why they may."""

MAKERS = {"mkdir", "makedirs", "touch", "write_text", "write_bytes", "FileIO", "mkfifo", "mknod", "copytree"}


def makes_files(file: Path) -> Iterator[int]:
    """Lines that make a file or a directory in any other way than by :mod:`own_files`."""
    source = file.read_text(encoding="utf-8")
    if re.search(r"import (os|io|Path|FileIO|shutil)\b", source) is None:
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        texts = [arg.value for arg in [*node.args, *(k.value for k in node.keywords)] if is_text(arg)]
        writes = any(set(text) <= set("rwaxbt+") and set(text) & set("wax+") for text in texts if text)
        creates = any(isinstance(part, ast.Attribute) and part.attr == "O_CREAT" for part in ast.walk(node))
        if name in MAKERS or (name == "open" and (writes or creates)):
            yield node.lineno


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_everything_else_is_made_by_own_files() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if file.relative_to(PACKAGE).parts[0] != "testing"]
    makers = {str(file.relative_to(PACKAGE)): list(makes_files(file)) for file in files}
    found = {name for name, lines in makers.items() if lines}
    unknown = {name: makers[name] for name in found - FOR_OTHERS.keys()}
    assert {"storage/own_files.py", "storage/exclusive.py"} <= found, "the search finds something"
    assert not unknown, f"make these by penstock.storage.own_files, or say here why not: {unknown}"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this machine has no /dev/full")
@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_full_disk_says_which_file_it_was(size: int) -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        own_files.write_file(Path("/dev/full"), b"x" * size)
