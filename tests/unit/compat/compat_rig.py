"""Short programs on the in-process cluster, and what they give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment

BY_VALUE = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[-1])
"""The last field of a tuple is its time."""


def environment(parallelism: int = 1, **settings: str) -> StreamExecutionEnvironment:
    """An environment; ``a__b_c`` stands for the key ``a.b-c``."""
    config = Configuration()
    for key, value in settings.items():
        config.set_string(key.replace("__", ".").replace("_", "-"), value)
    return StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)


def stream(values: Iterable[Any], type_info: Any = None, **settings: str) -> DataStream:
    """A stream of one subtask."""
    return environment(**settings).from_collection(list(values), type_info)


def timed(values: Iterable[Any], **settings: str) -> DataStream:
    """A stream of tuples whose last field is their time."""
    return stream(values, **settings).assign_timestamps_and_watermarks(BY_VALUE)


def results(ds: DataStream) -> list[Any]:
    """Everything a stream gives."""
    return list(ds.execute_and_collect())
