"""What commands that run a program share: options, Flink's among them, and the settings these stand for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from penstock.core import options
from penstock.core.config import GIVEN_MASTER
from penstock.core.discreet import log_of
from penstock.core.errors import ConfigError

settings_option = click.option(
    "-D", "settings", metavar="KEY=VALUE", multiple=True, help="A setting; may be repeated."
)
non_restored_option = click.option(
    "--allow-non-restored-state", is_flag=True, help="Leave state of missing steps behind."
)
_log = log_of(__name__)
_GIVEN = "penstock.python"
_OPTIONS = (
    (
        "-pyfs",
        "--pyFiles",
        options.PYTHON_FILES.key,
        "FILES",
        "Modules, directories, zip files; with commas.",
    ),
    ("-pyarch", "--pyArchives", options.PYTHON_ARCHIVES.key, "FILES", "Archives to unpack: FILE#TARGET, ..."),
    ("-pyreq", "--pyRequirements", options.PYTHON_REQUIREMENTS.key, "FILE", "Packages: FILE#DIRECTORY."),
    ("-pyexec", "--pyExecutable", options.PYTHON_EXECUTABLE.key, "PATH", "Python of the functions."),
)
_CLIENT = ("-pyclientexec", "--pyClientExecutable")


def program_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``parallelism``, ``master`` and ``settings``."""
    command = settings_option(command)
    command = click.option("--master", metavar="URL", help="Spark master, such as local[4].")(command)
    return click.option("-p", "--parallelism", type=click.IntRange(1), help="Subtasks of each step.")(command)


def check_program(script: Path) -> None:
    """Refuse a path that leads to no file."""
    if not script.is_file():
        raise ConfigError(f"there is no program {str(script)!r}; give the path of a Python file")


def settings_of(
    settings: tuple[str, ...],
    *,
    parallelism: int | None = None,
    master: str | None = None,
    snapshot: str | None = None,
    allow_non_restored_state: bool = False,
    claim: bool = False,
    name: str | None = None,
) -> dict[str, str]:
    """All that the options say, by the keys of the configuration; they win over ``-D``."""
    given = {
        options.DEFAULT_PARALLELISM.key: parallelism,
        GIVEN_MASTER: master,
        options.RECOVERY_PATH.key: snapshot,
        options.IGNORE_UNCLAIMED_STATE.key: "true" if allow_non_restored_state else None,
        options.CLAIM_MODE.key: "CLAIM" if claim else None,
        options.JOB_NAME.key: name,
    }
    return _parsed(settings) | {key: str(value) for key, value in given.items() if value is not None}


def _parsed(settings: tuple[str, ...]) -> dict[str, str]:
    """``KEY=VALUE`` texts as a dict."""
    found: dict[str, str] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            name = re.split(r"[^\w.-]", text)[0]
            raise click.UsageError(f"-D takes KEY=VALUE, and what begins with {name!r} is none")
        found[key.strip()] = value.strip()
    return found


def python_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options; :func:`python_settings` tells what was said."""
    client = click.option(*_CLIENT, expose_value=False, hidden=True, callback=_ignored)
    command = client(command)
    for short, long, key, metavar, text in reversed(_OPTIONS):
        option = click.option(
            short, long, metavar=metavar, help=text, expose_value=False, callback=_remembering(key)
        )
        command = option(command)
    return command


def python_settings(ctx: click.Context) -> tuple[str, ...]:
    """As ``-D`` would say it."""
    return tuple(ctx.meta.get(_GIVEN, ()))


def _remembering(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def remember(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.meta.setdefault(_GIVEN, []).append(f"{key}={value}")

    return remember


def _ignored(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        _log.warning("-pyclientexec: the program runs in the Python of this command; start it with another")
