"""Fields of records whose values are nobody's business, and records as text without them.

A record is shown to people where it made a function fail, where state is looked up, and where a stream is
watched.  What may be secret in it is told by the names of its fields: keys of a dict, names of a ``Row``, a
named tuple or a dataclass, and names in text: JSON, or what else has names with values behind them, such as
the ``repr`` of an object of a class that is not known here.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import lru_cache
from typing import Any

from penstock.core.discreet import HIDDEN, discreet, shown
from penstock.core.row import Row
from penstock.core.secret_text import without_values
from penstock.core.tabular import plain_of

DEFAULT = (
    "*password*,*passwd*,*passphrase*,pwd,*secret*,*token*,*credential*,*api_key*,*apikey*,*access_key*,"
    "*accesskey*,*private_key*,*privatekey*,*authorization*"
)
_DEEPEST = 8
_MOST_PARTS = 10_000
_MOST_CHARACTERS = 1 << 16
"""Of all text in a record that is looked at."""
_LONGEST_TEXT = 1 << 12
"""Of one text that is not JSON."""
_LONGEST_SECRET = 2500
_PLAIN = (list, tuple, set, frozenset, Row)
"""What is written with its parts alone."""
_MOST_BITS = 1 << 12
"""Of a number: Python refuses to write longer ones."""


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
        if isinstance(name, bytes):
            name = name.decode("utf-8", "replace")
        if self._names is None or not isinstance(name, str):
            return False
        return self._names.match(name.replace("-", "_").lower()) is not None

    def written(self, text: str) -> str:
        """Any text, without what stands in it behind names that hide their values."""
        return text if self._names is None else without_values(text, self.hides)

    def shown_lines(self, text: str) -> str:
        """A long text as it may be shown to people: a value may go on over several of its lines.

        Cleaned line by line, so that other threads get their turns.
        """
        return "\n".join(map(shown, self.written(text).split("\n")))

    def text(self, record: Any, longest: int) -> str:
        """The record as Python would write it, shortened, without what is hidden."""
        written = repr(_Masking(self).masked(record, _DEEPEST))
        # What is cut off before secrets are looked for may be the end of one.
        clean = discreet(written[: longest + _LONGEST_SECRET])
        return clean if len(clean) <= longest else clean[:longest] + "..."


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
        self._characters = _MOST_CHARACTERS

    def masked(self, value: Any, depth: int) -> Any:
        """The value itself where nothing in it is hidden, else something that is written like it."""
        self._left -= 1
        if self._left < 0 or depth < 0:
            return _MORE
        if value is None or isinstance(value, float | bool | _Said):
            return value
        if isinstance(value, int):
            return value if value.bit_length() <= _MOST_BITS else _Said(f"({value.bit_length()} bits)")
        if isinstance(value, str | bytes | bytearray):
            return self._in_text(value)
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        names = _names_of(value)
        if names is not None:
            return self._named(value, names, depth)
        if isinstance(value, list | tuple | set | frozenset | Row):
            parts: list[Any] = []
            for part in value:
                parts.append(self.masked(part, depth - 1))
                if self._left < 0:
                    return _rebuilt(value, parts)
            if not all(one is other for one, other in zip(parts, value, strict=True)):
                return _rebuilt(value, parts)
            return value if type(value) in _PLAIN else self._object(value)
        return self._table(value, depth) or self._object(value)

    def _table(self, value: Any, depth: int) -> Any:
        """What shows names and values apart from each other; ``None`` if it does not, or hides nothing."""
        try:
            plain = plain_of(value)
        except Exception:  # whatever a library makes of odd labels
            return None
        if plain is None:
            return None
        made = self.masked(plain, depth - 1)
        return None if made is plain else _Said(f"{type(value).__name__}({made!r})")

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> Any:
        made: dict[Any, Any] = {}
        same = True
        for key, part in value.items():
            kept = self._key(key, depth)
            made[kept] = self.masked(_HIDDEN if self._secret.hides(key) else part, depth - 1)
            same = same and kept is key and made[kept] is part
            if self._left < 0:
                return made
        return value if same else made

    def _key(self, key: Any, depth: int) -> Any:
        """A key may be a record, too, or have one written in it."""
        if isinstance(key, str):
            self._characters -= min(len(key), _LONGEST_TEXT)
            if self._characters < 0:
                return "..."
            left = key if key.isidentifier() else self._secret.written(key[:_LONGEST_TEXT])
            return key if left == key else left
        made = self.masked(key, depth - 1)
        return key if made is key else _Said(repr(made))

    def _object(self, value: Any) -> Any:
        """What nobody here knows the fields of: names and values stand in what it says of itself."""
        try:
            text = repr(value)
        except Exception as error:
            return _Said(f"({type(value).__name__}, which cannot be shown: {type(error).__name__})")
        self._characters -= min(len(text), _LONGEST_TEXT)
        if self._characters < 0:
            return _MORE
        left = self._secret.written(text[:_LONGEST_TEXT])
        return value if left == text else _Said(left if len(text) <= _LONGEST_TEXT else f"{left}...")

    def _named(self, value: Any, names: Mapping[str, Any], depth: int) -> Any:
        made = self._mapping(names, depth)
        if made is names:
            return self._object(value)  # its class may have its own way to say what it is
        return _Said(
            f"{type(value).__name__}({', '.join(f'{name}={part!r}' for name, part in made.items())})"
        )

    def _in_text(self, value: str | bytes | bytearray) -> Any:
        """Text hides what is written in it as a field: as JSON, or as a name with a value behind it."""
        self._characters -= min(len(value), _LONGEST_TEXT)
        if self._characters < 0:
            return _MORE
        text = value[:_MOST_CHARACTERS]
        text = text if isinstance(text, str) else text.decode("utf-8", "replace")
        if text.lstrip()[:1] in ("{", "["):
            try:
                read = json.loads(text, object_pairs_hook=_of_pairs)
            except (ValueError, RecursionError):
                pass
            else:
                made = self.masked(read, _DEEPEST)
                return value if made is read else _Said(repr(json.dumps(made, default=repr)))
        text = text[:_LONGEST_TEXT]
        left = self._secret.written(text)
        if left != text:
            return _Said(repr(left))
        return value if len(value) <= _LONGEST_TEXT else _Said(f"{value[:_LONGEST_TEXT]!r}...")


def _of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; where a name is there twice, its text says more than what is read of it."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name is there twice")
    return made


def _rebuilt(value: Any, parts: list[Any]) -> Any:
    if isinstance(value, Row):
        return _Said(f"<Row({', '.join(map(repr, parts))})>")
    if isinstance(value, set | frozenset):
        return _Said(f"{{{', '.join(map(repr, parts))}}}")
    return parts if isinstance(value, list) else tuple(parts)


def _names_of(value: Any) -> Mapping[str, Any] | None:
    """The fields of a value that has named ones, without those that a dataclass does not write itself."""
    if isinstance(value, Row):
        return None if value.field_names() is None else value.as_dict()
    if isinstance(value, tuple):
        of_spark = getattr(value, "__fields__", None)
        fields = getattr(value, "_fields", None) if of_spark is None else of_spark
        return None if fields is None else dict(zip(fields, value, strict=False))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = (field.name for field in dataclasses.fields(value) if field.repr)
        return {name: getattr(value, name, None) for name in shown}
    return None
