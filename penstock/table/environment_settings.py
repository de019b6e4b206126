"""PyFlink's ``table.environment_settings``: streaming or batch."""

from __future__ import annotations

from typing import Any

from penstock.common import Configuration

__all__ = ["EnvironmentSettings"]


class EnvironmentSettings:
    """How a ``TableEnvironment`` runs its programs.

    >>> EnvironmentSettings.in_streaming_mode().is_streaming_mode()
    True
    """

    def __init__(self, streaming: bool = True, configuration: Configuration | None = None) -> None:
        self._streaming = streaming
        self._configuration = Configuration() if configuration is None else configuration

    @staticmethod
    def new_instance() -> EnvironmentSettings.Builder:
        """Begins settings."""
        return EnvironmentSettings.Builder()

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        """Results as they come."""
        return EnvironmentSettings(True)

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        """All input ends, and results come once."""
        return EnvironmentSettings(False)

    def is_streaming_mode(self) -> bool:
        """Whether results come as they are."""
        return self._streaming

    def get_configuration(self) -> Configuration:
        """The settings by key."""
        return self._configuration

    class Builder:
        """Collects settings."""

        def __init__(self) -> None:
            self._streaming = True
            self._configuration: Configuration | None = None

        def in_streaming_mode(self) -> EnvironmentSettings.Builder:
            """Results as they come."""
            self._streaming = True
            return self

        def in_batch_mode(self) -> EnvironmentSettings.Builder:
            """All input ends, and results come once."""
            self._streaming = False
            return self

        def with_configuration(self, config: Configuration) -> EnvironmentSettings.Builder:
            """Settings by key."""
            self._configuration = config
            return self

        def _taken(self, *_: Any) -> EnvironmentSettings.Builder:
            """Names of catalogs and planners, which mean nothing here."""
            return self

        with_built_in_catalog_name = with_built_in_database_name = use_blink_planner = _taken

        def build(self) -> EnvironmentSettings:
            """The settings."""
            return EnvironmentSettings(self._streaming, self._configuration)
