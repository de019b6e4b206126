"""Archives: unpacked once, whole, and never beside where they belong."""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.luggage.archives import once, unpack


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


@pytest.mark.parametrize("second", ["a", "a/x", "h"])
def test_nothing_of_a_tar_goes_through_a_link(second: str, tmp_path: Path) -> None:
    """Wherever it leads: Pythons before 3.11.13 can be told lies about that."""
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        for name, kind, leads_to in (("b", tarfile.DIRTYPE, ""), ("a", tarfile.SYMTYPE, "b")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, leads_to
            archive.addfile(member)
        member = tarfile.TarInfo(second)
        if second == "h":
            member.type, member.linkname = tarfile.LNKTYPE, "a/x"
        archive.addfile(member, io.BytesIO())
    with pytest.raises(ConfigError, match=r"evil.tar is refused: .*behind a link"):
        unpack(tmp_path / "evil.tar", tmp_path / "out")
    assert not list((tmp_path / "out" / "b").iterdir())


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


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 0xFF,)) + data[at + 1 :]


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz", "x.tar.bz2", "x.tar.xz"])
def test_a_damaged_archive_is_told_whatever_is_wrong_with_it(name: str, tmp_path: Path) -> None:
    """Each byte in turn: it is unpacked, or refused in a sentence."""
    path, out = tmp_path / name, tmp_path / "out"
    if name == "x.zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
            archive.writestr("a/b.txt", "hello" * 50)
            archive.writestr("c.txt", "hello" * 50, zipfile.ZIP_DEFLATED)
    else:
        with tarfile.open(path, {"x.tar": "w"}.get(name, f"w:{name[6:]}")) as archive:
            member = tarfile.TarInfo("a/b.txt")
            member.size = 100
            archive.addfile(member, io.BytesIO(b"h" * 100))
    whole, refused = path.read_bytes(), 0
    for at in range(0, min(len(whole), 600)):
        path.write_bytes(flipped(whole, at))
        try:
            unpack(path, out)
        except ConfigError as error:
            assert f"{name} " in str(error) and "\n" not in str(error)
            refused += 1
        shutil.rmtree(out, ignore_errors=True)
    assert refused > 50


def test_an_archive_that_is_locked_or_contradicts_itself_is_told(tmp_path: Path) -> None:
    locked = bytearray(zipped(tmp_path / "locked.zip", ("a", "x", FILE)).read_bytes())
    for header in (b"PK\x03\x04", b"PK\x01\x02"):
        locked[locked.index(header) + (6 if header[2] == 3 else 8)] |= 1
    (tmp_path / "locked.zip").write_bytes(locked)
    zipped(tmp_path / "both.zip", ("a", "x", FILE), ("a/b", "x", FILE))
    for name, why in (("locked.zip", "without a password"), ("both.zip", "File exists|Not a directory")):
        with pytest.raises(ConfigError, match=f"{name} cannot be unpacked.*({why})"):
            unpack(tmp_path / name, tmp_path / "out")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_more_than_there_is_room_for_is_not_begun(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"large.{kind}"
    if kind == "zip":
        zipped(path, ("zeros", "0" * 5000, FILE))
    else:
        with tarfile.open(path, "w") as archive:
            member = tarfile.TarInfo("zeros")
            member.size = 5000
            archive.addfile(member, io.BytesIO(bytes(5000)))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=4999))
    with pytest.raises(ConfigError, match=r"is refused: .* free where it is unpacked; make room"):
        unpack(path, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_a_link_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "evil.zip", ("a", "x" * 5000, LINK))
    with pytest.raises(ConfigError, match="longer than a path"):
        unpack(archive, tmp_path / "out")


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
