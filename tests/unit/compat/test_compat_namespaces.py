"""What can be imported from a module of PyFlink can be imported from Penstock's module of that name.

``namespaces.json`` holds the names in every module of PyFlink 2.3, those that it has from its other modules
included, and those of older versions that 2.3 has no more, or elsewhere.  ``absences.json`` lists what is not
there, by reason; what ``exceptions.json`` explains needs no second entry.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NAMESPACES: dict[str, dict[str, str]] = json.loads((HERE / "namespaces.json").read_text())
ABSENCES: dict[str, list[str]] = json.loads((HERE / "absences.json").read_text())
EXCEPTIONS: dict[str, list[str]] = json.loads((HERE / "exceptions.json").read_text())


def absent() -> Iterator[str]:
    """Modules, and names as ``module:Name``, that PyFlink has and Penstock has not."""
    for modules in NAMESPACES.values():
        for module, names in modules.items():
            try:
                found = importlib.import_module(f"penstock.{module}".rstrip("."))
            except ModuleNotFoundError:
                yield module
                continue
            yield from (f"{module}:{name}" for name in names.split() if not hasattr(found, name))


def test_every_absence_has_a_reason_and_every_reason_an_absence() -> None:
    patterns = [pattern for listed in ABSENCES.values() for pattern in listed]
    elsewhere = [pattern for listed in EXCEPTIONS.values() for pattern in listed]
    used: set[str] = set()
    unexplained = []
    for where in absent():
        hits = [pattern for pattern in [*patterns, *elsewhere] if fnmatchcase(where, pattern)]
        used.update(hits)
        if not hits:
            unexplained.append(where)
    assert not unexplained, "\n".join(unexplained)
    stale = sorted(set(patterns) - used)
    assert not stale, f"they are there, take them out of absences.json: {stale}"


def test_the_namespaces_are_those_of_the_wheels() -> None:
    assert list(NAMESPACES) == ["2.3.0", "1.20.1", "1.15.4", "1.13.6"]
    assert len(NAMESPACES["2.3.0"]) == 139
    assert "Time" in NAMESPACES["2.3.0"]["datastream.window"].split()


@pytest.mark.parametrize("reason", ABSENCES)
def test_a_reason_is_a_sentence(reason: str) -> None:
    assert reason[0].isupper() and reason.endswith(".")
