"""What has to be there before a worker's Python starts: archives, requirements, the interpreter itself.

Spark starts :func:`main` in the place of Python.  It unpacks and installs, and then becomes the Python that
was asked for, with the installed packages on its path.  Each outfit has workers of its own: a process never
changes clothes.  Functions work in the directory where archives were unpacked
(:mod:`penstock.luggage.arrival`).

Requirements are installed by pip into a directory of their own.  The driver makes an outfit of copies of what
was asked for as it is when the job starts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.core.discreet import discreet
from penstock.core.errors import ConfigError
from penstock.luggage.archives import digest, file_digest, members, once, pack, unpack
from penstock.luggage.wishes import Wishes
from penstock.storage.own_files import write_whole

_LAST = 6
_REFERENCE = re.compile(r"^\s*(-r|-c|-e|--requirement|--constraint|--editable)\b[\s=]*(\S+)")
_LOCAL = re.compile(r"^\s*(?:\S+\s*@\s*)?(?:file:)?(\.{1,2}/\S*|~/\S*|/\S+)")
WORK = "PENSTOCK_WORKING_DIRECTORY"
MARK = "PENSTOCK-OUTFIT"
"""In front of the reason why there is none, in what Spark tells the driver."""
_SHARED = ("executor-", "application_")
"""Directories of Spark that all executors of an application on a machine have in common."""
Send = Callable[[Path], str]
"""Gets a file to the executors; the name it has there."""


def check_requirements(file: str) -> None:
    """Refuse what would be looked for beside the file: it travels alone."""
    for line in Path(file).read_text(encoding="utf-8", errors="replace").splitlines():
        found = _REFERENCE.match(line) or _LOCAL.match(line)
        if found is not None:
            raise ConfigError(
                f"the requirements file {file} refers to another file of this machine "
                f"({discreet(found[found.lastindex or 0])}), which does not travel with it. Write the lines "
                "of other files into it, and put packages that no index has into the directory that is "
                "given as requirements_cache_dir"
            )


def install(python: str, file: Path, cached: Path | None, target: Path, called: str) -> None:
    """Let the pip of ``python`` install; with a directory of packages, from there alone."""
    command = [python, "-m", "pip", "install", "--ignore-installed", "--disable-pip-version-check"]
    command += ["--no-input", "--target", str(target), "-r", str(file)]
    if cached is not None:
        command += ["--no-index", "--find-links", str(cached)]
    # What Spark puts on the path is not pip's business, and --user cannot go with a directory.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"PIP_USER": "0"}
    try:
        done = subprocess.run(
            command, env=environment, cwd=target, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise ConfigError(f"{called} could not be installed: {python} cannot be started ({error})") from None
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")
        offline = "" if cached is None else " from the given directory of packages"
        raise ConfigError(
            f"{called} could not be installed{offline} by {python}: {_last_lines(said)}. Correct it, or "
            "install the packages where the executors run"
        )


def _last_lines(said: str) -> str:
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return discreet(" / ".join((errors or lines)[-_LAST:]).rstrip("."))


@dataclass(frozen=True, slots=True)
class Parcel:
    """A file on its way: where it is (or its name among Spark's files), its content, its name for people."""

    file: str
    digest: str
    called: str

    def path(self, here: str) -> Path:
        """The file, unchanged since the job was started."""
        path = Path(here, self.file).absolute()
        if not path.is_file():
            raise ConfigError(f"{self.called} did not arrive: there is no {path}")
        if file_digest(path) != self.digest:
            raise ConfigError(f"{self.called} has changed since the job was started ({path})")
        return path


@dataclass(frozen=True, slots=True)
class Outfit:
    """What one kind of worker wears."""

    archives: tuple[tuple[Parcel, str], ...] = ()
    """With the directories they are unpacked to."""
    requirements: Parcel | None = None
    cached: Parcel | None = None
    """The directory of packages, as a zip file."""
    executable: str | None = None

    def to_json(self) -> str:
        """As text, for :meth:`from_json`."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Outfit:
        """What :meth:`to_json` wrote."""
        told = json.loads(text)
        return Outfit(
            tuple((Parcel(**parcel), target) for parcel, target in told["archives"]),
            None if told["requirements"] is None else Parcel(**told["requirements"]),
            None if told["cached"] is None else Parcel(**told["cached"]),
            told["executable"],
        )

    @property
    def digest(self) -> str:
        """The same for the same content, wherever the files are."""
        parcels = [(parcel.digest, target) for parcel, target in self.archives]
        others = [None if one is None else one.digest for one in (self.requirements, self.cached)]
        return hashlib.sha256(json.dumps([parcels, others, self.executable]).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Worn:
    """An outfit, ready: the interpreter, where its packages are, and the working directory."""

    python: str
    packages: Path | None
    work: Path | None


def put_on(outfit: Outfit, place: Path, here: str, own_python: str) -> Worn:
    """Unpack and install below ``place``, unless somebody has; ``here`` is where the files arrived."""
    work = None
    if outfit.archives:
        work = once(place, f"work-{outfit.digest}", lambda target: _unpack_all(outfit, here, target))
    python = _interpreter(outfit, work, own_python)
    packages = None
    if outfit.requirements is not None:
        cached = outfit.cached.digest if outfit.cached is not None else ""
        key = f"{outfit.requirements.digest} {cached} {python}"
        name = f"packages-{hashlib.sha256(key.encode()).hexdigest()[:24]}"
        packages = once(place, name, lambda target: _install(outfit, here, python, target))
    return Worn(python, packages, work)


def _unpack_all(outfit: Outfit, here: str, work: Path) -> None:
    for parcel, target in outfit.archives:
        unpack(parcel.path(here), work / target, parcel.called)


def _install(outfit: Outfit, here: str, python: str, target: Path) -> None:
    assert outfit.requirements is not None
    cached = None
    if outfit.cached is not None:
        cached = target.with_name(f"{target.name}-cached")
        unpack(outfit.cached.path(here), cached, outfit.cached.called)
    try:
        install(python, outfit.requirements.path(here), cached, target, outfit.requirements.called)
    finally:
        if cached is not None:
            shutil.rmtree(cached, ignore_errors=True)


def in_archive(executable: str | None, targets: list[str]) -> bool:
    """Whether an interpreter is one of an archive's, as ``venv.zip/bin/python`` is."""
    if executable is None or Path(executable).is_absolute():
        return False
    return any(Path(executable).is_relative_to(target) for target in targets)


def _interpreter(outfit: Outfit, work: Path | None, own_python: str) -> str:
    wanted = outfit.executable
    if wanted is None:
        return own_python
    if work is not None and in_archive(wanted, [target for _, target in outfit.archives]):
        path = work / wanted
        if not path.is_file():
            raise ConfigError(
                f"the Python {wanted} (python.executable) is not in the archive, or is a link that leads "
                "nowhere"
            )
        if not os.access(path, os.X_OK):
            path.chmod(0o700)
        return str(path)
    found = shutil.which(wanted)
    if found is None:
        raise ConfigError(f"the Python {wanted} (python.executable) is not there, or cannot be run")
    return found


def place_of_executor() -> Path:
    """Where an executor of Spark keeps what goes with the application."""
    for name in os.environ.get("SPARK_LOCAL_DIRS", "").split(","):
        if name and Path(name).is_dir():
            own = Path(name)
            shared = own.parent if own.parent.name.startswith(_SHARED) else own
            return shared / "penstock-luggage"
    raise ConfigError("Spark has not told its worker where to put files (SPARK_LOCAL_DIRS)")


def main(engine: str, here: str, outfit: str, *arguments: str) -> None:
    """Become the Python that Spark wanted to start with these arguments.

    ``engine`` is where Penstock itself can be imported from.
    """
    try:
        worn = put_on(Outfit.from_json(outfit), place_of_executor(), here, sys.executable)
    except (ConfigError, OSError) as error:
        print(MARK, " ".join(str(error).split()), file=sys.stderr)
        sys.exit(1)
    path = [worn.packages, os.environ.get("PYTHONPATH"), Path(engine).absolute()]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(part) for part in path if part)}
    if worn.work is not None:
        environment[WORK] = str(worn.work)
    os.execve(worn.python, [worn.python, *arguments], environment)


def outfit_of(wishes: Wishes, place: Path, executable: str | None, send: Send | None) -> Outfit:
    """What was asked for; ``send`` is ``None`` if workers see the files of ``place``."""
    archives = tuple(
        (_copied(Path(archive.path), place, send), archive.target) for archive in wishes.archives
    )
    if wishes.requirements is None:
        return Outfit(archives, executable=executable)
    check_requirements(wishes.requirements.file)
    cached = None
    if wishes.requirements.cached is not None:
        cached = _zipped(Path(wishes.requirements.cached), place, send)
    requirements = _copied(Path(wishes.requirements.file), place, send)
    return Outfit(archives, requirements, cached, executable)


def _copied(source: Path, place: Path, send: Send | None) -> Parcel:
    known = file_digest(source)
    target = place / f"penstock-{known[:32]}-{source.name}"
    if not target.exists():
        with source.open("rb") as file:
            write_whole(target, lambda into: shutil.copyfileobj(file, into, 1 << 20))
    return Parcel(str(target) if send is None else send(target), known, str(source))


def _zipped(source: Path, place: Path, send: Send | None) -> Parcel:
    files = list(members(source))
    target = place / f"penstock-{digest(files)[:32]}.zip"
    if not target.exists():
        pack(files, target)
    return Parcel(str(target) if send is None else send(target), file_digest(target), str(source))
