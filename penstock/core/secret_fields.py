"""Fields of records whose values are nobody's business, and records as text without them.

A record is shown to people where it made a function fail, where state is looked up, and where a stream is
watched.  What may be secret in it is told by the names of its fields: keys of a dict, names of a ``Row``, a
named tuple or a dataclass, and names in text that is JSON.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import lru_cache
from typing import Any

from penstock.core.discreet import HIDDEN, discreet
from penstock.core.row import Row

DEFAULT = (
    "*password*,*passwd*,*passphrase*,pwd,*secret*,*token*,*credential*,*api_key*,*apikey*,*access_key*,"
    "*accesskey*,*private_key*,*privatekey*,*authorization*"
)
_DEEPEST = 8
_MOST_PARTS = 10_000
_LONGEST_TEXT = 1 << 16


def patterns_of(text: str) -> tuple[str, ...]:
    """The patterns of a setting."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


class SecretFields:
    """Knows which names hide their values: by patterns with ``*`` and ``?``, in upper or lower case."""

    def __init__(self, patterns: Iterable[str] = patterns_of(DEFAULT)) -> None:
        joined = "|".join(translate(pattern.replace("-", "_").lower()) for pattern in patterns)
        self._names = re.compile(joined) if joined else None

    def hides(self, name: object) -> bool:
        """Whether a field of this name is not shown."""
        if self._names is None or not isinstance(name, str):
            return False
        return self._names.match(name.replace("-", "_").lower()) is not None

    def text(self, record: Any, longest: int) -> str:
        """The record as Python would write it, shortened, without what is hidden."""
        written = discreet(repr(_Masking(self).masked(record, _DEEPEST)))
        return written if len(written) <= longest else written[:longest] + "..."


@lru_cache(maxsize=16)
def secret_fields(patterns: tuple[str, ...]) -> SecretFields:
    """The same, made once."""
    return SecretFields(patterns)


class _Said:
    """Stands in a record for what is said instead of a value."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


_HIDDEN = _Said(HIDDEN)
_MORE = _Said("...")


class _Masking:
    """One pass over one record: whatever its size, so many parts of it are looked at."""

    def __init__(self, secret: SecretFields) -> None:
        self._secret = secret
        self._left = _MOST_PARTS

    def masked(self, value: Any, depth: int) -> Any:
        """The value itself where nothing in it is hidden, else something that is written like it."""
        if value is None or isinstance(value, int | float | bool):
            return value
        self._left -= 1
        if self._left < 0 or depth < 0:
            return _MORE
        if isinstance(value, str | bytes | bytearray):
            return (
                self._json(value) if len(value) <= _LONGEST_TEXT else _Said(f"{value[:_LONGEST_TEXT]!r}...")
            )
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        names = _names_of(value)
        if names is not None:
            return self._named(value, names, depth)
        if isinstance(value, list | tuple | set | frozenset | Row):
            parts = [self.masked(part, depth - 1) for part in value]
            same = all(one is other for one, other in zip(parts, value, strict=True))
            return value if same else _rebuilt(value, parts)
        return value

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> Any:
        made = {
            key: _HIDDEN if self._secret.hides(key) else self.masked(part, depth - 1)
            for key, part in value.items()
        }
        return value if all(made[key] is value[key] for key in value) else made

    def _named(self, value: Any, names: Mapping[str, Any], depth: int) -> Any:
        made = self._mapping(names, depth)
        if made is names:
            return value
        return _Said(
            f"{type(value).__name__}({', '.join(f'{name}={part!r}' for name, part in made.items())})"
        )

    def _json(self, value: str | bytes | bytearray) -> Any:
        """Text that is JSON hides what its fields hide."""
        opening = value[:1]
        if opening not in ("{", "[", b"{", b"["):
            return value
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            return value
        made = self.masked(read, _DEEPEST)
        return value if made is read else _Said(repr(json.dumps(made, default=repr)))


def _rebuilt(value: Any, parts: list[Any]) -> Any:
    if isinstance(value, Row):
        return _Said(f"<Row({', '.join(map(repr, parts))})>")
    if isinstance(value, set | frozenset):
        return _Said(f"{{{', '.join(map(repr, parts))}}}")
    return parts if isinstance(value, list) else tuple(parts)


def _names_of(value: Any) -> Mapping[str, Any] | None:
    """The fields of a value that has named ones."""
    if isinstance(value, Row):
        return None if value.field_names() is None else value.as_dict()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=False))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    return None
