"""Build the sdist and the wheel into ``dist``, twice, and compare: the same commit gives the same bytes.

    python scripts/build_dist.py

Of the files that git knows, as they are in the working tree. Times in archives are ``SOURCE_DATE_EPOCH``, or
the commit's. Needs setuptools, build and twine: ``make dist`` has them.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Build, compare, check, and put what was built into ``dist``."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or told_by_git("log", "-1", "--format=%ct"))
    if told_by_git("status", "--porcelain", "--untracked-files=no"):
        print("The working tree has changes that are not committed: what is built is not the commit.")
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        print("Building sdist and wheel, twice ...", flush=True)
        built, again = build(Path(first), epoch), build(Path(second), epoch)
        if [digest(path) for path in built] != [digest(path) for path in again]:
            raise SystemExit(f"not reproducible: two builds of {[path.name for path in built]} differ")
        subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *built], check=True)
        dist = ROOT / "dist"
        shutil.rmtree(dist, ignore_errors=True)
        dist.mkdir()
        for path in built:
            shutil.copy2(path, dist)
            print(f"dist/{path.name}  {path.stat().st_size / 1e6:.2f} MB  sha256 {digest(path)}")


def build(work: Path, epoch: int) -> list[Path]:
    """The sdist, from a copy of what git knows, and the wheel, from the sdist alone."""
    source, out = work / "source", work / "out"
    for name in told_by_git("ls-files", "-z").split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
            (source / name).chmod(0o644)
    run_build("--sdist", source, out, epoch)
    (sdist,) = out.glob("*.tar.gz")
    normalise(sdist, epoch)
    with tarfile.open(sdist) as archive:
        archive.extractall(work, filter="data")
    run_build("--wheel", work / sdist.name.removesuffix(".tar.gz"), out, epoch)
    return sorted(out.iterdir())


def run_build(kind: str, source: Path, out: Path, epoch: int) -> None:
    """By ``build``, with the tools of this environment: nothing is fetched."""
    command = [sys.executable, "-m", "build", "--no-isolation", kind, "--outdir", str(out), str(source)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, umask=0o022)
    if done.returncode:
        raise SystemExit(f"the build failed:\n{done.stdout}{done.stderr}")


def normalise(sdist: Path, epoch: int) -> None:
    """Setuptools writes the times and owners of the moment into an sdist, whatever the epoch says."""
    with tarfile.open(sdist) as archive:
        members = [(member, archive.extractfile(member)) for member in archive.getmembers()]
        found = [(member, file.read() if file else None) for member, file in members]
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, data in sorted(found, key=lambda entry: entry[0].name):
            clean = tarfile.TarInfo(member.name)
            clean.type, clean.size, clean.mtime = member.type, member.size, epoch
            clean.mode = 0o755 if member.isdir() else 0o644
            archive.addfile(clean, None if data is None else io.BytesIO(data))
    with sdist.open("wb") as file, gzip.GzipFile("", "wb", mtime=epoch, fileobj=file) as packed:
        packed.write(plain.getvalue())


def digest(path: Path) -> str:
    """What tells files apart."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def told_by_git(*arguments: str) -> str:
    """What git prints, without the line break at its end."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


if __name__ == "__main__":
    main()
