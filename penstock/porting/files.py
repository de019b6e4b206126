"""The files of programs: which, how they are read, and how they are written back.

Notebooks are looked into and not rewritten: what their cells need is listed.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import tempfile
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.core.errors import ConfigError
from penstock.porting.equivalents import FROM, TO
from penstock.porting.findings import Finding, Kind, Ported
from penstock.porting.program import port

_MAGIC = re.compile(r"^\s*[%!].*$", re.MULTILINE)
_NOTEBOOK = ".ipynb"
_PROGRAMS = {".py", ".pyw", _NOTEBOOK}
_NOT_OURS = {"__pycache__", "node_modules", "site-packages", "dist-packages"}
_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
_UNREADABLE = (
    OSError,
    SyntaxError,
    tokenize.TokenError,
    ValueError,
    LookupError,
    RecursionError,
    MemoryError,  # what the parser says to what is nested too deeply
)


def look_into(text: str) -> list[Finding]:
    """What the code cells need. Raises ``ValueError`` for what is no notebook."""
    found: list[Finding] = []
    for number, cell in enumerate(_cells(json.loads(text)), 1):
        source = "".join(cell.get("source", ""))
        if cell.get("cell_type") != "code" or FROM not in source:
            continue
        found += [replace(finding, cell=number) for finding in _needs(_MAGIC.sub("pass", source))]
    return found


def _cells(notebook: Any) -> list[Any]:
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ValueError("this is no notebook of format 4")
    return cells


def _needs(source: str) -> list[Finding]:
    try:
        after, found = port(source)
    except SyntaxError as error:
        return [Finding(error.lineno or 1, "not Python", f"{error.msg}: change {FROM} by hand", Kind.BY_HAND)]
    lines = zip(source.splitlines(), after.splitlines(), strict=True)
    changed = [number for number, (old, new) in enumerate(lines, 1) if old != new]
    todo = f"notebooks are not rewritten: change {FROM} to {TO} here"
    return sorted([*found, *(Finding(number, FROM, todo, Kind.BY_HAND) for number in changed)])


def programs(paths: Iterable[str]) -> Iterator[Path]:
    """Every file named, and the programs below every directory named; none of a virtual environment."""
    seen: set[Path] = set()
    for path in map(Path, paths):
        if not path.exists():
            raise ConfigError(f"there is no file or directory {path}")
        for found in _below(path) if path.is_dir() else [path]:
            if found.resolve() not in seen:
                seen.add(found.resolve())
                yield found


def _below(top: Path) -> Iterator[Path]:
    for directory, names, files in os.walk(top):
        here = Path(directory)
        names[:] = sorted(name for name in names if not _foreign(here / name))
        yield from (here / name for name in sorted(files) if Path(name).suffix in _PROGRAMS)


def _foreign(directory: Path) -> bool:
    hidden = directory.name.startswith(".") or directory.name in _NOT_OURS
    return hidden or any((directory / mark).exists() for mark in _ENVIRONMENT)


def port_file(path: Path) -> Ported | None:
    """What becomes of one file; ``None`` if it does not mention PyFlink. What cannot be read is a finding."""
    try:
        content = path.read_bytes()
        if FROM.encode() not in content:
            return None
        encoding = _encoding(path, content)
        before = content.decode(encoding)
        if path.suffix == _NOTEBOOK:
            return Ported(path, before, before, encoding, tuple(look_into(before)))
        after, found = port(before)
    except _UNREADABLE as error:
        return Ported(path, findings=(_unreadable(error),))
    return Ported(path, before, after, encoding, tuple(found))


def _encoding(path: Path, content: bytes) -> str:
    if path.suffix == _NOTEBOOK:
        return "utf-8-sig" if content.startswith(codecs.BOM_UTF8) else "utf-8"
    return tokenize.detect_encoding(io.BytesIO(content).readline)[0]


def _unreadable(error: Exception) -> Finding:
    if isinstance(error, SyntaxError):
        line, said = error.lineno or 1, error.msg
    elif isinstance(error, RecursionError | MemoryError):
        line, said = 1, "nested too deeply"
    else:
        line, said = 1, str(error)
    return Finding(line, "not read", f"{said}; nothing of this file is rewritten", Kind.BY_HAND)


def write(ported: Ported) -> None:
    """Put the new text in the place of the old, whole or not at all, with the same rights."""
    target = ported.path.resolve()
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(ported.after.encode(ported.encoding))
            temporary.chmod(target.stat().st_mode)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"{ported.path} cannot be written: {error.strerror}") from error
