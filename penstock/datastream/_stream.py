"""``DataStream``: a stream of records, as users hold it.

A stream is a set of links (where its records come from and how they are to be partitioned) plus the
environment's graph.  Every transformation adds a node and returns a new stream; nothing runs before
``execute()``.
"""

# long because its docstrings are the manual of streams

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, overload

from penstock.connectors.builtin.driver_output import CollectSink, PrintSink
from penstock.connectors.sink import Sink, TypedSink
from penstock.core.error_codes import Code
from penstock.core.errors import GraphError
from penstock.core.options import RUNTIME_MODE
from penstock.core.type_vars import K, R, S, T_co, V
from penstock.core.typeinfo import DeclaredType, TypeInformation, as_type_info, project_type
from penstock.core.wanted import wanted
from penstock.datastream import _frames
from penstock.datastream._sink import CloseableIterator, DataStreamSink, StepSettings
from penstock.datastream._taking import Seconds, checked_count, checked_timeout, taken
from penstock.datastream._wrappers import SinkFunction
from penstock.event_time.watermark_strategy import WatermarkStrategy
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
from penstock.graph.bounded import runs_in_batch
from penstock.graph.nodes import Chaining, Link, Node, NodeId, NodeKind
from penstock.operators.functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
)
from penstock.operators.join.functions import JoinKind
from penstock.operators.map_batches import MapBatchesOperator
from penstock.operators.operator import Operator
from penstock.operators.output_tag import OutputTag
from penstock.operators.process import ProcessOperator
from penstock.operators.sink_operator import SinkOperator
from penstock.operators.stateless import FilterOperator, FlatMapOperator, MapOperator, ProjectOperator
from penstock.operators.timestamps import assigning
from penstock.operators.window.assigners import WindowAssigner
from penstock.operators.window.windows import W
from penstock.state.descriptors import MapStateDescriptor

if TYPE_CHECKING:
    from penstock.common.execution_config import ExecutionConfig
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment


def together(*streams: DataStream[Any]) -> None:
    """Raises unless the streams are of one environment: what a step is called means something there only."""
    if len({id(stream.get_execution_environment()) for stream in streams}) > 1:
        raise GraphError(
            "these streams belong to different environments, which are different jobs; make both with one "
            "StreamExecutionEnvironment",
            code=Code.OTHER_ENVIRONMENT,
        )


class DataStream(StepSettings, Generic[T_co]):
    """A stream of records: what a source gives, and what every transformation returns.

    Nothing runs while a program is built.  Transformations (``map``, ``key_by``, ``process``) return new
    streams and leave this one as it is, so it can be read by several steps.  Setters (``name``, ``uid``,
    ``set_parallelism``) change the step that made this stream and return it: call them right after the
    transformation.  ``env.execute()`` runs all that leads to a sink; ``execute_and_collect`` runs it and
    brings the records here.

    >>> words = env.from_collection(["to be or", "not to be"]).flat_map(str.split).name("words")
    >>> list(words.filter(lambda word: len(word) > 2).execute_and_collect())
    ['not']

    ``DataStream[str]`` says that records are texts; type checkers know it from the functions.  The functions
    run in the slots, on one thread each; see ``Function`` for what that means.
    """

    def __init__(self, env: StreamExecutionEnvironment, links: tuple[Link, ...]) -> None:
        self._env = env
        self._links = links

    # --- the step behind the stream ---------------------------------------------------------

    def _node(self) -> Node:
        if len(self._links) != 1 or self._links[0].partitioning is not None:
            raise GraphError(
                "name, uid, parallelism and the like belong to a step; call them right after the "
                "transformation, before union(), key_by() or a repartitioning",
                code=Code.NO_STEP_HERE,
            )
        return self._env.graph.get(self._links[0].source)

    def _step(self) -> NodeId:
        return self._node().id

    def get_name(self) -> str:
        """Name of the step."""
        return self._node().name

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Number of key groups of the step: the most it can ever be scaled to."""
        return self._change(max_parallelism=max_parallelism)

    def force_non_parallel(self) -> Self:
        """One subtask."""
        return self._change(parallelism=1, max_parallelism=1)

    def get_type(self) -> TypeInformation[Any] | None:
        """Declared type of the records; ``None`` if nobody declared one."""
        link = self._links[0]
        node = self._env.graph.get(link.source)
        declared: TypeInformation[Any] | None
        declared = node.output_type if link.tag is None else node.side_types.get(link.tag)
        return declared

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment this stream belongs to."""
        return self._env

    def get_execution_config(self) -> ExecutionConfig:
        """The environment's execution config."""
        return self._env.get_config()

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """How long, in milliseconds, output may wait to become a larger batch while input keeps coming."""
        return self._change(buffer_timeout_ms=timeout_millis)

    def start_new_chain(self) -> Self:
        """Begin a new task with this step."""
        return self._change(chaining=Chaining.HEAD)

    # --- transformations --------------------------------------------------------------------

    def _add(
        self,
        name: str,
        factory: Callable[[], Operator],
        links: tuple[Link, ...] | None = None,
        output_type: DeclaredType = None,
        **properties: Any,
    ) -> DataStream[Any]:
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

    def _add_same_type(
        self, name: str, factory: Callable[[], Operator], **properties: Any
    ) -> DataStream[T_co]:
        """A step that passes records on as they are, so that nothing needs to be converted."""
        return self._add(name, factory, output_type=self.get_type(), casts=False, **properties)

    def map(
        self, func: Callable[[T_co], R] | MapFunction[T_co, R], output_type: DeclaredType = None
    ) -> DataStream[R]:
        """One record out for each record in: ``func`` of it, at the same event time.

        ``func``: a function of one value, or a ``MapFunction`` if it needs ``open``.  ``output_type``: the
        type of the results, to which they are converted; a ``ROW`` of simple fields travels as columns.

        >>> list(env.from_collection([1, 2]).map(lambda n: n * n, Types.LONG()).execute_and_collect())
        [1, 4]
        """
        return self._add("Map", made(MapOperator, func), output_type=output_type)

    def flat_map(
        self,
        func: Callable[[T_co], Iterable[R] | None] | FlatMapFunction[T_co, R],
        output_type: DeclaredType = None,
    ) -> DataStream[R]:
        """Any number of records out for each record in, all at its event time.

        ``func``: a function of one value that returns an iterable, is a generator, or returns ``None``; or a
        ``FlatMapFunction``.

        >>> list(env.from_collection(["a b", "c"]).flat_map(str.split).execute_and_collect())
        ['a', 'b', 'c']
        """
        return self._add("Flat Map", made(FlatMapOperator, func), output_type=output_type)

    def filter(self, func: Callable[[T_co], bool] | FilterFunction[T_co]) -> DataStream[T_co]:
        """The records for which ``func``, a function or a ``FilterFunction``, is true."""
        return self._add_same_type("Filter", made(FilterOperator, func))

    def project(self, *field_indexes: int) -> DataStream[Any]:
        """The fields at these positions, of tuples or rows; columns stay columns."""
        projected = project_type(self.get_type(), field_indexes)
        return self._add("Projection", made(ProjectOperator, *field_indexes), output_type=projected)

    def map_batches(
        self,
        fn: Callable[[Any], Any],
        format: str = "arrow",
        output_type: DeclaredType = None,
        timestamp_column: str | None = None,
    ) -> DataStream[Any]:
        """Whole batches through ``fn``: Arrow record batches, pandas or polars frames, or row lists.

        The fast way: one call per thousands of records.  ``format`` is what ``fn`` gets and returns:
        ``"arrow"``, ``"pandas"``, ``"polars"`` or ``"rows"``.  It may return a batch of another size; then
        ``timestamp_column`` names the column with event times.  How large a batch is depends on the load.

        >>> doubled = env.from_collection([1, 2]).map_batches(lambda rows: [2 * n for n in rows], "rows")
        >>> list(doubled.execute_and_collect())
        [2, 4]
        """
        factory = made(MapBatchesOperator, fn, format, timestamp_column)
        return self._add("Map Batches", factory, output_type=output_type)

    def process(self, func: ProcessFunction[T_co, R], output_type: DeclaredType = None) -> DataStream[R]:
        """A function with a context: timestamps and side outputs. For state and timers, ``key_by`` first."""
        return self._add("Process", made(ProcessOperator, func), output_type=output_type)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream[T_co]:
        """Give records event times and the stream watermarks, by which windows and timers know the time.

        Better done at the source, with the strategy given to ``from_source``: there it works per split.
        """
        factory = assigning(wanted(WatermarkStrategy, watermark_strategy))
        return self._add_same_type("Timestamps/Watermarks", factory)

    @overload
    def key_by(
        self, key_selector: str, key_type: str | DeclaredType = None, *more: str
    ) -> _keyed.KeyedStream[T_co, Any]: ...

    @overload
    def key_by(
        self, key_selector: Callable[[T_co], K] | KeySelector[T_co, K], key_type: DeclaredType = None
    ) -> _keyed.KeyedStream[T_co, K]: ...

    def key_by(self, key_selector: Any, key_type: Any = None, *more: str) -> _keyed.KeyedStream[T_co, Any]:
        """Partition by key: records of equal keys meet on one subtask, where they share state.

        ``key_selector``: a function of the record or a ``KeySelector``, which must give the same key each
        time, never ``None``; or the names of one or more fields, which keeps columns columns.  Keys are
        numbers, texts, bytes, dates, enums, dataclasses, and tuples of these.

        >>> keyed = env.from_collection([("a", 1), ("b", 2), ("a", 3)]).key_by(lambda pair: pair[0])
        >>> list(keyed.sum(1).execute_and_collect())
        [('a', 1), ('b', 2), ('a', 4)]
        """
        names = [name for name in (key_selector, key_type, *more) if isinstance(name, str)]
        if isinstance(key_selector, str):
            return _keyed.KeyedStream(self, Hash(columns=tuple(names)))
        selector = key_selector.get_key if isinstance(key_selector, KeySelector) else key_selector
        if not callable(selector):
            raise GraphError(f"key_by takes a function or field names, not {key_selector!r}")
        return _keyed.KeyedStream(self, Hash(selector=selector))

    def window_all(self, window_assigner: WindowAssigner[Any, W]) -> _windowed.AllWindowedStream[T_co, W]:
        """Windows over the whole stream, on one subtask: it cannot be scaled. See ``KeyedStream.window``."""
        return _windowed.AllWindowedStream(self, window_assigner)

    def union(self, *streams: DataStream[S]) -> DataStream[T_co | S]:
        """The records of all streams, in no particular order."""
        together(self, *(wanted(DataStream, stream) for stream in streams))
        links = self._links + tuple(link for stream in streams for link in stream._links)
        return DataStream(self._env, links)

    @overload
    def connect(self, ds: DataStream[S]) -> _connected.ConnectedStreams[T_co, S]: ...

    @overload
    def connect(self, ds: _connected.BroadcastStream[S]) -> _connected.BroadcastConnectedStream[T_co, S]: ...

    def connect(self, ds: Any) -> Any:
        """Two streams, of different types if need be, into one function with a method for each.

        Both keyed alike, they share state and timers.  With what ``broadcast(descriptor)`` gives, every
        instance of the function gets all records of ``ds``: see ``BroadcastProcessFunction``.
        """
        if isinstance(ds, _connected.BroadcastStream):
            return _connected.BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        return _connected.ConnectedStreams(self, wanted(DataStream, ds))

    def join(self, other_stream: DataStream[Any], how: str = "inner") -> _joined.JoinedStreams:
        """Pairs of equal key and window: ``.where(k1).equal_to(k2).window(w).apply(f)``.

        ``how`` is inner, left, right or full; a record without a partner comes with ``None``.
        """
        return _joined.JoinedStreams(self, other_stream, JoinKind.of(how))

    def co_group(self, other_stream: DataStream[Any]) -> _joined.CoGroupedStreams:
        """All records of equal key and window as two lists: ``.where``, ``.equal_to``, ... as in a join."""
        return _joined.CoGroupedStreams(self, other_stream, None)

    def iterate(self, *args: object) -> NoReturn:
        """Refused: a loop in the dataflow has no place for a barrier."""
        raise _joined.no_loops()

    def get_side_output(self, output_tag: OutputTag[S]) -> DataStream[S]:
        """The records that the step sent to a tag, with ``yield tag, value`` or as too late for a window."""
        node = self._node()
        if wanted(OutputTag, output_tag).type_info is not None:
            declared = as_type_info(output_tag.type_info)
            self._change(side_types={**node.side_types, output_tag.tag_id: declared})
        return DataStream(self._env, (Link(node.id, tag=output_tag.tag_id),))

    def cache(self) -> CachedDataStream[T_co]:
        """The same stream, to be read by several jobs. Each computes it anew; nothing is stored."""
        return CachedDataStream(self._env, self._links)

    # --- partitioning -----------------------------------------------------------------------

    def _partition(self, partitioning: Partitioning) -> DataStream[T_co]:
        links = tuple(replace(link, partitioning=partitioning) for link in self._links)
        return DataStream(self._env, links)

    def shuffle(self) -> DataStream[T_co]:
        """Deal records at random."""
        return self._partition(Shuffle())

    def rebalance(self) -> DataStream[T_co]:
        """Deal records round robin over all subtasks of the next step; those that fall behind get fewer."""
        return self._partition(Rebalance())

    def rescale(self) -> DataStream[T_co]:
        """Deal records as :meth:`rebalance` does, over a local share of the next step's subtasks."""
        return self._partition(Rescale())

    def forward(self) -> DataStream[T_co]:
        """Keep records on the subtask with the same number."""
        return self._partition(Forward())

    def global_(self) -> DataStream[T_co]:
        """All records to the first subtask of the next step."""
        return self._partition(Global())

    @overload
    def broadcast(self, broadcast_state_descriptor: None = None) -> DataStream[T_co]: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor[Any, Any],
        *other_broadcast_state_descriptors: MapStateDescriptor[Any, Any],
    ) -> _connected.BroadcastStream[T_co]: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor[Any, Any] | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor[Any, Any],
    ) -> DataStream[T_co] | _connected.BroadcastStream[T_co]:
        """Every record to every subtask of the next step.

        With descriptors of the maps that these records feed, the broadcast side of a ``connect``: see
        ``BroadcastProcessFunction``.
        """
        spread = self._partition(Broadcast())
        if broadcast_state_descriptor is None:
            return spread
        return _connected.BroadcastStream(
            spread, [broadcast_state_descriptor, *other_broadcast_state_descriptors]
        )

    def partition_custom(
        self,
        partitioner: Callable[[V, int], int] | Partitioner[V],
        key_selector: Callable[[T_co], V] | KeySelector[T_co, V],
    ) -> DataStream[T_co]:
        """Send each record where ``partitioner(key, number of subtasks)`` says.

        >>> ones = env.from_collection([3, 4]).partition_custom(lambda key, n: key % n, lambda value: value)
        >>> sorted(ones.map(str).execute_and_collect())
        ['3', '4']
        """
        choose = partitioner.partition if isinstance(partitioner, Partitioner) else partitioner
        select = key_selector.get_key if isinstance(key_selector, KeySelector) else key_selector
        return self._partition(Custom(choose, select))

    # --- ends -------------------------------------------------------------------------------

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the stream to a sink: one of ``penstock.datastream.connectors``, or one of your own.

        What the sink guarantees is in its documentation; exactly once needs checkpoints.
        """
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

    def add_sink(self, sink_func: Sink | SinkFunction) -> DataStreamSink:
        """The 1.x name of :meth:`sink_to`."""
        return self.sink_to(sink_func.sink if isinstance(sink_func, SinkFunction) else sink_func)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print the records on the driver's standard output, behind ``sink_identifier`` if there is one."""
        return self.sink_to(PrintSink(sink_identifier)).name("Sink: Print to Std. Out")

    def for_each_epoch(
        self, function: Callable[[Any, int], object], directory: str | None = None, schema: object = None
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
        schema: object = None,
    ) -> Any:
        """Run the program, which must end by itself, and get this stream as a Spark DataFrame.

        Its rows are in files below ``directory``, or in temporary ones that last as long as the program.
        """
        return _frames.to_dataframe(self, spark, job_execution_name, directory, schema)

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T_co]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T_co]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T_co]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T_co] | list[T_co]:
        """Run the program, and get the records of this stream here.

        Without ``limit`` an iterator, which gives records as they come and raises the job's error if it
        fails; close it, or leave its ``with`` block, to cancel the job.  With ``limit`` a list of that many
        records, or of all if there are fewer, after which the job is cancelled.

        >>> with env.from_collection([1, 2, 3]).execute_and_collect() as records:
        ...     sum(records)
        6
        >>> env.from_collection([1, 2, 3]).execute_and_collect(limit=2)
        [1, 2]
        """
        records = self._gathered("Collect")
        client = self._env.execute_async(job_execution_name or "collect")
        results = CloseableIterator(records, client)
        if limit is None:
            return results
        with results:
            return list(islice(results, limit))

    def take(self, n: int = 10, timeout: Seconds = 30.0, job_execution_name: str | None = None) -> list[T_co]:
        """The first ``n`` records of this stream, or those that come within ``timeout``: to have a look.

        Runs the program and always ends: with ``n`` records, at the end of the stream, or when the time is
        up, and then with what has come by then.  The job is cancelled.  ``timeout`` is in seconds, or a
        duration such as ``"2 min"``; it counts from when the job has been started.  With checkpoints on,
        records come with the checkpoint that holds them.  Raises the error of a job that fails.

        >>> env.from_collection([1, 2, 3]).take(2)
        [1, 2]
        """
        count, seconds = checked_count(n), checked_timeout(timeout)
        if not count:
            return []
        records = self._gathered("Take")
        client = self._env.execute_async(job_execution_name or "take")
        return taken(records, client, count, seconds)

    def _gathered(self, name: str) -> SimpleQueue[T_co]:
        """Where the records of this stream will be: as they come, and in BATCH subtask by subtask.

        One subtask sends them, so that they stay in order.  In BATCH the driver reads the subtasks' results
        in their order anyway, and one more step would be one more shuffle: there each subtask of the last
        step sends its own.
        """
        records: SimpleQueue[T_co] = SimpleQueue()
        sink = self.sink_to(CollectSink(records)).name(name)
        is_batch = runs_in_batch(self._env.configuration().get(RUNTIME_MODE), self._env.graph.nodes)
        if not is_batch or len(self._links) != 1 or self._links[0].partitioning is not None:
            sink.set_parallelism(1)
        elif (width := self._env.graph.get(self._links[0].source).parallelism) is not None:
            sink.set_parallelism(width)
        return records


class CachedDataStream(DataStream[T_co]):
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
