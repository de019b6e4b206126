"""``DataStream``: a stream of records, as users hold it.

A stream is a set of links (where its records come from and how they are to be partitioned) plus the
environment's graph.  Every transformation adds a node and returns a new stream; nothing runs before
``execute()``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from penstock.connectors.collect import CollectSink
from penstock.connectors.printing import PrintSink
from penstock.connectors.sink import Sink, TypedSink
from penstock.connectors.watermark_strategy import WatermarkStrategy
from penstock.core.errors import GraphError
from penstock.core.typeinfo import as_type_info, project_type
from penstock.datastream import _frames
from penstock.datastream._results import CloseableIterator
from penstock.datastream._sink import DataStreamSink
from penstock.datastream._wrappers import SinkFunction
from penstock.exchange.partition import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Hash,
    Partitioning,
    Rebalance,
    Rescale,
    Shuffle,
)
from penstock.graph.nodes import Chaining, Link, Node, NodeKind
from penstock.operators.functions import KeySelector, Partitioner, ProcessFunction
from penstock.operators.join.functions import JoinKind
from penstock.operators.map_batches import MapBatchesOperator
from penstock.operators.operator import Operator
from penstock.operators.output_tag import OutputTag
from penstock.operators.process import ProcessOperator
from penstock.operators.sink_operator import SinkOperator
from penstock.operators.stateless import FilterOperator, FlatMapOperator, MapOperator, ProjectOperator
from penstock.operators.timestamps import assigning
from penstock.state.descriptors import MapStateDescriptor

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment


class DataStream:
    """A stream of records.

    Transformations return new streams; setters such as ``name`` and ``uid`` change the step that made
    this one and return it.
    """

    def __init__(self, env: StreamExecutionEnvironment, links: tuple[Link, ...]) -> None:
        self._env = env
        self._links = links

    # --- the step behind the stream ---------------------------------------------------------

    def _node(self) -> Node:
        if len(self._links) != 1 or self._links[0].partitioning is not None:
            raise GraphError(
                "name, uid, parallelism and the like belong to a step; call them right after the "
                "transformation, before union(), key_by() or a repartitioning"
            )
        return self._env.graph.get(self._links[0].source)

    def _change(self, **changes: Any) -> DataStream:
        self._env.graph.change(self._node().id, **changes)
        return self

    def get_name(self) -> str:
        """Name of the step."""
        return self._node().name

    def name(self, name: str) -> DataStream:
        """Name the step, for plans, errors and metrics."""
        return self._change(name=name)

    def uid(self, uid: str) -> DataStream:
        """Give the step an identity that keeps its state findable when the program changes."""
        return self._change(uid=uid)

    def set_uid_hash(self, uid_hash: str) -> DataStream:
        """Give the step the identity that a snapshot shows for it."""
        return self._change(uid_hash=uid_hash)

    def set_parallelism(self, parallelism: int) -> DataStream:
        """How many subtasks the step has."""
        self._env.check_parallelism(parallelism)
        return self._change(parallelism=parallelism)

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        """Number of key groups of the step: the most it can ever be scaled to."""
        return self._change(max_parallelism=max_parallelism)

    def force_non_parallel(self) -> DataStream:
        """One subtask."""
        return self._change(parallelism=1, max_parallelism=1)

    def get_type(self) -> Any:
        """Declared type of the records, if any."""
        link = self._links[0]
        node = self._env.graph.get(link.source)
        return node.output_type if link.tag is None else node.side_types.get(link.tag)

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment this stream belongs to."""
        return self._env

    def get_execution_config(self) -> Any:
        """The environment's execution config."""
        return self._env.get_config()

    def set_buffer_timeout(self, timeout_millis: int) -> DataStream:
        """How long output may wait to become a larger batch while input keeps coming."""
        return self._change(buffer_timeout_ms=timeout_millis)

    def start_new_chain(self) -> DataStream:
        """Begin a new task with this step."""
        return self._change(chaining=Chaining.HEAD)

    def disable_chaining(self) -> DataStream:
        """Give this step a task of its own."""
        return self._change(chaining=Chaining.NEVER)

    def slot_sharing_group(self, slot_sharing_group: Any) -> DataStream:
        """Keep the step out of chains with other groups. All groups share the job's slots."""
        name = slot_sharing_group if isinstance(slot_sharing_group, str) else slot_sharing_group.get_name()
        return self._change(slot_group=name)

    def set_description(self, description: str) -> DataStream:
        """Longer text for plans."""
        return self._change(description=description)

    # --- transformations --------------------------------------------------------------------

    def _add(
        self,
        name: str,
        factory: Callable[[], Operator],
        links: tuple[Link, ...] | None = None,
        output_type: Any = None,
        **properties: Any,
    ) -> DataStream:
        """A step. Its results are brought to ``output_type``, if one is declared."""
        declared = as_type_info(output_type)
        node_id = self._env.graph.add(
            NodeKind.OPERATOR,
            name,
            factory,
            links=self._links if links is None else links,
            **{"output_type": declared, "casts": declared is not None, **properties},
        )
        return DataStream(self._env, (Link(node_id),))

    def _add_same_type(self, name: str, factory: Callable[[], Operator], **properties: Any) -> DataStream:
        """A step that passes records on as they are, so that nothing needs to be converted."""
        return self._add(name, factory, output_type=self.get_type(), casts=False, **properties)

    def map(self, func: Any, output_type: Any = None) -> DataStream:
        """One record out for each record in."""
        return self._add("Map", made(MapOperator, func), output_type=output_type)

    def flat_map(self, func: Any, output_type: Any = None) -> DataStream:
        """Any number of records out for each record in."""
        return self._add("Flat Map", made(FlatMapOperator, func), output_type=output_type)

    def filter(self, func: Any) -> DataStream:
        """The records for which ``func`` is true."""
        return self._add_same_type("Filter", made(FilterOperator, func))

    def project(self, *field_indexes: int) -> DataStream:
        """The fields at these positions."""
        projected = project_type(self.get_type(), field_indexes)
        return self._add("Projection", made(ProjectOperator, *field_indexes), output_type=projected)

    def map_batches(
        self,
        fn: Callable[[Any], Any],
        format: str = "arrow",
        output_type: Any = None,
        timestamp_column: str | None = None,
    ) -> DataStream:
        """Whole batches through ``fn``: Arrow record batches, pandas or polars frames, or row lists.

        The fast way: one call per thousands of records.  ``fn`` may return a batch of another size;
        then ``timestamp_column`` names the column with event times.
        """
        factory = made(MapBatchesOperator, fn, format, timestamp_column)
        return self._add("Map Batches", factory, output_type=output_type)

    def process(self, func: ProcessFunction, output_type: Any = None) -> DataStream:
        """A function with a context: timestamps and side outputs."""
        return self._add("Process", made(ProcessOperator, func), output_type=output_type)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give records event times and the stream watermarks."""
        return self._add_same_type("Timestamps/Watermarks", assigning(watermark_strategy))

    def key_by(self, key_selector: Any, key_type: Any = None, *more: str) -> _keyed.KeyedStream:
        """Partition by key: a function of the record, or the names of one or more fields.

        Named fields keep columnar streams columnar.
        """
        names = [name for name in (key_selector, key_type, *more) if isinstance(name, str)]
        if isinstance(key_selector, str):
            return _keyed.KeyedStream(self, Hash(columns=tuple(names)))
        selector = key_selector.get_key if isinstance(key_selector, KeySelector) else key_selector
        if not callable(selector):
            raise GraphError(f"key_by takes a function or field names, not {key_selector!r}")
        return _keyed.KeyedStream(self, Hash(selector=selector))

    def window_all(self, window_assigner: Any) -> _windowed.AllWindowedStream:
        """Windows over the whole stream, on one subtask."""
        return _windowed.AllWindowedStream(self, window_assigner)

    def union(self, *streams: DataStream) -> DataStream:
        """The records of all streams, in no particular order."""
        links = self._links + tuple(link for stream in streams for link in stream._links)
        return DataStream(self._env, links)

    def connect(self, ds: DataStream | _connected.BroadcastStream) -> Any:
        """Two streams of different kinds into one function."""
        if isinstance(ds, _connected.BroadcastStream):
            return _connected.BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        return _connected.ConnectedStreams(self, ds)

    def join(self, other_stream: DataStream, how: str = "inner") -> _joined.JoinedStreams:
        """Pairs of equal key and window: ``.where(k1).equal_to(k2).window(w).apply(f)``.

        ``how`` is inner, left, right or full; a record without a partner comes with ``None``.
        """
        return _joined.JoinedStreams(self, other_stream, JoinKind.of(how))

    def co_group(self, other_stream: DataStream) -> _joined.CoGroupedStreams:
        """All records of equal key and window as two lists: ``.where``, ``.equal_to``, ... as in a join."""
        return _joined.CoGroupedStreams(self, other_stream, None)

    def iterate(self, *args: Any) -> Any:
        """Refused: a loop in the dataflow has no place for a barrier."""
        raise _joined.no_loops()

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """The records that the step sent to a tag."""
        node = self._node()
        if output_tag.type_info is not None:
            declared = as_type_info(output_tag.type_info)
            self._change(side_types={**node.side_types, output_tag.tag_id: declared})
        return DataStream(self._env, (Link(node.id, tag=output_tag.tag_id),))

    def cache(self) -> CachedDataStream:
        """The same stream, to be read by several jobs. Each computes it anew; nothing is stored."""
        return CachedDataStream(self._env, self._links)

    # --- partitioning -----------------------------------------------------------------------

    def _partition(self, partitioning: Partitioning) -> DataStream:
        links = tuple(replace(link, partitioning=partitioning) for link in self._links)
        return DataStream(self._env, links)

    def shuffle(self) -> DataStream:
        """Deal records at random."""
        return self._partition(Shuffle())

    def rebalance(self) -> DataStream:
        """Deal records round robin over all subtasks of the next step."""
        return self._partition(Rebalance())

    def rescale(self) -> DataStream:
        """Deal records round robin over a local share of the next step's subtasks."""
        return self._partition(Rescale())

    def forward(self) -> DataStream:
        """Keep records on the subtask with the same number."""
        return self._partition(Forward())

    def global_(self) -> DataStream:
        """All records to the first subtask of the next step."""
        return self._partition(Global())

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> Any:
        """Every record to every subtask; with descriptors, the broadcast side of a connect."""
        spread = self._partition(Broadcast())
        if broadcast_state_descriptor is None:
            return spread
        return _connected.BroadcastStream(
            spread, [broadcast_state_descriptor, *other_broadcast_state_descriptors]
        )

    def partition_custom(self, partitioner: Any, key_selector: Any) -> DataStream:
        """Send each record where ``partitioner(key, number of subtasks)`` says."""
        choose = partitioner.partition if isinstance(partitioner, Partitioner) else partitioner
        select = key_selector.get_key if isinstance(key_selector, KeySelector) else key_selector
        return self._partition(Custom(choose, select))

    # --- ends -------------------------------------------------------------------------------

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the stream to a sink."""
        if not isinstance(sink, Sink):
            raise GraphError(
                f"sink_to takes a penstock.connectors.sink.Sink, not {type(sink).__name__}; see the sink "
                "contract for writing one"
            )
        if self.get_type() is not None and isinstance(sink, TypedSink):
            sink = sink.typed(self.get_type())
        name = f"Sink: {type(sink).__name__}"
        graph = self._env.graph
        node_id = graph.add(NodeKind.SINK, name, partial(SinkOperator, sink), links=self._links, sink=sink)
        return DataStreamSink(self._env, node_id)

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """The 1.x name of :meth:`sink_to`."""
        return self.sink_to(sink_func.sink if isinstance(sink_func, SinkFunction) else sink_func)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print the records on the driver's standard output."""
        return self.sink_to(PrintSink(sink_identifier)).name("Sink: Print to Std. Out")

    def for_each_epoch(
        self, function: Callable[[Any, int], object], directory: str | None = None, schema: Any = None
    ) -> DataStreamSink:
        """``function(frame, epoch)`` on the driver, with the rows of each checkpoint as a Spark DataFrame.

        After a crash a call may come again, with the same epoch and rows: exact if the function is idempotent
        in the epoch.  Rows wait in ``directory``, by default below the checkpoint directory.
        """
        return _frames.for_each_epoch(self, function, directory, schema)

    def to_dataframe(
        self,
        spark: Any = None,
        job_execution_name: str | None = None,
        directory: str | None = None,
        schema: Any = None,
    ) -> Any:
        """Run the program, which must end by itself, and get this stream as a Spark DataFrame.

        Its rows are in files below ``directory``, or in temporary ones that last as long as the program.
        """
        return _frames.to_dataframe(self, spark, job_execution_name, directory, schema)

    def execute_and_collect(self, job_execution_name: str | None = None, limit: int | None = None) -> Any:
        """Run the program and get the records of this stream here: an iterator, or a list if limited."""
        records: SimpleQueue[Any] = SimpleQueue()
        self.sink_to(CollectSink(records)).name("Collect").set_parallelism(1)  # records stay in order
        client = self._env.execute_async(job_execution_name or "collect")
        results = CloseableIterator(records, client)
        if limit is None:
            return results
        with results:
            return list(islice(results, limit))


class CachedDataStream(DataStream):
    """A stream that several jobs read. Flink may keep its records between them; here they are computed."""

    def invalidate(self) -> None:
        """Nothing is kept, so there is nothing to forget."""


def made(kind: Callable[..., Operator], *args: Any) -> Callable[[], Operator]:
    """A factory, tried once here so that a wrong argument is reported where it was written."""
    kind(*args)
    return partial(kind, *args)


# The stream classes make one another, so their modules import each other. These are used only when a
# method is called, after all modules are complete.
from penstock.datastream import _connected, _joined, _keyed, _windowed  # noqa: E402
