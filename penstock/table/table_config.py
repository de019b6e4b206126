"""PyFlink's ``table.table_config``: settings of a ``TableEnvironment``."""

from __future__ import annotations

from typing import Any

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.sql.planner_settings import planner_setting

__all__ = ["TableConfig"]


class TableConfig:
    """Settings by key; those of Flink's planner (``table.*``) that would change results are refused."""

    def __init__(self, env: StreamExecutionEnvironment) -> None:
        self._env = env

    def get_configuration(self) -> Configuration:
        """The settings themselves."""
        return self._env._configuration

    def set(self, key: str, value: Any) -> TableConfig:
        """Change a setting."""
        if not planner_setting(str(key), str(value)):
            self._env._configuration.set_string(str(key), str(value))
            self._env.configuration()
        return self

    def get(self, key: str, default_value: str) -> str:
        """A setting, as text."""
        return self._env._configuration.get_string(key, default_value)

    def set_local_timezone(self, timezone_id: str) -> None:
        """Times with a zone are shown in UTC; others are refused."""
        planner_setting("table.local-time-zone", timezone_id)

    def get_local_timezone(self) -> str:
        """Always UTC."""
        return "UTC"
