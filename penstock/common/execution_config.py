"""PyFlink's ``common.execution_config``: a face over the settings of a job.

What the engine reads is stored in the :class:`Configuration` behind.  What has a meaning only in a
JVM is kept, so that getters return what setters were given, and does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.common.execution_mode import ExecutionMode
from penstock.common.input_dependency_constraint import InputDependencyConstraint
from penstock.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from penstock.core import options
from penstock.core.config import Configuration
from penstock.core.errors import ConfigError
from penstock.core.wanted import wanted

__all__ = ["ExecutionConfig"]

# PyFlink has these here, too, from its other modules.
__all__ += ["InputDependencyConstraint"]

_MAX_KEY_GROUPS = 32768


class ExecutionConfig:
    """Settings of one job, from ``env.get_config()``. What is "kept" is a value nothing else looks at.

    >>> config = env.get_config().set_max_parallelism(64).set_auto_watermark_interval(100)
    >>> config.get_max_parallelism(), config.get_auto_watermark_interval()
    (64, 100)
    """

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._config = Configuration() if configuration is None else configuration
        self._kept: dict[str, Any] = {}

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Subtasks of a step that does not say; -1 leaves it to the environment."""
        if parallelism == self.PARALLELISM_DEFAULT:
            self._config.remove_config(options.DEFAULT_PARALLELISM.key)
            return self
        if parallelism < 1:
            raise ConfigError(f"parallelism must be at least 1 (or -1 for the default), not {parallelism}")
        self._config.set(options.DEFAULT_PARALLELISM, parallelism)
        return self

    def get_parallelism(self) -> int:
        """The default parallelism, -1 if not set."""
        return self._config.get(options.DEFAULT_PARALLELISM) or self.PARALLELISM_DEFAULT

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Number of key groups. Fixed by the first snapshot: choose it large enough."""
        if not 0 < max_parallelism <= _MAX_KEY_GROUPS:
            raise ConfigError(f"max parallelism must be from 1 to {_MAX_KEY_GROUPS}, not {max_parallelism}")
        self._config.set(options.MAX_PARALLELISM, max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Number of key groups, -1 if not set."""
        return self._config.get(options.MAX_PARALLELISM)

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """How often watermarks are emitted, in milliseconds; 0 turns them off."""
        if interval < 0:
            raise ConfigError(f"the watermark interval cannot be negative, it is {interval} ms")
        self._config.set(options.AUTO_WATERMARK_INTERVAL, interval)
        return self

    def get_auto_watermark_interval(self) -> int:
        """The interval in milliseconds."""
        return self._config.get(options.AUTO_WATERMARK_INTERVAL)

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Steps without a uid get one from their position."""
        self._config.set(options.AUTO_GENERATE_UIDS, True)
        return self

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """A stateful step without a uid is an error."""
        self._config.set(options.AUTO_GENERATE_UIDS, False)
        return self

    def has_auto_generated_uids_enabled(self) -> bool:
        """Whether steps without a uid get one."""
        return self._config.get(options.AUTO_GENERATE_UIDS)

    def set_restart_strategy(
        self, restart_strategy_configuration: RestartStrategyConfiguration
    ) -> ExecutionConfig:
        """What to do when the job fails."""
        chosen = wanted(RestartStrategyConfiguration, restart_strategy_configuration)
        self._config.remove_config(options.RESTART_TYPE.key)
        self._config.add_all(Configuration.from_dict(chosen.settings()))
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """What to do when the job fails."""
        return RestartStrategies.from_configuration(self._config)

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, object]) -> ExecutionConfig:
        """Values that functions read with ``RuntimeContext.get_job_parameter``."""
        self._config.set_map(
            options.JOB_PARAMETERS, {k: str(v) for k, v in global_job_parameters_dict.items()}
        )
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """The values, as text."""
        return self._config.get_map(options.JOB_PARAMETERS)

    def enable_object_reuse(self) -> ExecutionConfig:
        """Let branches and state share records, which functions then must not change in place."""
        self._config.set(options.OBJECT_REUSE, True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Copy records that can change where somebody else holds them, too: the default."""
        self._config.set(options.OBJECT_REUSE, False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        """What was set."""
        return self._config.get(options.OBJECT_REUSE)

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Kept."""
        return self._keep("latency", interval)

    def get_latency_tracking_interval(self) -> int:
        """What was set."""
        return int(self._kept.get("latency", 0))

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Kept: cancelled slots leave at once."""
        return self._keep("cancel-interval", interval)

    def get_task_cancellation_interval(self) -> int:
        """What was set; else Flink's default."""
        return int(self._kept.get("cancel-interval", 30_000))

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Kept: cancelled slots leave at once."""
        return self._keep("cancel-timeout", timeout)

    def get_task_cancellation_timeout(self) -> int:
        """What was set; else Flink's default."""
        return int(self._kept.get("cancel-timeout", 180_000))

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Kept: the snapshot format decides."""
        return self._keep("compression", use_snapshot_compression)

    def is_use_snapshot_compression(self) -> bool:
        """What was set."""
        return bool(self._kept.get("compression", False))

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Kept."""
        return self._keep("closure-cleaner", True)

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Kept."""
        return self._keep("closure-cleaner", False)

    def is_closure_cleaner_enabled(self) -> bool:
        """What was set."""
        return bool(self._kept.get("closure-cleaner", True))

    def enable_force_kryo(self) -> ExecutionConfig:
        """Kept."""
        return self._keep("kryo", True)

    def disable_force_kryo(self) -> ExecutionConfig:
        """Kept."""
        return self._keep("kryo", False)

    def is_force_kryo_enabled(self) -> bool:
        """What was set."""
        return bool(self._kept.get("kryo", False))

    def enable_force_avro(self) -> ExecutionConfig:
        """Kept."""
        return self._keep("avro", True)

    def disable_force_avro(self) -> ExecutionConfig:
        """Kept."""
        return self._keep("avro", False)

    def is_force_avro_enabled(self) -> bool:
        """What was set."""
        return bool(self._kept.get("avro", False))

    def enable_generic_types(self) -> ExecutionConfig:
        """Kept."""
        return self._keep("generic-types", True)

    def disable_generic_types(self) -> ExecutionConfig:
        """Kept."""
        return self._keep("generic-types", False)

    def has_generic_types_disabled(self) -> bool:
        """What was set."""
        return not self._kept.get("generic-types", True)

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Always empty: there is no Kryo."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """Always empty: there is no Kryo."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """Always empty: there are no POJOs."""
        return []

    def get_registered_types_with_kryo_serializer_classes(self) -> dict[str, str]:
        """Always empty: there is no Kryo."""
        return {}

    def add_default_kryo_serializer(
        self, type_class_name: str, serializer_class_name: str
    ) -> ExecutionConfig:
        """Passed over: there is no Kryo."""
        return self

    def register_type_with_kryo_serializer(
        self, type_class_name: str, serializer_class_name: str
    ) -> ExecutionConfig:
        """Passed over: there is no Kryo."""
        return self

    def register_kryo_type(self, type_class_name: str) -> ExecutionConfig:
        """Passed over: there is no Kryo."""
        return self

    def register_pojo_type(self, type_class_name: str) -> ExecutionConfig:
        """Passed over: there are no POJOs."""
        return self

    def set_execution_mode(self, execution_mode: ExecutionMode) -> ExecutionConfig:
        """Kept: the runtime mode decides."""
        return self._keep("execution-mode", execution_mode)

    def get_execution_mode(self) -> ExecutionMode:
        """What was set."""
        mode: ExecutionMode = self._kept.get("execution-mode", ExecutionMode.PIPELINED)
        return mode

    def _keep(self, name: str, value: Any) -> ExecutionConfig:
        self._kept[name] = value
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._state() == other._state()

    def __hash__(self) -> int:
        return hash(self._config)

    def _state(self) -> tuple[Any, ...]:
        return (self._config, self._kept)
