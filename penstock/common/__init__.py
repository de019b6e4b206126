"""What programs share: settings, types, rows, time, watermarks, jobs, formats of bytes. PyFlink's names.

>>> WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).makes_watermarks
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.elsewhere import front_of

if TYPE_CHECKING:
    from penstock.common.completable_future import CompletableFuture
    from penstock.common.config_options import ConfigOption, ConfigOptions
    from penstock.common.configuration import Configuration
    from penstock.common.execution_config import ExecutionConfig
    from penstock.common.execution_mode import ExecutionMode
    from penstock.common.input_dependency_constraint import InputDependencyConstraint
    from penstock.common.job_client import JobClient
    from penstock.common.job_execution_result import JobExecutionResult
    from penstock.common.job_id import JobID
    from penstock.common.job_listener import (
        JobIdle,
        JobListener,
        JobProgressed,
        JobStarted,
        JobTerminated,
    )
    from penstock.common.job_status import JobStatus
    from penstock.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
    from penstock.common.serialization import (
        ByteArraySchema,
        DeserializationSchema,
        Encoder,
        SerializationSchema,
        SimpleStringSchema,
    )
    from penstock.common.serializer import TypeSerializer
    from penstock.common.time import Duration, Instant, Time
    from penstock.common.typeinfo import TypeInformation, Types
    from penstock.common.types import Row, RowKind
    from penstock.common.watermark_strategy import AssignerWithPeriodicWatermarksWrapper, WatermarkStrategy

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "ExecutionMode",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobIdle",
    "JobListener",
    "JobProgressed",
    "JobStarted",
    "JobStatus",
    "JobTerminated",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
]

if not TYPE_CHECKING:  # else a typing error in any name would pass for one of these
    _BEFORE_1_16 = [
        f"{kind}Row{way}Schema"
        for kind in ("Avro", "Csv", "Json")
        for way in ("Deserialization", "Serialization")
    ]
    _MODULES = """
        time types typeinfo serialization serializer watermark_strategy configuration config_options
        execution_mode input_dependency_constraint restart_strategy execution_config completable_future job_id
        job_status job_execution_result job_client job_listener
    """
    __getattr__ = front_of(__name__, [*__all__, *_BEFORE_1_16], _MODULES)


def __dir__() -> list[str]:
    return __all__
