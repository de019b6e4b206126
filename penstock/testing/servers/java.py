"""Servers that are Java programs: the Java to run them, and directories with their jars."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.testing.servers.server import find_program

_CACHES = (Path.cwd(), Path(__file__).resolve().parents[3])
OPTIONS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)
"""A server with a short life and little to do."""


def find_java() -> str | None:
    """The Java of ``JAVA_HOME``, or else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return find_program(["java"]) if home is None else f"{home}/bin/java"


def find_jars(variable: str, folders: str, must_have: str) -> Path | None:
    """The directory that ``variable`` names, or the newest of ``make servers``, if such a jar is in it."""
    named = os.environ.get(variable)
    candidates = (
        [Path(named)]
        if named
        else [found for cache in _CACHES for found in sorted(cache.glob(f".servers/{folders}"), reverse=True)]
    )
    return next((place.resolve() for place in candidates if any(place.glob(must_have))), None)
