"""``penstock new``: a project to begin with, whose tests pass."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import click
from rich.text import Text

from penstock import __version__
from penstock.cli.output import console
from penstock.core.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

PROJECT = {
    "README.md.in": "README.md",
    "job.py.in": "job.py",
    "test_job.py.in": "test_job.py",
    "requirements.txt.in": "requirements.txt",
    "pyproject.toml.in": "pyproject.toml",
    "Dockerfile.in": "Dockerfile",
    "dockerignore.in": ".dockerignore",
    "gitignore.in": ".gitignore",
    "workflow.yml.in": ".github/workflows/test.yml",
}
"""Template in ``cli/project`` to file of the project."""


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
def new(directory: Path) -> None:
    """Make a project in DIRECTORY: a job, its tests, a container file and a CI file.

    DIRECTORY is made, or is there and empty; its name is the job's.
    """
    place = directory.absolute()
    name = place.resolve().name
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"a project cannot be called {name!r}, for its job and its image get the same name: take ASCII "
            "letters, digits, '.', '_' and '-', a letter or digit first, at most 63"
        )
    try:
        _must_be_free(place)
        for template, target in PROJECT.items():
            _write(place / target, _filled(template, name))
    except OSError as error:
        raise ConfigError(f"{place} cannot be written: {error}; choose another directory") from error
    out = console()
    out.print(Text(f"{name} is in {place}:"))
    out.print(Text(f"  cd {directory}\n  pip install -r requirements.txt\n  pytest\n  python job.py"))


def _must_be_free(place: Path) -> None:
    """Nothing of anybody's is ever replaced, nor mixed with a project."""
    if place.is_symlink() and not place.exists():
        raise ConfigError(f"{place} is a link that leads nowhere; choose another directory")
    if place.exists() and not place.is_dir():
        raise ConfigError(f"{place} is a file; choose another directory")
    if place.is_dir() and any(place.iterdir()):
        raise ConfigError(f"{place} is not empty; choose a directory that is, or that does not exist")


def _filled(template: str, name: str) -> str:
    text = files("penstock.cli").joinpath("project", template).read_text(encoding="utf-8")
    image = re.sub(r"[._-]+$|(?<=[._-])[._-]+", "", name.lower())  # images are stricter about names
    for mark, value in (("@NAME@", name), ("@IMAGE@", image), ("@VERSION@", __version__)):
        text = text.replace(mark, value)
    return text


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
