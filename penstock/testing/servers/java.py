"""Servers that are Java programs: the Java to run them, and directories with their jars."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from penstock.testing.servers.server import MISSING, find_program

_CACHES = (Path.cwd(), Path(__file__).resolve().parents[3])
_OPTIONS = (
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


@dataclass(frozen=True, slots=True)
class Jars:
    """The class path of a server."""

    variable: str
    """Names the directory, if the jars are not where ``make servers`` puts them."""
    folders: str
    """Where it puts them, below ``.servers``; the newest counts."""
    must_have: str
    what: str
    """In words, for somebody who has to find them."""

    def directory(self) -> Path | None:
        """Where they are."""
        named = os.environ.get(self.variable)
        found = (sorted(cache.glob(f".servers/{self.folders}"), reverse=True) for cache in _CACHES)
        candidates = [Path(named)] if named else [place for places in found for place in places]
        return next((place.resolve() for place in candidates if any(place.glob(self.must_have))), None)

    def why_not(self, title: str) -> str | None:
        """Why the server cannot run; ``None`` if it can."""
        if find_java() is None:
            return f"{title} cannot run here: there is no Java; install a JRE of version 17 or newer"
        if self.directory() is None:
            missing = MISSING.format(title=title, what="a directory with its jars")
            return f"{missing}, or {self.variable} names one ({self.what})"
        return None

    def java(self, *options: str) -> list[str]:
        """The command up to the main class."""
        return [find_java() or "java", *_OPTIONS, *options, "-cp", f"{self.directory()}/*"]
