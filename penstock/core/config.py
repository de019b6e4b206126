"""Settings: the :class:`Configuration` users fill, and the rules for reading it.

The settings themselves are listed in :mod:`penstock.core.options`, those of connections in
:mod:`penstock.core.security_options`.  A ``Configuration`` takes any key, as PyFlink's does;
:meth:`Configuration.check`, called once before a job starts, refuses keys that nobody knows and values that
cannot be read, so a typing error does not run for a week unnoticed.
"""

from __future__ import annotations

import builtins
import difflib
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from penstock.core.archive_options import ARCHIVE_OPTIONS
from penstock.core.autoscaler_options import AUTOSCALER_OPTIONS
from penstock.core.discreet import HIDDEN, discreet, is_secret
from penstock.core.elastic_options import ELASTIC_OPTIONS
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.core.flink_keys import flink_keys, is_flinks
from penstock.core.option import Kind, Option
from penstock.core.options import OPTIONS
from penstock.core.rest_options import REST_OPTIONS
from penstock.core.security_options import TRANSPORT_OPTIONS, TRUST_OPTIONS
from penstock.core.telling_options import TELLING_OPTIONS
from penstock.core.trace_options import TRACE_OPTIONS

T = TypeVar("T")

SPARKS = "spark."
"""How keys begin that go to Spark as they are."""

OPTIONS |= (
    TRANSPORT_OPTIONS
    | TRUST_OPTIONS
    | REST_OPTIONS
    | ARCHIVE_OPTIONS
    | TRACE_OPTIONS
    | TELLING_OPTIONS
    | AUTOSCALER_OPTIONS
    | ELASTIC_OPTIONS
)
GIVEN_MASTER = "spark.master"
"""Spark's own setting, for a master that is to hold whatever else is configured."""

_MAPS = [option for option in OPTIONS.values() if option.kind is Kind.MAP]
_BY_ANY_KEY = OPTIONS | {old: option for option in OPTIONS.values() for old in option.fallback_keys}


def find(key: str) -> Option[Any] | None:
    """The option with this key, today's or an older one; ``None`` if the key is Spark's, or only Flink's.

    A key that nobody knows is a :class:`ConfigError` that names the nearest ones.
    """
    option = _BY_ANY_KEY.get(key) or _entry_of_map(key)
    if option is not None or key.startswith(SPARKS) or is_flinks(key):
        return option
    near = difflib.get_close_matches(key, _BY_ANY_KEY.keys() | flink_keys(), n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "see docs/configuration.md for all"
    raise ConfigError(f"there is no setting {key!r}; {hint}", code=Code.UNKNOWN_SETTING)


def _entry_of_map(key: str) -> Option[Any] | None:
    owner = next((o for o in _MAPS if key.startswith(f"{o.key}.")), None)
    return None if owner is None else Option(key, Kind.STRING, None, owner.doc)


def resolve(key: str, text: object) -> Any:
    """The value of setting ``key`` from its text; one of Spark or Flink alone is returned as it is."""
    option = find(key)
    return text if option is None else option.parse(text)


def layered(*layers: Mapping[str, Any]) -> Configuration:
    """One configuration of several: what a later one sets, by whatever name, no earlier one does."""
    merged: dict[str, Any] = {}
    for layer in layers:
        named = {_newest(key) for key in layer}
        merged = {key: value for key, value in merged.items() if _newest(key) not in named} | dict(layer)
    return Configuration.from_dict(merged)


def _newest(key: str) -> str:
    option = _BY_ANY_KEY.get(key)
    return key if option is None else option.key


class Configuration:
    """Settings: key and value pairs. Values keep the type they were set with; readers convert.

    >>> config = Configuration().set_string("parallelism.default", "2").set_integer("my.number", 7)
    >>> config.get_integer("parallelism.default", 1), config.get_string("my.number", "")
    (2, '7')

    A configuration takes any key; a job that starts with one that neither Penstock nor Flink nor Spark
    knows is refused.  ``docs/configuration.md`` lists all.

    ``get_string`` and its sisters take any key.  Engine code uses :meth:`get` with a constant of
    :mod:`penstock.core.options`, which knows the type, the default and the older names of the key.
    """

    def __init__(
        self, other: Configuration | None = None, j_configuration: Configuration | None = None
    ) -> None:
        """Empty, or a copy of ``other``, or another handle on what ``get_j_env_configuration`` gave."""
        self._values: dict[str, Any] = {} if other is None else dict(other._values)
        if j_configuration is not None:
            self._values = j_configuration._values

    @classmethod
    def from_dict(cls, map: Mapping[str, object]) -> Configuration:
        """A configuration with the entries of ``map``."""
        config = cls()
        config._values.update(map)
        return config

    def get(self, option: Option[T]) -> T:
        """The value of a known option, or its default."""
        for key in (option.key, *option.fallback_keys):
            if key in self._values:
                return option.parse(self._values[key])
        return option.default_value()

    def get_map(self, option: Option[dict[str, str]]) -> dict[str, str]:
        """The entries of a map: those in its own value, and those with a key each, which win."""
        prefix = f"{option.key}."
        single = {key: value for key, value in self._values.items() if key.startswith(prefix)}
        return self.get(option) | {key.removeprefix(prefix): _to_text(v) for key, v in single.items()}

    def set_map(self, option: Option[dict[str, str]], entries: Mapping[str, object]) -> Configuration:
        """Let these be all entries of a map."""
        for key in [key for key in self._values if key == option.key or key.startswith(f"{option.key}.")]:
            del self._values[key]
        self._values.update({f"{option.key}.{key}": _to_text(value) for key, value in entries.items()})
        return self

    def set(self, option: Option[T], value: T | str) -> Configuration:
        """Set a known option; :class:`ConfigError` if the value cannot be read."""
        option.parse(value)
        for old in option.fallback_keys:
            self._values.pop(old, None)
        return self._put(option.key, value)

    def has(self, option: Option[Any]) -> bool:
        """Whether an option is set, under its key or an older one."""
        return any(key in self._values for key in (option.key, *option.fallback_keys))

    def check(self) -> frozenset[str]:
        """Refuse unknown keys and unreadable values; the keys of Flink that were set and do nothing here."""
        unused = set()
        for key, value in self._values.items():
            option = find(key)
            if option is not None:
                option.parse(value)
            if (option is None and not key.startswith(SPARKS)) or (option is not None and option.is_idle):
                unused.add(key)
        return frozenset(unused)

    def get_string(self, key: str, default_value: str) -> str:
        """The value as text."""
        return _to_text(self._values[key]) if key in self._values else default_value

    def set_string(self, key: str, value: str) -> Configuration:
        """Set text."""
        return self._put(key, value)

    def get_integer(self, key: str, default_value: int) -> int:
        """The value as a whole number."""
        return self._read(key, Kind.INT, default_value)

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set a whole number."""
        return self._put(key, value)

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """The value as a boolean."""
        return self._read(key, Kind.BOOLEAN, default_value)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set a boolean."""
        return self._put(key, value)

    def get_float(self, key: str, default_value: float) -> float:
        """The value as a number."""
        return self._read(key, Kind.FLOAT, float(default_value))

    def set_float(self, key: str, value: float) -> Configuration:
        """Set a number."""
        return self._put(key, float(value))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """The value as bytes."""
        value = self._values.get(key, default_value)
        return bytearray(value.encode()) if isinstance(value, str) else bytearray(value)

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Set bytes."""
        return self._put(key, bytearray(value))

    @staticmethod
    def parse_list_value(value: str | None) -> list[str]:
        """Items of a list written as ``a;b``, as ``[a, b]`` or as lines that begin with ``- ``."""
        text = (value or "").strip()
        if text.startswith("["):
            items = text[1:].removesuffix("]").split(",")
        elif text.startswith("- "):
            items = [line.strip().removeprefix("-") for line in text.splitlines()]
        else:
            items = text.split(";")
        return [item.strip().strip("'\"") for item in items if item.strip()]

    def key_set(self) -> builtins.set[str]:
        """The keys that are set."""
        return set(self._values)

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Copy the entries, with the types they were set with."""
        target_dict.update(self._values)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Take over the entries of ``other``, their keys behind ``prefix``."""
        self._values.update({(prefix or "") + key: value for key, value in other._values.items()})
        return self

    def contains_key(self, key: str) -> bool:
        """Whether the key is set."""
        return key in self._values

    def to_dict(self) -> dict[str, str]:
        """The entries as text."""
        return {key: _to_text(value) for key, value in self._values.items()}

    def to_show(self) -> dict[str, str]:
        """The entries as text, without secrets: for messages, logs and people."""
        return {key: HIDDEN if is_secret(key) else discreet(text) for key, text in self.to_dict().items()}

    def remove_config(self, key: str) -> bool:
        """Forget a key; whether it was set."""
        return self._values.pop(key, None) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self.to_dict().items()))

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key}={text}" for key, text in sorted(self.to_show().items())) + "}"

    def _put(self, key: str, value: Any) -> Configuration:
        self._values[key] = value
        return self

    def _read(self, key: str, kind: Kind, default: T) -> T:
        if key not in self._values:
            return default
        option: Option[T] = Option(key, kind, None, "")
        return option.parse(self._values[key])


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ";".join(map(str, value))
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value)
