"""How users name and type the state they want.  PyFlink's descriptors.

``with_version`` and ``with_defaults`` are ours: they say how state of an older program is to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Self

from penstock.core.errors import ConfigError
from penstock.core.type_tree import TypeInformation
from penstock.core.type_vars import IN, OUT, K, T, V
from penstock.state.ttl_config import StateTtlConfig


class StateDescriptor:
    """Name and type of a state; the same name on the same operator is the same state."""

    def __init__(self, name: str, type_info: Any = None) -> None:
        if not name:
            raise ConfigError("a state needs a name that is not empty")
        self.name = name
        self.type_info = type_info
        self.ttl_config: StateTtlConfig | None = None
        self.version = 1
        self.migrations: dict[int, Callable[[Any], Any]] = {}
        self.defaults: dict[str, Any] = {}

    def get_name(self) -> str:
        """The state's name."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let entries expire as ``ttl_config`` says. For keyed state only."""
        if not isinstance(ttl_config, StateTtlConfig):
            raise ConfigError(
                f"state {self.name!r} needs a StateTtlConfig for its time to live, got {ttl_config!r}; make "
                "one with StateTtlConfig.new_builder(...).build()"
            )
        self.ttl_config = ttl_config

    @property
    def expires(self) -> bool:
        """Whether entries of the state expire."""
        return self.ttl_config is not None and self.ttl_config.is_enabled()

    def with_version(self, version: int, migrate: Mapping[int, Callable[[Any], Any]] | None = None) -> Self:
        """Give the declared type a number, from 1, and say how older values become newer ones.

        ``migrate[n]`` makes a value of version ``n`` one of version ``n + 1``; it is called with a value, a
        list's element, a map's value or an accumulator.  State without a version is of version 1.
        """
        if version < 1:
            raise ConfigError(f"versions of state {self.name!r} count from 1, got {version}")
        self.version = version
        self.migrations = dict(migrate or {})
        return self

    def with_defaults(self, **fields: Any) -> Self:
        """What fields of the declared ROW get where a snapshot lacks them; ``None`` if not said."""
        self.defaults = fields
        return self


class ValueStateDescriptor(StateDescriptor, Generic[T]):
    """One value per key."""

    def __init__(self, name: str, value_type_info: TypeInformation[T] | None = None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor, Generic[T]):
    """A list per key (or, as operator state, per subtask)."""

    def __init__(self, name: str, elem_type_info: TypeInformation[T] | None = None) -> None:
        super().__init__(name, elem_type_info)


class MapStateDescriptor(StateDescriptor, Generic[K, V]):
    """A map per key (or, as broadcast state, per operator)."""

    def __init__(
        self,
        name: str,
        key_type_info: TypeInformation[K] | None = None,
        value_type_info: TypeInformation[V] | None = None,
    ) -> None:
        super().__init__(name, (key_type_info, value_type_info))


class ReducingStateDescriptor(StateDescriptor, Generic[T]):
    """One value per key, the reduction of all values added."""

    def __init__(self, name: str, reduce_function: Any, type_info: TypeInformation[T] | None = None) -> None:
        super().__init__(name, type_info)
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> Any:
        """The function, or object with ``reduce``, that joins two values."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor, Generic[IN, OUT]):
    """One accumulator per key, fed by ``add`` and read through ``get_result``."""

    def __init__(self, name: str, agg_function: Any, state_type_info: Any = None) -> None:
        super().__init__(name, state_type_info)
        self._agg_function = agg_function

    def get_agg_function(self) -> Any:
        """The :class:`AggregateFunction`."""
        return self._agg_function
