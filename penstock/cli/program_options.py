"""What the commands that run a program share: their options, and the settings these stand for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from penstock.core import options
from penstock.core.config import GIVEN_MASTER
from penstock.core.errors import ConfigError

settings_option = click.option(
    "-D", "settings", metavar="KEY=VALUE", multiple=True, help="A setting; may be repeated."
)
non_restored_option = click.option(
    "--allow-non-restored-state", is_flag=True, help="Leave state of missing steps behind."
)


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
