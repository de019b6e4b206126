"""PyFlink's ``common.config_options``: options of one's own, for ``Configuration.get``."""

from __future__ import annotations

from typing import Generic, TypeVar

from penstock.core.option import Kind, Option

__all__ = ["ConfigOption", "ConfigOptions"]

T = TypeVar("T")

ConfigOption = Option
"""A key with a type and a default."""


class ConfigOptions:
    """Begins the declaration of an option of one's own, to be read from a ``Configuration``.

    >>> retries = ConfigOptions.key("my.retries").int_type().default_value(3)
    >>> Configuration().get(retries), Configuration().set_string("my.retries", "5").get(retries)
    (3, 5)
    """

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """An option with this key."""
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """Asks for the type."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """True or false."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, Kind.BOOLEAN)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """A whole number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, Kind.INT)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """A whole number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, Kind.INT)

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """A number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, Kind.FLOAT)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """A number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, Kind.FLOAT)

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """Text."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, Kind.STRING)

    class TypedConfigOptionBuilder(Generic[T]):
        """Asks for the default."""

        def __init__(self, key: str, kind: Kind) -> None:
            self._key = key
            self._kind = kind

        def default_value(self, value: T) -> Option[T]:
            """The option, with a default."""
            return Option(self._key, self._kind, str(value), "")

        def no_default_value(self) -> Option[T | None]:
            """The option; ``Configuration.get`` gives ``None`` while it is not set."""
            return Option(self._key, self._kind, None, "")
