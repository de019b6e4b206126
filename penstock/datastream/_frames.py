"""Spark DataFrames at the ends of a stream: the part of the API behind which ``penstock.spark`` works.

Programs are written without Spark, so its modules are looked up only when one of these is called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from penstock.core import options
from penstock.core.errors import GraphError
from penstock.event_time.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
    from penstock.datastream._sink import DataStreamSink
    from penstock.datastream._stream import DataStream
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment


def from_dataframe(
    env: StreamExecutionEnvironment,
    frame: Any,
    strategy: WatermarkStrategy | None,
    name: str,
    time_column: str | None,
    directory: str | None,
    type_info: Any,
) -> DataStream:
    """See ``StreamExecutionEnvironment.from_dataframe``."""
    sort_by = time_column if strategy is None else None
    checkpoints = env.configuration().get(options.CHECKPOINT_DIR)
    source = _spark("frame_source").FrameSource(frame, directory, checkpoints, sort_by)
    if strategy is None:
        monotonous = WatermarkStrategy.for_monotonous_timestamps()
        strategy = monotonous if time_column else WatermarkStrategy.no_watermarks()
    if time_column is not None:
        strategy = strategy.with_timestamp_column(time_column)
    return env.from_source(source, strategy, name, type_info)


def for_each_epoch(stream: DataStream, function: Any, directory: str | None, schema: Any) -> DataStreamSink:
    """See ``DataStream.for_each_epoch``."""
    env = stream.get_execution_environment()
    frames = _spark("epoch_frames")
    spark = session(env)
    checkpoints = env.configuration().get(options.CHECKPOINT_DIR)
    place = _spark("frame_source").place_for(spark, "for_each_epoch", directory, checkpoints, frames.FOLDER)
    return stream.sink_to(frames.EpochDataFrames(function, spark, place, schema))


def to_dataframe(
    stream: DataStream, spark: Any, job_name: str | None, directory: str | None, schema: Any
) -> Any:
    """See ``DataStream.to_dataframe``."""
    env = stream.get_execution_environment()
    nodes = env.graph.nodes_if_read(link.source for link in stream._links)
    endless = [node.name for node in nodes if node.source is not None and not node.source.bounded]
    if endless:
        raise GraphError(
            f"to_dataframe waits for the end of the job, and step {endless[0]!r} has none; give the source "
            "an end, or take the rows of each checkpoint with for_each_epoch"
        )
    spark = spark or session(env)
    frames = _spark("epoch_frames")
    place = _spark("frame_source").place_for(spark, "to_dataframe", directory, None, frames.FOLDER)
    result = frames.ResultFrame(place, schema)
    if stream.get_type() is not None:
        result = result.typed(stream.get_type())
    stream.sink_to(result).name("To DataFrame")
    env.execute(job_name)
    return result.frame(spark)


def session(env: StreamExecutionEnvironment) -> Any:
    """The active Spark session, or one started with the environment's settings."""
    return _spark("launcher").SparkLauncher(env.configuration()).session()


def _spark(module: str) -> Any:
    return importlib.import_module(f"penstock.spark.{module}")
