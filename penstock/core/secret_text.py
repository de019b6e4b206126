"""Text without the values that stand in it behind certain names: ``name=value``, ``"name": "value"``, XML.

For text that is not, or not whole, JSON: a line of a log, the ``repr`` of an object, a message that quotes a
record, something that was cut off.  Where the end of a value cannot be told, all behind it goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from penstock.core.discreet import HIDDEN

_BLANKS = r"\s{0,3}+[ \t]{0,80}+"
"""Also as many as columns of text are laid out with."""
_NAME = re.compile(
    rf"""(?<![\w.-])([A-Za-z_][\w.-]{{0,200}})(?:\\{{0,8}}["'])?{_BLANKS}(?:=>|[:=]{{1,2}}){_BLANKS}"""
)
"""A name, perhaps quoted, and what stands before its value."""
_GAP = re.compile(_BLANKS)
_PIECE = 1 << 13
"""So much is searched at a time: other threads wait meanwhile."""
_TEXT = r"""(?:"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|'(?:[^'\\]|\\.)*+(?:'|\\?\Z))"""
_QUOTED = re.compile(rf"[bBrR]{{0,2}}{_TEXT}", re.DOTALL)
_ESCAPED = re.compile(r"""\\{1,8}["']""")
"""The quote of a text that is itself in quotes."""
_PLAIN = re.compile(
    r"(?:(?:basic|bearer|digest|negotiate|apikey|token)[ \t]{1,8}(?![\s,;&}\])]))?[^\s,;&}\])]*",
    re.IGNORECASE,
)
"""One word, or two where the first is a scheme of HTTP."""
_LINE = re.compile(r"[^\n]*")
_STEP = re.compile(rf"[{{\[(]|[}}\])]|{_TEXT}", re.DOTALL)
_ELEMENT = re.compile(r"<([A-Za-z_][\w.:-]{0,200})((?:\s[^<>]{0,500})?)>([^<]{1,5000})")
"""One of XML with text in it."""
_HEADERS = ("authorization", "cookie")
"""Names whose values have words with blanks between them, to the end of the line."""


def without_values(text: str, hides: Callable[[str], bool]) -> str:
    """``text``, where names that ``hides`` says so of have no value; in one pass."""
    kept: list[str] = []
    done = at = 0
    while at < len(text):
        end = text.find("\n", at + _PIECE) + 1 or len(text)
        found = _NAME.search(text, at, end)
        if found is None:
            at = end
            continue
        at, name = found.end(), found[1]
        if at == end and (gap := _GAP.match(text, at)) is not None:
            at = gap.end()
        begins_line = name[0] in "nrt" and text[found.start() - 1 : found.start()] == "\\"  # in a repr
        if hides(name) or (begins_line and hides(name[1:])):
            kept += [text[done:at], HIDDEN]
            done = at = _end(text, at, name)
    left = text if not kept else "".join([*kept, text[done:]])
    return left if "<" not in left else _ELEMENT.sub(partial(_emptied, hides), left)


def _emptied(hides: Callable[[str], bool], element: re.Match[str]) -> str:
    if not hides(element[1].rpartition(":")[2]) or element[3] == HIDDEN:
        return element[0]
    return f"<{element[1]}{element[2]}>{HIDDEN}"


def _end(text: str, begin: int, name: str) -> int:
    """Where the value ends that begins here."""
    quoted = _QUOTED.match(text, begin)
    if quoted is not None:
        return quoted.end()
    escaped = _ESCAPED.match(text, begin)
    if escaped is not None:
        end = text.find(escaped[0], escaped.end())
        return len(text) if end < 0 else end + len(escaped[0])
    if text[begin : begin + 1] in ("{", "[", "("):
        return _closed(text, begin)
    whole_line = any(word in name.lower() for word in _HEADERS)
    found = (_LINE if whole_line else _PLAIN).match(text, begin)
    return begin if found is None else found.end()


def _closed(text: str, begin: int) -> int:
    """Behind the bracket that closes the one here; the end of the text, if none does."""
    depth = 0
    for found in _STEP.finditer(text, begin):
        depth += {"{": 1, "[": 1, "(": 1, "}": -1, "]": -1, ")": -1}.get(found[0], 0)
        if not depth:
            return found.end()
    return len(text)
