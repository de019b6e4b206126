"""One setting: its key, how its text is read, its default and what is said of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar, cast

from penstock.core.durations import to_bytes, to_millis
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError

_MOST = 65_535


def ports_in(text: str) -> Iterator[int]:
    """The ports of a text that :func:`port_text` has let pass, in their order."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def port_text(text: str) -> str:
    """The text without blanks; refused with the way out if it makes no sense."""
    plain = text.replace(" ", "")
    if re.fullmatch(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*", plain):
        found = list(ports_in(plain))
        if found and max(found) <= _MOST and (0 not in found or found == [0]):
            return plain
    raise ConfigError(
        f"{text!r} names no ports; write one (50000), a range (50000-50100), several of these with commas, "
        f"all up to {_MOST}, or 0 for any"
    )


UNUSED = "Accepted for ported programs; has no effect here."
LATER = "Accepted for ported programs; has no effect yet."
NO_EFFECT = "Has no effect"
"""How the description of a setting begins that is known and does nothing."""
CENTURY_MS = 100 * 365 * 86_400_000
"""The longest time that a setting can mean: clocks do not count to the end of the numbers."""

T = TypeVar("T")


class Kind(Enum):
    """How the text of a setting is read."""

    BOOLEAN = "boolean"
    INT = "int"
    FLOAT = "float"
    STRING = "string"
    DURATION = "duration"
    """Milliseconds as an ``int`` once read."""
    MEMORY = "memory"
    """Bytes as an ``int`` once read."""
    ENUM = "enum"
    """One of ``choices``, upper or lower case, ``-`` or ``_``."""
    MAP = "map"
    """``a:1,b:2``, or a key per entry: ``key.a`` and ``key.b``. A ``dict`` of text once read."""
    PORTS = "ports"
    """A port, a range of them, or several with commas; text, without blanks, once read."""


@dataclass(frozen=True)
class Option(Generic[T]):
    """One setting. ``T`` is the Python type of its value. Made by ``ConfigOptions``.

    >>> ConfigOptions.key("my.name").string_type().default_value("x").key
    'my.name'
    """

    key: str
    kind: Kind
    default: str | None
    """As a user would write it; ``None`` means the setting has no default."""
    doc: str
    fallback_keys: tuple[str, ...] = ()
    """Older names, looked up in this order when ``key`` is not set."""
    choices: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    """What is taken for a choice, and for which."""
    least: float | None = None
    """Of a number, once read; lengths of time and sizes are never below 0."""
    most: float | None = None
    unset: int | None = None
    """A number beyond these that stands for none."""

    @property
    def is_idle(self) -> bool:
        """Whether its description says that it does nothing."""
        return self.doc in (UNUSED, LATER) or self.doc.startswith(NO_EFFECT)

    def parse(self, value: object) -> T:
        """The value of a setting from its text (or from a value that already has the right type)."""
        try:
            return cast(T, self._bounded(_READ[self.kind](self, value)))
        except (ConfigError, ValueError) as e:
            raise ConfigError(f"setting {self.key!r}: {e}", code=Code.SETTING_VALUE) from None

    def _bounded(self, found: Any) -> Any:
        """What was read, if it is a number that will do; NaN never does where there is a bound."""
        unit = _UNITS.get(self.kind)
        if unit is None or found == self.unset:
            return found
        least = 0 if self.least is None and unit else self.least
        if (least is None or found >= least) and (self.most is None or found <= self.most):
            return found
        bounds = [("at least", least), ("at most", self.most)]
        allowed = " and ".join(f"{word} {bound:g}{unit}" for word, bound in bounds if bound is not None)
        none = "" if self.unset is None else f", or {self.unset} for none"
        raise ConfigError(f"{found}{unit} will not do; it is {allowed}{none}")

    def default_value(self) -> T:
        """The default, parsed."""
        return cast(T, None) if self.default is None else self.parse(self.default)


class OptionGroup(dict[str, Option[Any]]):
    """The settings of one subject, by key; :mod:`penstock.core.config` joins all groups."""

    def add(
        self, key: str, kind: Kind, default: str | None, doc: str, *older: str, **more: Any
    ) -> Option[Any]:
        """A new one; ``older`` are its former names, ``more`` are other fields of :class:`Option`."""
        option: Option[Any] = Option(key, kind, default, doc, older, **more)
        self[key] = option
        return option


def _boolean(option: Option[Any], value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{value!r} is not a boolean; write true or false")
    return text == "true"


def _int(option: Option[Any], value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ConfigError(f"{value!r} is not a whole number") from None


def _float(option: Option[Any], value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise ConfigError(f"{value!r} is not a number") from None


def _enum(option: Option[Any], value: object) -> str:
    def plain(text: str) -> str:
        return text.strip().lower().replace("_", "-")

    wanted = dict(option.aliases).get(plain(str(value)), plain(str(value)))
    for choice in option.choices:
        if plain(choice) == wanted:
            return choice
    raise ConfigError(f"{value!r} is none of {', '.join(option.choices)}")


def _map(option: Option[Any], value: object) -> dict[str, str]:
    if isinstance(value, dict):
        return {str(key): str(item) for key, item in value.items()}
    entries = [entry.partition(":") for entry in str(value).split(",") if entry.strip()]
    if any(not colon for _, colon, _ in entries):
        raise ConfigError(f"{value!r} is not a map; write a:1,b:2")
    return {key.strip(): item.strip() for key, _, item in entries}


def _duration(option: Option[Any], value: object) -> int:
    """Whoever writes the largest number there is means never."""
    return min(to_millis(cast(Any, value)), CENTURY_MS)


_UNITS = {Kind.INT: "", Kind.FLOAT: "", Kind.DURATION: " ms", Kind.MEMORY: " bytes"}
_READ: dict[Kind, Callable[[Option[Any], object], Any]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INT: _int,
    Kind.FLOAT: _float,
    Kind.STRING: lambda option, value: str(value),
    Kind.DURATION: _duration,
    Kind.MEMORY: lambda option, value: to_bytes(cast(Any, value)),
    Kind.ENUM: _enum,
    Kind.MAP: _map,
    Kind.PORTS: lambda option, value: port_text(str(value)),
}
