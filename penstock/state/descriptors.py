"""How users name and type the state they want.  PyFlink's descriptors."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import ConfigError


class StateDescriptor:
    """Name and type of a state; the same name on the same operator is the same state."""

    def __init__(self, name: str, type_info: Any = None) -> None:
        if not name:
            raise ConfigError("a state needs a name that is not empty")
        self.name = name
        self.type_info = type_info
        self.ttl_config: Any = None

    def get_name(self) -> str:
        """The state's name."""
        return self.name

    def enable_time_to_live(self, ttl_config: Any) -> None:
        """Let entries expire as ``ttl_config`` says."""
        self.ttl_config = ttl_config


class ValueStateDescriptor(StateDescriptor):
    """One value per key."""

    def __init__(self, name: str, value_type_info: Any = None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """A list per key (or, as operator state, per subtask)."""

    def __init__(self, name: str, elem_type_info: Any = None) -> None:
        super().__init__(name, elem_type_info)


class MapStateDescriptor(StateDescriptor):
    """A map per key (or, as broadcast state, per operator)."""

    def __init__(self, name: str, key_type_info: Any = None, value_type_info: Any = None) -> None:
        super().__init__(name, (key_type_info, value_type_info))


class ReducingStateDescriptor(StateDescriptor):
    """One value per key, the reduction of all values added."""

    def __init__(self, name: str, reduce_function: Any, type_info: Any = None) -> None:
        super().__init__(name, type_info)
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> Any:
        """The function, or object with ``reduce``, that joins two values."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """One accumulator per key, fed by ``add`` and read through ``get_result``."""

    def __init__(self, name: str, agg_function: Any, state_type_info: Any = None) -> None:
        super().__init__(name, state_type_info)
        self._agg_function = agg_function

    def get_agg_function(self) -> Any:
        """The :class:`AggregateFunction`."""
        return self._agg_function
