"""``StreamExecutionEnvironment``: where a program begins and ends."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Collection
from functools import partial
from typing import Any

from penstock.common.execution_config import ExecutionConfig
from penstock.common.job_client import JobClient
from penstock.common.job_execution_result import JobExecutionResult
from penstock.connectors.collection import CollectionSource
from penstock.connectors.files.source import FileSource
from penstock.connectors.source import Source
from penstock.connectors.watermark_strategy import WatermarkStrategy
from penstock.core import options
from penstock.core.config import Configuration
from penstock.core.errors import ConfigError, GraphError
from penstock.datastream._stream import DataStream
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.execution_mode import RuntimeExecutionMode
from penstock.datastream.job import Launcher
from penstock.graph.explain import plan_json, plan_text
from penstock.graph.job import JobSpec
from penstock.graph.nodes import GraphBuilder, Link, NodeKind
from penstock.graph.plan import Plan, PlanOptions, compile_plan
from penstock.operators.source_operator import SourceOperator

_log = logging.getLogger("penstock")
MAX_PARALLELISM = 32768


class StreamExecutionEnvironment:
    """Gathers the steps of a program and runs it.

    ``execute()`` uses the active Spark session, or starts one with the master that
    ``penstock.spark.master`` names (default ``local[*]``).
    """

    launcher: Launcher | None = None
    """Who runs jobs; ``None`` means Spark. Tests put an in-process one here."""

    overrides: dict[str, str] = {}
    """Settings that win over the program's own: what ``penstock run -D`` was given."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration(configuration)
        self._config = ExecutionConfig()
        self.graph = GraphBuilder()
        self._python_files: list[str] = []

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """The environment to write a program with."""
        env = StreamExecutionEnvironment(configuration)
        env.configuration()
        return env

    # --- settings ---------------------------------------------------------------------------

    def configuration(self) -> Configuration:
        """The settings in force, checked."""
        merged = Configuration(self._configuration)
        for key, value in StreamExecutionEnvironment.overrides.items():
            merged.set_string(key, value)
        merged.check()
        return merged

    def configure(self, configuration: Configuration) -> None:
        """Take over all settings of ``configuration``."""
        self._configuration.add_all(configuration)
        self.configuration()

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

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Streaming, batch or automatic."""
        self._configuration.set_string(options.RUNTIME_MODE.key, execution_mode.name)
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
        self, interval: Any, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """Take a snapshot every ``interval`` (milliseconds, or any duration)."""
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

    def set_restart_strategy(self, restart_strategy_configuration: Any) -> StreamExecutionEnvironment:
        """What to do after a failure (the 1.x way; 2.x programs set ``restart-strategy.*``)."""
        for key, value in restart_strategy_configuration.settings().items():
            self._configuration.set_string(key, value)
        return self

    # --- shipping ---------------------------------------------------------------------------

    def add_python_file(self, file_path: str) -> None:
        """Ship a module, package directory or zip to the slots."""
        self._python_files.append(file_path)

    def add_jars(self, *jars_path: str) -> None:
        """Accepted for ported programs: Penstock's connectors need no jars."""
        _log.warning("add_jars(%s): Penstock needs no jars; ignored", ", ".join(jars_path))

    def add_classpaths(self, *classpaths: str) -> None:
        """Accepted for ported programs: Penstock's connectors need no jars."""
        _log.warning("add_classpaths(%s): Penstock needs no jars; ignored", ", ".join(classpaths))

    # --- sources ----------------------------------------------------------------------------

    def from_collection(self, collection: Collection[Any], type_info: Any = None) -> DataStream:
        """A bounded stream of Python values, read by one subtask."""
        source = CollectionSource(list(collection))
        stream = self.from_source(source, WatermarkStrategy.no_watermarks(), "Collection Source", type_info)
        return stream.set_parallelism(1)

    def from_source(
        self, source: Source, watermark_strategy: WatermarkStrategy, source_name: str, type_info: Any = None
    ) -> DataStream:
        """A stream from a source; the strategy's timestamps and watermarks work per split."""
        if not isinstance(source, Source):
            raise GraphError(
                f"from_source takes a penstock.connectors.source.Source, not {type(source).__name__}; see "
                "the source contract for writing one"
            )
        node_id = self.graph.add(
            NodeKind.SOURCE,
            f"Source: {source_name}",
            partial(SourceOperator, source, watermark_strategy),
            source=source,
            stateful=True,
            output_type=type_info if type_info is not None else source.produced_type(),
        )
        return DataStream(self, (Link(node_id),))

    def add_source(
        self, source_func: Any, source_name: str = "Custom Source", type_info: Any = None
    ) -> DataStream:
        """The 1.x name of :meth:`from_source`, without watermarks."""
        return self.from_source(source_func, WatermarkStrategy.no_watermarks(), source_name, type_info)

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream:
        """The lines of text files (the 1.x way)."""
        source = FileSource.text(file_path, charset=charset_name)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Text File")

    # --- running ----------------------------------------------------------------------------

    def _launcher(self) -> Launcher:
        if StreamExecutionEnvironment.launcher is not None:
            return StreamExecutionEnvironment.launcher
        # The one step up in the layers: programs are written without Spark and run on it.
        module = importlib.import_module("penstock.spark.launcher")
        launcher: Launcher = module.SparkLauncher(self.configuration())
        return launcher

    def _spec(self, job_name: str | None) -> JobSpec:
        configuration = self.configuration()
        name = job_name or configuration.get(options.JOB_NAME) or "penstock-job"
        maximum = configuration.get(options.MAX_PARALLELISM)
        parameters = self._config.get_global_job_parameters()
        return JobSpec(
            name,
            tuple(self.graph.nodes),
            configuration,
            configuration.get(options.DEFAULT_PARALLELISM),
            None if maximum in (None, -1) else int(maximum),
            tuple(sorted(parameters.items())),
            tuple(self._python_files),
        )

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the program and wait for its end. The steps are forgotten: build anew for another."""
        client = self.execute_async(job_name)
        result: JobExecutionResult
        try:
            result = client.get_job_execution_result().result()
        except KeyboardInterrupt:
            client.cancel().result()
            raise
        return result

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the program and return at once."""
        spec = self._spec(job_name)
        self.graph = GraphBuilder()
        return JobClient(self._launcher().launch(spec))

    def _plan(self) -> Plan:
        spec = self._spec(None)
        parallelism = spec.parallelism or self._launcher().default_parallelism()
        choices = PlanOptions(parallelism, spec.max_parallelism, self.is_chaining_enabled())
        return compile_plan(list(spec.nodes), spec.name, choices)

    def get_execution_plan(self) -> str:
        """The plan as JSON, in Flink's form."""
        return plan_json(self._plan())

    def explain(self) -> str:
        """The plan in words."""
        return plan_text(self._plan())

    def close(self) -> None:
        """Nothing to release: the Spark session belongs to whoever started it."""
