"""What a function learns in ``open``: its state, its metrics and where it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, GraphError, KeyError_
from penstock.core.metrics import MetricGroup
from penstock.core.type_vars import IN, OUT, K, T, V
from penstock.operators.operator import OperatorContext
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.state.handles import AggregatingState, ListState, MapState, ReducingState, ValueState
from penstock.state.operator_state import ListMode, OperatorListState


class _NoKey:
    """Stands for the current key where there is none: any use of keyed state trips over its hash."""

    def __hash__(self) -> int:
        raise KeyError_(
            "keyed state and timers were used where no key is current: in open or close, or on the "
            "broadcast side; use them in process_element or on_timer, where each call has its key",
            code=Code.NO_CURRENT_KEY,
        )

    def __repr__(self) -> str:
        return "<no key>"


NO_KEY = _NoKey()
"""What ``scope.key`` holds outside of a record or timer."""


class KeyedStateStore(ABC):
    """Hands out state handles; obtain them once, in ``open``: each serves all keys."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """One value per key: ``get_state(ValueStateDescriptor("count", Types.LONG()))``."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """A list per key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """A map per key."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """A running reduction per key."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor[IN, OUT]
    ) -> AggregatingState[IN, OUT]:
        """A running aggregation per key."""


class RuntimeContext(KeyedStateStore):
    """Given to ``Function.open``: state, metrics, and where the function runs.

    >>> class WhoAmI(MapFunction):
    ...     def open(self, runtime_context):
    ...         self.me = runtime_context.get_index_of_this_subtask()
    ...         self.limit = int(runtime_context.get_job_parameter("limit", "10"))
    ...     def map(self, value):
    ...         return value, self.me, self.limit
    >>> list(env.from_collection(["a"]).map(WhoAmI()).execute_and_collect())
    [('a', 0, 10)]

    Keyed state exists only behind a ``key_by``; asking for it elsewhere is an error at once, not at
    the first record.
    """

    def __init__(self, ctx: OperatorContext, keyed: bool) -> None:
        self._ctx = ctx
        self._keyed = keyed

    def get_task_name(self) -> str:
        """Name of the task, which may be a chain of several steps."""
        return self._ctx.info.task_name

    def get_number_of_parallel_subtasks(self) -> int:
        """How many instances of this step run."""
        return self._ctx.info.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """How many instances there can ever be: the number of key groups."""
        return self._ctx.info.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Number of this instance, from 0."""
        return self._ctx.info.subtask

    def get_attempt_number(self) -> int:
        """How often the job has been started before, from 0."""
        return self._ctx.info.attempt

    def get_task_name_with_subtasks(self) -> str:
        """Task name with instance number (from 1) and parallelism, as in ``count (2/4)``."""
        info = self._ctx.info
        return f"{info.task_name} ({info.subtask + 1}/{info.parallelism})"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A global job parameter."""
        return self._ctx.info.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        """Where to register metrics of your own."""
        return self._ctx.metrics

    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        return self._handle(state_descriptor)  # type: ignore[no-any-return]

    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        return self._handle(state_descriptor)  # type: ignore[no-any-return]

    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        return self._handle(state_descriptor)  # type: ignore[no-any-return]

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        return self._handle(state_descriptor)  # type: ignore[no-any-return]

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor[IN, OUT]
    ) -> AggregatingState[IN, OUT]:
        return self._handle(state_descriptor)  # type: ignore[no-any-return]

    def get_operator_list_state(self, name: str, mode: str = "split") -> OperatorListState:
        """A list that belongs to this instance, not to a key; stored in every snapshot.

        After a restore ``"split"`` deals the items of all instances out in near-equal shares,
        ``"union"`` gives every instance all of them.
        """
        if mode not in (ListMode.SPLIT.value, ListMode.UNION.value):
            raise ConfigError(
                f"operator list state {name!r} asks for mode {mode!r}; choose 'split' or 'union'"
            )
        state = self._ctx.operator_state.list_state(name, ListMode(mode))
        state.own = self._ctx.own
        return state

    def _handle(self, descriptor: StateDescriptor) -> Any:
        if not self._keyed:
            raise GraphError(
                f"step {self._ctx.info.operator_name!r} asks for keyed state "
                f"{descriptor.get_name()!r}, but its input is not keyed; put a key_by in front of it, "
                "or use get_operator_list_state for state that belongs to no key",
                code=Code.NOT_KEYED,
            )
        return self._ctx.keyed.private_handle(descriptor)
