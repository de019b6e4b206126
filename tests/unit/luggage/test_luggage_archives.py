"""Archives: unpacked once, whole, and never beside where they belong."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.luggage.unpacking import once, unpack


def zipped(path: Path, *members: tuple[str, str, int]) -> Path:
    """Name, content and mode of each."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content, mode in members:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            archive.writestr(entry, content)
    return path


FILE, LINK = stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777
EVIL = {
    "up": [("../evil", "x", FILE)],
    "deep": [("a/../../evil", "x", FILE)],
    "absolute": [("/tmp/evil", "x", FILE)],
    "link to elsewhere": [("a", "/etc", LINK)],
    "link up": [("a", "..", LINK)],
    "link that leads out by another": [("a", "c/d/../../x", LINK), ("c", ".", LINK)],
    "file through a link": [("a", ".", LINK), ("a/evil", "x", FILE)],
    "link through a link": [("a", "b", LINK), ("b/x", "y", FILE), ("a/l", "../..", LINK)],
    "pipe": [("a", "", stat.S_IFIFO | 0o600)],
}


@pytest.mark.parametrize("name", EVIL)
def test_a_zip_that_leads_out_is_refused(name: str, tmp_path: Path) -> None:
    archive = zipped(tmp_path / "evil.zip", *EVIL[name])
    with pytest.raises(ConfigError, match="evil.zip is refused"):
        once(tmp_path / "place" / "deep", "it", lambda target: unpack(archive, target))
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["evil.zip", "place", "place/deep", "place/deep/it.lock"], "and leaves nothing"


@pytest.mark.parametrize("kind", ["up", "absolute link", "hard link", "device"])
def test_a_tar_that_leads_out_is_refused(kind: str, tmp_path: Path) -> None:
    member = tarfile.TarInfo("../evil" if kind == "up" else "evil")
    if kind != "up":
        member.type = {"absolute link": tarfile.SYMTYPE, "hard link": tarfile.LNKTYPE}.get(
            kind, tarfile.CHRTYPE
        )
        member.linkname = "../../etc/passwd" if kind == "hard link" else "/etc/passwd"
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as archive:
        archive.addfile(member, io.BytesIO())
    with pytest.raises(ConfigError, match=r"evil.tar.gz is refused"):
        unpack(tmp_path / "evil.tar.gz", tmp_path / "out")
    assert not (tmp_path / "evil").exists()


def test_what_belongs_to_an_archive_is_kept(tmp_path: Path) -> None:
    members = [("bin/run", "#!", stat.S_IFREG | 0o755), ("lib/a.txt", "a", FILE), ("lib64", "lib", LINK)]
    out = once(
        tmp_path / "place",
        "it",
        lambda to: unpack(zipped(tmp_path / "good.zip", *members), to / "deep" / "er"),
    )
    inside = out / "deep" / "er"
    assert (inside / "lib64" / "a.txt").read_text() == "a" and os.access(inside / "bin" / "run", os.X_OK)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [out, inside, inside / "lib", tmp_path / "place"]}
    assert modes == {0o700} and stat.S_IMODE((inside / "lib" / "a.txt").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz", "x.whl"])
def test_what_is_no_archive_is_said(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"no archive")
    with pytest.raises(ConfigError, match=f"{name} cannot be unpacked"):
        unpack(tmp_path / name, tmp_path / "out")


def test_many_at_once_make_it_once(tmp_path: Path) -> None:
    made: list[Path] = []
    gate = threading.Barrier(4)

    def make(target: Path) -> None:
        made.append(target)
        (target / "file").write_text("whole")

    def come() -> None:
        gate.wait()
        assert (once(tmp_path, "it", make) / "file").read_text() == "whole"

    threads = [threading.Thread(target=come) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and (tmp_path / "it").is_dir()


def test_what_failed_is_made_by_the_next(tmp_path: Path) -> None:
    def fail(target: Path) -> None:
        (target / "half").touch()
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        once(tmp_path, "it", fail)
    assert not list(once(tmp_path, "it", lambda target: None).iterdir())
