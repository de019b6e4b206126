"""Strict JSON: canonical on the way out, unforgiving on the way in.

Manifest and journal are read from places where anything may have happened to the bytes, so every
value is checked for its type and range before it is believed.  All checks raise :class:`Malformed`;
the two formats turn it into an error that names the file.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NoReturn

from penstock.core.handles import DIGEST_SIZE, digest

MAX_INT = 2**63 - 1
_HEX = frozenset("0123456789abcdef")
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


class Malformed(ValueError):
    """The bytes are not what the format says; the text says where."""


def canonical(document: dict[str, Any]) -> bytes:
    """The one encoding of a document: sorted keys, no spaces, ASCII."""
    return _ENCODER.encode(document).encode("ascii")


def parse(raw: bytes) -> dict[str, Any]:
    """The JSON object in ``raw``; duplicate keys and NaN are refused."""
    try:
        document = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {_short(error)}") from None
    if not isinstance(document, dict):
        raise Malformed(f"an object was expected, found {_kind(document)}")
    return document


def fields(value: Any, where: str, *names: str) -> list[Any]:
    """The values of an object that has exactly these keys, in this order."""
    if not isinstance(value, dict):
        raise Malformed(f"{where}: an object was expected, found {_kind(value)}")
    if value.keys() != set(names):
        missing = sorted(set(names) - value.keys())
        unknown = [_short(name) for name in sorted(value.keys() - set(names))[:5]]
        raise Malformed(f"{where}: missing fields {missing}, unknown fields {unknown}")
    return [value[name] for name in names]


def integer(value: Any, where: str, low: int = 0, high: int = MAX_INT) -> int:
    """A whole number within bounds; ``true`` is no number."""
    if type(value) is not int:
        raise Malformed(f"{where}: a whole number was expected, found {_kind(value)}")
    if not low <= value <= high:
        raise Malformed(f"{where}: a number from {low} to {high} was expected")
    return value


def text(value: Any, where: str) -> str:
    """A string that can be stored anywhere."""
    if not isinstance(value, str):
        raise Malformed(f"{where}: text was expected, found {_kind(value)}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise Malformed(f"{where}: the text is not valid Unicode") from None
    return value


def optional_text(value: Any, where: str) -> str | None:
    """A string or null."""
    return None if value is None else text(value, where)


def boolean(value: Any, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Malformed(f"{where}: true or false was expected, found {_kind(value)}")
    return value


def array(value: Any, where: str) -> list[Any]:
    """A JSON array."""
    if not isinstance(value, list):
        raise Malformed(f"{where}: a list was expected, found {_kind(value)}")
    return value


def checksum(value: Any, where: str) -> str:
    """A checksum in its text form."""
    found = text(value, where)
    if len(found) != 2 * DIGEST_SIZE or not _HEX.issuperset(found):
        raise Malformed(f"{where}: a checksum of {2 * DIGEST_SIZE} hexadecimal digits was expected")
    return found


def check_sum(document: dict[str, Any]) -> None:
    """Take the field ``checksum`` out of a document; it must be that of all the rest."""
    promised = checksum(document.pop("checksum", None), "checksum")
    try:
        found = digest(canonical(document))
    except (ValueError, RecursionError):
        raise Malformed("the checksum cannot be computed") from None
    if found != promised:
        raise Malformed(f"its checksum is {found}, it says {promised}")


def data(value: Any, where: str) -> bytes:
    """Bytes, stored as base64."""
    try:
        return base64.b64decode(text(value, where), validate=True)
    except ValueError:
        raise Malformed(f"{where}: base64 was expected") from None


def encode_data(value: bytes) -> str:
    """The text form of bytes."""
    return base64.b64encode(value).decode("ascii")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise Malformed("a field is given twice")
    return document


def _no_constant(name: str) -> NoReturn:
    raise Malformed(f"{name} is not allowed")


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def _short(value: object) -> str:
    shown = str(value)
    return shown if len(shown) <= 80 else shown[:80] + "..."
