"""The options of a connector: each is asked for by its name, and what nobody asked for is a mistake."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import NoReturn

from penstock.core.durations import to_millis
from penstock.core.errors import ConfigError
from penstock.expressions.suggest import nearest

_A_TYPING_ERROR = 0.8
"""How alike a wrong name and the right one are; ``value.format`` is no wrong ``key.format``."""


class Options:
    """Options of one table; :meth:`done` refuses those that were not asked for.

    Values are never quoted, since they may be passwords; names are.
    """

    def __init__(self, table: str, given: Mapping[str, str]) -> None:
        self.table = table
        self._given = dict(given)
        self._asked: set[str] = set()

    def text(self, name: str, default: str | None = None) -> str:
        """An option that is a text; without a default it is needed."""
        self._asked.add(name)
        found = self._given.get(name, default)
        if found is None:
            raise self._missing(name)
        return found

    def maybe(self, name: str) -> str | None:
        """An option that may be left out."""
        self._asked.add(name)
        return self._given.get(name)

    def one_of(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        """One of several words."""
        found = self.text(name, default)
        if found not in choices:
            raise ConfigError(
                f"option '{name}' of table {self.table!r} is one of "
                f"{', '.join(choices)}{nearest(found, choices)}"
            )
        return found

    def number(self, name: str, default: int | None = None) -> int | None:
        """A whole number."""
        found = self.maybe(name)
        if found is None:
            return default
        try:
            return int(found)
        except ValueError:
            self._wrong(name, "is a whole number")

    def fraction(self, name: str, default: float = 0.0) -> float:
        """A number."""
        found = self.maybe(name)
        try:
            return default if found is None else float(found)
        except ValueError:
            self._wrong(name, "is a number")

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        found = self.maybe(name)
        if found is None:
            return default
        if found.lower() not in ("true", "false"):
            self._wrong(name, "is true or false")
        return found.lower() == "true"

    def millis(self, name: str) -> int | None:
        """A length of time."""
        found = self.maybe(name)
        try:
            return None if found is None else to_millis(found)
        except (ConfigError, ValueError):
            self._wrong(name, "is a length of time, such as 10 s")

    def beginning(self, prefix: str) -> dict[str, str]:
        """All options whose names begin so, without the beginning."""
        found = {name.removeprefix(prefix): it for name, it in self._given.items() if name.startswith(prefix)}
        self._asked.update(prefix + name for name in found)
        return found

    def passed_over(self, *names: str) -> None:
        """Options that say nothing here, and do no harm."""
        self._asked.update(names)

    def done(self, connector: str) -> None:
        """All have been asked for; others are mistakes."""
        for name in self._left():
            raise ConfigError(
                f"connector {connector!r} of table {self.table!r} has no option '{name}'"
                f"{nearest(name, self._asked)}"
            )

    def _missing(self, name: str) -> ConfigError:
        """What to say of an option that is needed: its typing error, if there is one that looks like it."""
        typed = difflib.get_close_matches(name, self._left(), 1, _A_TYPING_ERROR)
        if typed:
            return ConfigError(f"table {self.table!r} has no option '{typed[0]}'; did you mean {name!r}?")
        return ConfigError(f"table {self.table!r} needs the option '{name}'")

    def _left(self) -> list[str]:
        return sorted(set(self._given) - self._asked)

    def _wrong(self, name: str, what: str) -> NoReturn:
        raise ConfigError(f"option '{name}' of table {self.table!r} {what}")
