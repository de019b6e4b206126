"""What a program asks for: by PyFlink's ``add_python_file`` and its kin, or by settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from penstock.core import options
from penstock.core.config import Configuration
from penstock.core.errors import ConfigError

_TARGET = "#"


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive, and the directory of the functions' working directory that it is unpacked to."""

    path: str
    target: str

    @staticmethod
    def of(path: str, target: str | None = None) -> Archive:
        """As PyFlink names the directory: as told, else behind a ``#``, else like the file."""
        named, _, suffix = path.partition(_TARGET)
        chosen = target or suffix or local_path(named).name
        parts = Path(chosen).parts
        if not parts or Path(chosen).is_absolute() or ".." in parts:
            raise ConfigError(
                f"the archive {path} cannot be unpacked to {chosen!r}: the target is a directory within "
                "the functions' working directory, without '..'"
            )
        return Archive(str(local_path(named)), str(Path(*parts)))


@dataclass(frozen=True, slots=True)
class Requirements:
    """A requirements file; with a directory of packages, nothing is asked of an index."""

    file: str
    cached: str | None = None

    @staticmethod
    def of(file: str, cached: str | None = None) -> Requirements:
        """As PyFlink's setting writes it: ``file#directory``, or as two values."""
        named, _, suffix = file.partition(_TARGET)
        directory = cached or suffix
        return Requirements(str(local_path(named)), str(local_path(directory)) if directory else None)


@dataclass(frozen=True, slots=True)
class Wishes:
    """All that a job asks for."""

    files: tuple[str, ...] = ()
    archives: tuple[Archive, ...] = ()
    requirements: Requirements | None = None
    executable: str | None = None

    @staticmethod
    def of(settings: Configuration) -> Wishes:
        """What the settings ask for."""
        requirements = settings.get(options.PYTHON_REQUIREMENTS)
        return Wishes(
            tuple(str(local_path(path)) for path in _listed(settings.get(options.PYTHON_FILES))),
            tuple(Archive.of(path) for path in _listed(settings.get(options.PYTHON_ARCHIVES))),
            Requirements.of(requirements) if requirements else None,
            settings.get(options.PYTHON_EXECUTABLE),
        )

    def own_path(self) -> list[str]:
        """What of the files a program itself finds on its path, as in Flink."""
        paths = [Path(file) for file in self.files]
        beside = [path.suffix == ".py" or (path / "__init__.py").is_file() for path in paths]
        return [str(path.parent if near else path) for path, near in zip(paths, beside, strict=True)]

    def under(self, settings: Wishes) -> Wishes:
        """These, the program's own, with those of the settings: files add up, the rest is theirs first."""
        targets = {archive.target for archive in settings.archives}
        return replace(
            settings,
            files=tuple(dict.fromkeys(self.files + settings.files)),
            archives=settings.archives + tuple(one for one in self.archives if one.target not in targets),
            requirements=settings.requirements or self.requirements,
        )

    def check(self) -> None:
        """Refuse what is not there: here, not in a worker."""
        for file in self.files:
            _must_exist(file, "the Python file", "add_python_file, python.files")
        for archive in self.archives:
            _must_be_file(archive.path, "the archive", "add_python_archive, python.archives")
        if self.requirements is not None:
            where = "set_python_requirements, python.requirements"
            _must_be_file(self.requirements.file, "the requirements file", where)
            if self.requirements.cached is not None:
                _must_exist(self.requirements.cached, "the directory of packages", where)
                if not Path(self.requirements.cached).is_dir():
                    raise ConfigError(f"{self.requirements.cached} ({where}) is no directory of packages")


def local_path(text: str) -> Path:
    """The absolute path, also of a ``file:`` URL: the working directory of later is another."""
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    return Path(text).expanduser().absolute()


def _must_exist(path: str, what: str, where: str) -> None:
    if not Path(path).exists():
        raise ConfigError(f"{what} {path} ({where}) does not exist on the machine that starts the job")


def _must_be_file(path: str, what: str, where: str) -> None:
    _must_exist(path, what, where)
    if not Path(path).is_file():
        raise ConfigError(f"{what} {path} ({where}) is no file")


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()] if text else []
