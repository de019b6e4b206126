"""Changing single names in a text, by position: everything else stays as it is, to the byte."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable

from penstock.porting.equivalents import FROM, TO

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")

Place = tuple[int, int]
"""Line, counted from 1, and column in characters, counted from 0."""


class Text:
    """A program's lines as Python's parser counts them, and the names in them."""

    def __init__(self, text: str) -> None:
        self._lines = _LINE.findall(text)
        # The tokens are asked for positions only; Python's own end of line spares them the others.
        self._names = [
            token
            for token in tokenize.generate_tokens(io.StringIO("\n".join(self._bare())).readline)
            if token.type == tokenize.NAME
        ]

    def _bare(self) -> list[str]:
        return [line.rstrip("\r\n") for line in self._lines]

    def place(self, line: int, byte: int) -> Place:
        """Where the syntax tree's ``line`` and ``byte`` are in characters."""
        return line, len(self._lines[line - 1].encode()[:byte].decode(errors="replace"))

    def first_name(self, start: Place, end: Place) -> Place | None:
        """The first ``pyflink`` between two places, written as a name."""
        return next((t.start for t in self._names if start <= t.start < end and t.string == FROM), None)

    def says(self, place: Place) -> bool:
        """Whether ``pyflink`` stands exactly there, as a name."""
        return self.first_name(place, (place[0], place[1] + 1)) is not None

    def replaced(self, places: Iterable[Place]) -> str:
        """The text with ``penstock`` at each of ``places``."""
        lines = list(self._lines)
        for line, column in sorted(set(places), reverse=True):
            old = lines[line - 1]
            lines[line - 1] = old[:column] + TO + old[column + len(FROM) :]
        return "".join(lines)
