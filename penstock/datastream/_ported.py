"""What ported programs call on their environment: for their functions in the slots, or only for Flink.

Nothing here is refused without need: what is superfluous says so once and is passed over, and what has
another name here is done under that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from penstock.core import options
from penstock.core.config import Configuration
from penstock.core.discreet import log_of
from penstock.core.flink_keys import with_instead
from penstock.core.no_java import JavaEnvironment
from penstock.core.wanted import wanted
from penstock.datastream.time_characteristic import TimeCharacteristic
from penstock.luggage.wishes import Archive, Requirements, Wishes, local_path

if TYPE_CHECKING:
    from penstock.datastream.slot_sharing_group import SlotSharingGroup

_log = log_of(__name__)
_said: set[str] = set()


class PythonDependencies:
    """Base of ``StreamExecutionEnvironment``. Files are looked at when a job starts."""

    _configuration: Configuration
    _python = Wishes()

    def add_python_file(self, file_path: str) -> None:
        """Put a module, a directory or a zip file (``.zip``, ``.whl``, ``.egg``) on the functions' path."""
        self._python = replace(self._python, files=(str(local_path(file_path)), *self._python.files))

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpack an archive in the functions' working directory: to ``target_dir``, else to its own name."""
        added = Archive.of(archive_path, target_dir)
        others = tuple(one for one in self._python.archives if one.target != added.target)
        self._python = replace(self._python, archives=(*others, added))

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Let pip install packages for the functions; with a directory of packages, from there alone."""
        wanted = Requirements.of(requirements_file_path, requirements_cache_dir)
        self._python = replace(self._python, requirements=wanted)

    def set_python_executable(self, python_exec: str) -> None:
        """The interpreter of the functions; one in an archive is named from the archive's target on."""
        self._configuration.set(options.PYTHON_EXECUTABLE, python_exec)


def say_once(what: str, why: str, say: Callable[..., None] = _log.warning) -> None:
    """Log ``what: why`` the first time somebody does ``what`` in this process."""
    if what not in _said:
        _said.add(what)
        say("%s: %s", what, why)


def say_unused(keys: Iterable[str]) -> None:
    """Log which settings do nothing here and what does instead, in a line; each key once in this process."""
    new = sorted(set(keys) - _said)
    if new:
        _said.update(new)
        _log.warning("settings of Flink that do nothing here: %s", ", ".join(map(with_instead, new)))


class PortedSettings:
    """Base of ``StreamExecutionEnvironment``."""

    _configuration: Configuration
    _local_parallelism: int | None = None
    _time_characteristic = TimeCharacteristic.EventTime

    # --- code and files ---------------------------------------------------------------------

    def add_jars(self, *jars_path: str) -> None:
        """Not needed: Penstock's connectors are Python."""
        say_once("add_jars()", "not needed, Penstock's connectors are Python; the jars are not loaded")

    def add_classpaths(self, *classpaths: str) -> None:
        """Not needed: Penstock's connectors are Python."""
        say_once("add_classpaths()", "not needed, Penstock's connectors are Python; nothing is loaded")

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Not needed: functions cannot ask for such files, in PyFlink either."""
        say_once("register_cached_file()", "not needed; add_python_file() ships files to the slots")

    # --- slots ------------------------------------------------------------------------------

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Accepted: all groups share the job's slots, and Spark decides their resources."""
        say_once(
            "register_slot_sharing_group()",
            "all groups share the job's slots; set their cores and memory as spark.executor.*",
        )
        return self

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Never: steps share a task only if they have the same key groups."""
        return False

    # --- state ------------------------------------------------------------------------------

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Accepted: checkpoints of heap and RocksDB state do not stop the records, without a changelog."""
        if enabled:
            say_once(
                "enable_changelog_state_backend()", "not needed; checkpoints are written beside the work"
            )
        self._changelog = enabled
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """What :meth:`enable_changelog_state_backend` was told; ``None`` if nothing."""
        return self._changelog

    _changelog: bool | None = None

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Where savepoints go whose caller names no directory."""
        self._configuration.set(options.SAVEPOINT_DIR, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Where savepoints go whose caller names no directory."""
        return self._configuration.get(options.SAVEPOINT_DIR)

    # --- the 1.x dialect --------------------------------------------------------------------

    @property
    def _j_stream_execution_environment(self) -> JavaEnvironment:
        """Programs of 1.x hand it to ``get_j_env_configuration`` to change settings."""
        return JavaEnvironment(self._configuration)

    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> Self:
        """The 1.x way to choose the time of windows; today the window assigner says which it is.

        As in Flink, processing time turns periodic watermarks off and event time turns them on.
        """
        self._time_characteristic = wanted(TimeCharacteristic, characteristic)
        processing = characteristic is TimeCharacteristic.ProcessingTime
        self._configuration.set(options.AUTO_WATERMARK_INTERVAL, "0 ms" if processing else "200 ms")
        return self

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """What was set, else event time."""
        return self._time_characteristic

    def register_type(self, type_class_name: str) -> None:
        """Not needed: there is no Java serialisation."""
        say_once("register_type()", "not needed, there is no Java serialisation")

    def register_type_with_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """Not needed: there is no Java serialisation."""
        say_once("register_type_with_kryo_serializer()", "not needed, there is no Java serialisation")

    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """Not needed: there is no Java serialisation."""
        say_once("add_default_kryo_serializer()", "not needed, there is no Java serialisation")
