"""What was found in a program: one line each, for a person and for a program to read."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path


class Kind(enum.Enum):
    """How much a finding matters."""

    MISSING = "no equivalent"  # the program stops here, or does less, until somebody changes it
    BY_HAND = "by hand"  # names pyflink where nothing is rewritten; somebody has to look
    NOTE = "note"  # runs as it is


@dataclass(frozen=True, order=True)
class Finding:
    """One place in a program. ``cell`` is that of a notebook, counted from 1, as lines are."""

    line: int
    what: str
    advice: str
    kind: Kind = field(compare=False)
    cell: int | None = field(default=None, compare=False)

    @property
    def matters(self) -> bool:
        """Whether the program needs a person."""
        return self.kind is not Kind.NOTE


@dataclass(frozen=True)
class Ported:
    """One file: its text, what it becomes, and what was found. Equal texts: nothing to rewrite."""

    path: Path
    before: str = ""
    after: str = ""
    encoding: str = "utf-8"
    findings: tuple[Finding, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether ``--write`` has something to write."""
        return self.before != self.after

    @property
    def changed_lines(self) -> list[int]:
        """Lines that differ, counted from 1. Rewriting never adds or removes one."""
        pairs = zip(self.before.split("\n"), self.after.split("\n"), strict=True)
        return [number for number, (old, new) in enumerate(pairs, 1) if old != new]
