"""``StreamExecutionEnvironment``: where a program begins and ends."""

# long because its docstrings are the manual of programs

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, overload

from penstock.common._listening import Listening
from penstock.common._progress_bar import progress_bar
from penstock.common.execution_config import ExecutionConfig
from penstock.common.io import InputFormat
from penstock.common.job_client import JobClient
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_listener import JobListener
from penstock.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.connectors.builtin.collection import CollectionSource
from penstock.connectors.builtin.socket import SocketTextSource
from penstock.connectors.files.source import FileSource
from penstock.connectors.source import Source
from penstock.core import interrupts, options
from penstock.core.config import Configuration, layered
from penstock.core.conversion import convert_all
from penstock.core.durations import DurationLike
from penstock.core.errors import ConfigError, GraphError
from penstock.core.job import normal_name
from penstock.core.news import news
from penstock.core.telling_options import PROGRESS
from penstock.core.type_vars import R, S
from penstock.core.typeinfo import DeclaredType, TypeInformation, as_type_info
from penstock.core.wanted import wanted
from penstock.datastream import _frames
from penstock.datastream._kept_in_memory import say_what_stays_in_memory
from penstock.datastream._narrowing import narrowed
from penstock.datastream._ported import PortedSettings, PythonDependencies, say_once, say_unused
from penstock.datastream._stream import DataStream
from penstock.datastream._wrappers import SourceFunction
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.execution_mode import RuntimeExecutionMode
from penstock.datastream.job import Launcher, made_up_name, next_unnamed, running_program
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.datastream.state_backend import EmbeddedRocksDBStateBackend, HashMapStateBackend, StateBackend
from penstock.datastream.time_characteristic import TimeCharacteristic
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.graph.bounded import runs_in_batch
from penstock.graph.explain import plan_json, plan_text
from penstock.graph.nodes import GraphBuilder, JobSpec, Link, NodeKind
from penstock.graph.plan import Plan, PlanOptions, PlanSettings, compile_plan
from penstock.luggage.wishes import Wishes
from penstock.operators.source_operator import SourceOperator

__all__ = ["StreamExecutionEnvironment"]
__all__ += ["RestartStrategies", "SlotSharingGroup", "TimeCharacteristic", "TypeInformation", "Types"]

MAX_PARALLELISM = 32768


class StreamExecutionEnvironment(PythonDependencies, PortedSettings):
    """Gathers the steps of a program and runs it: settings, sources, then ``execute``.

    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> result = env.from_collection(["to be", "or not to be"]).flat_map(str.split)
    >>> counts = result.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)
    >>> sorted(counts.execute_and_collect())[-1]
    ('to', 2)

    ``execute()`` uses the active Spark session, or starts one: with the master that Spark was given, else
    with the one that ``penstock.spark.master`` names (default: this machine, with all the slots it wants).
    Within ``penstock.testing.local_cluster()`` jobs run in this process, without Spark.

    A job that must survive failures takes checkpoints: ``enable_checkpointing(1000)``, and
    ``get_checkpoint_config().set_checkpoint_storage_dir(...)`` with a directory that all slots reach.  An
    environment is for one thread; the jobs that it starts run beside it.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration(configuration)
        self._config = ExecutionConfig(self._configuration)
        self.graph = GraphBuilder()
        self._listeners: list[JobListener] = []
        self._sql_session: Any = None

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """The environment to write a program with; a new one at each call.

        ``configuration``: settings by their keys.  Those of ``penstock run -D`` win over them, and those of a
        settings file hold where neither says anything.

        >>> config = Configuration().set_string("parallelism.default", "3")
        >>> StreamExecutionEnvironment.get_execution_environment(config).get_parallelism()
        3
        """
        env = StreamExecutionEnvironment(configuration)
        env.configuration()
        if PortedSettings._local_parallelism is not None and env._config.get_parallelism() < 0:
            env.set_parallelism(PortedSettings._local_parallelism)
        return env

    # --- settings ---------------------------------------------------------------------------

    def configuration(self) -> Configuration:
        """The settings in force, checked."""
        own: dict[str, object] = {}
        self._configuration.add_all_to_dict(own)
        program = running_program()
        merged = layered(program.defaults, own, program.overrides)
        say_unused(merged.check())
        return merged

    def configure(self, configuration: Configuration) -> None:
        """Take over all settings of ``configuration``."""
        self._configuration.add_all(configuration)
        self.configuration()

    def set_state_backend(self, state_backend: StateBackend) -> StreamExecutionEnvironment:
        """Choose where keyed state lives: ``HashMapStateBackend()`` or ``EmbeddedRocksDBStateBackend()``."""
        for key, value in wanted(StateBackend, state_backend).settings().items():
            self._configuration.set_string(key, value)
        return self

    def get_state_backend(self) -> StateBackend:
        """Where keyed state lives."""
        settings = self.configuration()
        if settings.get(options.STATE_BACKEND) == "hashmap":
            return HashMapStateBackend()
        return EmbeddedRocksDBStateBackend(settings.get(options.CHECKPOINT_INCREMENTAL))

    def get_config(self) -> ExecutionConfig:
        """The execution config."""
        return self._config

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """How many subtasks a step has unless it says otherwise."""
        self.check_parallelism(parallelism)
        self._configuration.set_string(options.DEFAULT_PARALLELISM.key, str(parallelism))
        return self

    @staticmethod
    def check_parallelism(parallelism: int) -> None:
        """Refuse numbers that cannot be."""
        if not isinstance(parallelism, int) or not 1 <= parallelism <= MAX_PARALLELISM:
            raise ConfigError(
                f"parallelism must be a whole number from 1 to {MAX_PARALLELISM}, not {parallelism!r}"
            )

    def get_parallelism(self) -> int:
        """Default parallelism; without a setting, the number of slots there are."""
        chosen = self.configuration().get(options.DEFAULT_PARALLELISM)
        return self._launcher().default_parallelism() if chosen is None else int(chosen)

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Number of key groups: the most a keyed step can ever be scaled to."""
        self.check_parallelism(max_parallelism)
        self._configuration.set_string(options.MAX_PARALLELISM.key, str(max_parallelism))
        return self

    def get_max_parallelism(self) -> int:
        """Number of key groups; -1 if not set."""
        return int(self.configuration().get(options.MAX_PARALLELISM))

    def get_default_local_parallelism(self) -> int:
        """Parallelism of programs that set none: what was set here, else the number of slots there are."""
        chosen = PortedSettings._local_parallelism
        return self._launcher().default_parallelism() if chosen is None else chosen

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Parallelism of environments made from now on that set none."""
        self.check_parallelism(parallelism)
        PortedSettings._local_parallelism = parallelism

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Streaming (the default), batch, or batch if all sources end. Results are the same."""
        mode = wanted(RuntimeExecutionMode, execution_mode)
        self._configuration.set_string(options.RUNTIME_MODE.key, mode.name)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """How long output may wait to become a larger batch while input keeps coming."""
        self._configuration.set_string(options.BUFFER_TIMEOUT.key, f"{timeout_millis} ms")
        return self

    def get_buffer_timeout(self) -> int:
        """The buffer timeout in milliseconds."""
        return int(self.configuration().get(options.BUFFER_TIMEOUT))

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Give every step a task of its own."""
        self._configuration.set_string(options.OPERATOR_CHAINING.key, "false")
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether steps may share tasks."""
        return bool(self.configuration().get(options.OPERATOR_CHAINING))

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Settings of snapshots."""
        return CheckpointConfig(self._configuration)

    def enable_checkpointing(
        self, interval: DurationLike, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """Take a snapshot every ``interval`` (milliseconds, or any duration), to which a failed job returns.

        ``mode``: exactly once, unless you say ``CheckpointingMode.AT_LEAST_ONCE``.

        >>> env.enable_checkpointing("10 s").get_checkpoint_interval()
        10000
        """
        config = self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between snapshots; -1 if off."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The guarantee of snapshots."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """Where savepoints go when none is named."""
        self._configuration.set_string(options.SAVEPOINT_DIR.key, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Where savepoints go when none is named, if that was set."""
        return self.configuration().get(options.SAVEPOINT_DIR)

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """The guarantee of snapshots."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake queued records."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether a ported program asked for that; it has no effect."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def set_restart_strategy(
        self, restart_strategy_configuration: RestartStrategyConfiguration
    ) -> StreamExecutionEnvironment:
        """What to do after a failure (the 1.x way; 2.x programs set ``restart-strategy.*``)."""
        self._config.set_restart_strategy(restart_strategy_configuration)
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """What to do after a failure."""
        return self._config.get_restart_strategy()

    def add_listener(self, listener: JobListener) -> StreamExecutionEnvironment:
        """Let ``listener`` hear of every job that is started from here on: its start, progress and end."""
        self._listeners.append(wanted(JobListener, listener))
        return self

    def remove_listener(self, listener: JobListener) -> StreamExecutionEnvironment:
        """Let it hear of no more jobs; those that run already it hears to their ends."""
        self._listeners = [other for other in self._listeners if other is not listener]
        return self

    # --- sources ----------------------------------------------------------------------------

    @overload
    def from_collection(self, collection: Collection[S], type_info: None = None) -> DataStream[S]: ...

    @overload
    def from_collection(
        self, collection: Collection[Any], type_info: TypeInformation[R]
    ) -> DataStream[R]: ...

    @overload
    def from_collection(
        self, collection: Collection[Any], type_info: Sequence[TypeInformation[Any]]
    ) -> DataStream[Row]: ...

    def from_collection(self, collection: Collection[Any], type_info: DeclaredType = None) -> DataStream[Any]:
        """A bounded stream of Python values, read by one subtask. For tests and small tables.

        ``type_info``: the type of the values, to which they are converted.

        >>> person = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
        >>> people = env.from_collection([("ann", 33)], person)
        >>> [one.name for one in people.execute_and_collect()]
        ['ann']
        """
        if not isinstance(collection, Iterable):
            raise ConfigError(f"a collection is wanted, not {collection!r:.80}: give a list, such as [1, 2]")
        declared = as_type_info(type_info)
        source = CollectionSource(convert_all(list(collection), declared))
        stream = self.from_source(source, WatermarkStrategy.no_watermarks(), "Collection Source", declared)
        return stream.set_parallelism(1)

    def create_input(self, input_format: InputFormat, type_info: DeclaredType = None) -> DataStream[Any]:
        """A bounded stream of what an input format reads."""
        if not isinstance(input_format, InputFormat):
            raise GraphError(f"create_input takes an InputFormat, not {type(input_format).__name__}")
        name = type(input_format).__name__
        return self.from_source(
            input_format.create_source(), WatermarkStrategy.no_watermarks(), name, type_info
        )

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: DeclaredType = None,
    ) -> DataStream[Any]:
        """A stream from a source: one of ``penstock.datastream.connectors``, or one of your own.

        ``watermark_strategy`` gives records their event times and the stream its watermarks, per split;
        ``WatermarkStrategy.no_watermarks()`` if event time plays no part.  ``source_name`` is for plans,
        errors and metrics.  ``type_info``: the type of the records, if the source does not know it.

        >>> timeless = WatermarkStrategy.no_watermarks()
        >>> sorted(env.from_source(NumberSequenceSource(1, 3), timeless, "numbers").execute_and_collect())
        [1, 2, 3]
        """
        if not isinstance(source, Source):
            raise GraphError(
                f"from_source takes a penstock.connectors.source.Source, not {type(source).__name__}; see "
                "the source contract for writing one"
            )
        extractor = wanted(WatermarkStrategy, watermark_strategy).extractor
        if extractor is not None and not extractor.is_column:
            why = "used, per split; PyFlink takes one in Python only in assign_timestamps_and_watermarks()"
            say_once("the timestamp assigner given to from_source()", why, news.info)
        node_id = self.graph.add(
            NodeKind.SOURCE,
            f"Source: {source_name}",
            partial(SourceOperator, source, watermark_strategy),
            source=source,
            stateful=True,
            output_type=source.produced_type() if type_info is None else as_type_info(type_info),
        )
        return DataStream(self, (Link(node_id),))

    def add_source(
        self,
        source_func: Source | SourceFunction,
        source_name: str = "Custom Source",
        type_info: DeclaredType = None,
    ) -> DataStream[Any]:
        """The 1.x name of :meth:`from_source`, without watermarks."""
        source = source_func.source if isinstance(source_func, SourceFunction) else source_func
        return self.from_source(source, WatermarkStrategy.no_watermarks(), source_name, type_info)

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream[str]:
        """The lines of text files (the 1.x way)."""
        source = FileSource.text(file_path, charset=charset_name)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Text File")

    def from_dataframe(
        self,
        frame: Any,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "DataFrame",
        time_column: str | None = None,
        directory: str | None = None,
        type_info: DeclaredType = None,
    ) -> DataStream[Any]:
        """The rows of a Spark DataFrame, as columns: a bounded stream that can be replayed.

        In BATCH mode Spark reads the frame in the source's tasks.  For a stream executors write its rows to
        files once, when the job begins: below ``directory``, or the checkpoint directory; with
        ``time_column`` and no strategy they are sorted by it, so that nothing is late.
        """
        return _frames.from_dataframe(
            self, frame, watermark_strategy, source_name, time_column, directory, type_info
        )

    def socket_text_stream(self, hostname: str, port: int, delimiter: str = "\n") -> DataStream[str]:
        """Text from a socket, piece by piece. At most once: a socket cannot be read again."""
        source = SocketTextSource(hostname, port, delimiter)
        stream = self.from_source(source, WatermarkStrategy.no_watermarks(), "Socket Stream")
        return stream.set_parallelism(1)

    def sql(self, statement: str, **frames: Any) -> Any:
        """One statement of SQL, as a :class:`~penstock.dataframe.DataFrame`: see ``docs/guides/sql.md``.

        ``frames`` are DataFrames that the statement reads by their names here.  What CREATE makes is known to
        later statements; INSERT INTO adds a sink, which :meth:`execute` runs.

        >>> env.sql("SELECT n * 2 AS twice FROM (VALUES (1), (2)) AS t(n) WHERE n > 1").to_pylist()
        [{'twice': 4}]
        """
        # A step up in the layers, as that to Spark: SQL is made of DataFrames, and these of streams.
        return importlib.import_module("penstock.sql").session_of(self).sql(statement, **frames)

    # --- running ----------------------------------------------------------------------------

    def _launcher(self) -> Launcher:
        chosen = running_program().launcher
        if chosen is not None:
            return chosen
        # The one step up in the layers: programs are written without Spark and run on it.
        module = importlib.import_module("penstock.spark.launcher")
        launcher: Launcher = module.SparkLauncher(self.configuration())
        return launcher

    def _spec(self, name: str | None) -> JobSpec:
        configuration = self.configuration()
        maximum = configuration.get(options.MAX_PARALLELISM)
        parameters = configuration.get_map(options.JOB_PARAMETERS)
        return JobSpec(
            normal_name(name or configuration.get(options.JOB_NAME) or made_up_name()),
            narrowed(self.graph.nodes),
            configuration,
            configuration.get(options.DEFAULT_PARALLELISM),
            None if maximum in (None, -1) else int(maximum),
            tuple(sorted(parameters.items())),
            self._python.under(Wishes.of(configuration)),
            started_by=running_program().started_by,
        )

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run what was added since the last job, and what it reads from, and wait for its end.

        ``job_name`` is the job's identity: a program that starts again under it, with the same checkpoint
        directory, goes on where it was.  Raises the error of a job that failed for good.  Ctrl-C and
        SIGTERM, in the main thread, end the job first and keep its checkpoints.
        """
        with interrupts.guarded() as guard:
            client = self.execute_async(job_name)
            guard.end_with(client.handle.interrupt, client.handle.what_is_kept)
            with progress_bar(client.handle.view, self.configuration().get(PROGRESS)):
                result: JobExecutionResult = client.get_job_execution_result().result()
        return result

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the program and return at once; the ``JobClient`` waits, cancels, takes savepoints."""
        spec = self._spec(job_name)
        spec.python.check()
        say_what_stays_in_memory(spec.nodes, spec.configuration)
        if not job_name and not spec.configuration.get(options.JOB_NAME):
            spec = replace(spec, name=next_unnamed(spec.name, spec.configuration))
        self.graph.next_job()
        handle = self._launcher().launch(spec)
        for listener in self._listeners:
            Listening(listener, handle).start()
        return JobClient(handle)

    def _plan(self) -> Plan:
        spec = self._spec(None)
        parallelism = spec.parallelism or self._launcher().default_parallelism()
        choices = PlanOptions(parallelism, spec.max_parallelism, self.is_chaining_enabled())
        batch = runs_in_batch(spec.configuration.get(options.RUNTIME_MODE), spec.nodes)
        settings = PlanSettings(
            batch=batch,
            channel_bytes=spec.configuration.get(options.CHANNEL_BYTES),
            network_bytes=spec.configuration.get(options.NETWORK_MEMORY),
        )
        return compile_plan(list(spec.nodes), spec.name, choices, settings)

    def get_execution_plan(self) -> str:
        """The plan as JSON, in Flink's form."""
        return plan_json(self._plan())

    def explain(self) -> str:
        """The plan in words: which steps share a task, how records travel between tasks, and why.

        >>> sink = env.from_collection([1]).map(lambda n: n + 1).print()
        >>> "Map" in env.explain()
        True
        """
        return plan_text(self._plan())

    def close(self) -> None:
        """Nothing to release: the Spark session belongs to whoever started it."""
