"""Flink's options for what Python functions need, as the settings that they stand for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import click

from penstock.core import options

_log = logging.getLogger("penstock")
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
