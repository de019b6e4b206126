"""What stands where PyFlink hands out objects of its Java virtual machine: there is none here."""

from __future__ import annotations

from typing import Any, NoReturn

from penstock.core.config import Configuration
from penstock.core.errors import ConfigError


def refuse_java(what: str) -> NoReturn:
    """Say that there is no Java, and what to do instead."""
    raise ConfigError(
        f"{what} reaches for PyFlink's Java virtual machine, and there is no Java here: use the methods of "
        "StreamExecutionEnvironment and Configuration, and the connectors of penstock.datastream.connectors; "
        "docs/guides/pyflink.md says what stands for what"
    )


class JavaEnvironment:
    """``env._j_stream_execution_environment``: programs of 1.x ask it for the settings."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python itself asks: copying, pickling, showing
            raise AttributeError(name)
        refuse_java(f"_j_stream_execution_environment.{name}")
