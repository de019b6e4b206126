"""``SlotSharingGroup`` and ``MemorySize``, where PyFlink programs look for them.

A group keeps its steps out of chains with others.  What it asks for in cores and memory is kept and has
no effect: all groups share the job's slots, and Spark decides how large these are.
"""

from __future__ import annotations

from functools import total_ordering

from penstock.core.errors import ConfigError

__all__ = ["MemorySize", "SlotSharingGroup"]

_KIBI = 1024
_MEBI = 1024**2
_GIBI = 1024**3
_TEBI = 1024**4


@total_ordering
class MemorySize:
    """A number of bytes.

    >>> MemorySize.of_mebi_bytes(2).get_kibi_bytes()
    2048
    """

    def __init__(self, bytes_size: int | None = None) -> None:
        if bytes_size is None or bytes_size < 0:
            raise ConfigError(f"a memory size is a number of bytes from 0 on, not {bytes_size!r}")
        self._bytes = int(bytes_size)

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """So many times 1024 * 1024 bytes."""
        return MemorySize(mebi_bytes * _MEBI)

    def get_bytes(self) -> int:
        """In bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """In kibibytes, rounded down."""
        return self._bytes // _KIBI

    def get_mebi_bytes(self) -> int:
        """In mebibytes, rounded down."""
        return self._bytes // _MEBI

    def get_gibi_bytes(self) -> int:
        """In gibibytes, rounded down."""
        return self._bytes // _GIBI

    def get_tebi_bytes(self) -> int:
        """In tebibytes, rounded down."""
        return self._bytes // _TEBI

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and self._bytes == other._bytes

    def __lt__(self, other: MemorySize) -> bool:
        return self._bytes < other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __repr__(self) -> str:
        return f"MemorySize({self._bytes} bytes)"


class SlotSharingGroup:
    """A name, and what was asked for under it. Made by :meth:`builder`.

    Steps of one group do not share tasks with those of others; all groups share the job's slots.

    >>> group = SlotSharingGroup.builder("heavy").build()
    >>> stream = env.from_collection([1]).map(str).slot_sharing_group(group)
    >>> group.get_name()
    'heavy'
    """

    def __init__(
        self,
        name: str,
        cpu_cores: float | None,
        memory: dict[str, MemorySize],
        external_resources: dict[str, float],
    ) -> None:
        self._name = name
        self._cpu_cores = cpu_cores
        self._memory = memory
        self._external = external_resources

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Begin a group."""
        return SlotSharingGroup.Builder(name)

    def get_name(self) -> str:
        """Its name."""
        return self._name

    def get_cpu_cores(self) -> float | None:
        """The cores asked for."""
        return self._cpu_cores

    def get_task_heap_memory(self) -> MemorySize | None:
        """The heap asked for."""
        return self._memory.get("heap")

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """The memory beside the heap asked for."""
        return self._memory.get("off-heap")

    def get_managed_memory(self) -> MemorySize | None:
        """The memory for state asked for."""
        return self._memory.get("managed")

    def get_external_resources(self) -> dict[str, float]:
        """What else was asked for, such as GPUs."""
        return dict(self._external)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlotSharingGroup) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._name)

    def _parts(self) -> tuple[object, ...]:
        return (self._name, self._cpu_cores, self._memory, self._external)

    class Builder:
        """Gathers what a group asks for."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._cpu_cores: float | None = None
            self._memory: dict[str, MemorySize] = {}
            self._external: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Ask for cores."""
            if cpu_cores <= 0:
                raise ConfigError(
                    f"slot sharing group {self._name!r}: cores must be above 0, not {cpu_cores}"
                )
            self._cpu_cores = float(cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Ask for heap."""
            return self._ask_heap(task_heap_memory.get_bytes())

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Ask for heap, in mebibytes."""
            return self._ask_heap(task_heap_memory_mb * _MEBI)

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Ask for memory beside the heap."""
            return self._ask("off-heap", task_off_heap_memory)

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Ask for memory beside the heap, in mebibytes."""
            return self._ask("off-heap", MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Ask for memory for state."""
            return self._ask("managed", managed_memory)

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Ask for memory for state, in mebibytes."""
            return self._ask("managed", MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Ask for something else, such as GPUs."""
            self._external[name] = float(value)
            return self

        def build(self) -> SlotSharingGroup:
            """The group. One that asks for anything must ask for cores and heap."""
            memory = self._memory
            if self._cpu_cores is None and not memory and not self._external:
                return SlotSharingGroup(self._name, None, {}, {})
            if self._cpu_cores is None or "heap" not in memory:
                raise ConfigError(
                    f"slot sharing group {self._name!r} asks for resources, and then cores and task heap "
                    "memory must be among them: call set_cpu_cores() and set_task_heap_memory(), or ask for "
                    "nothing"
                )
            whole = {"off-heap": MemorySize(0), "managed": MemorySize(0), **memory}
            return SlotSharingGroup(self._name, self._cpu_cores, whole, dict(self._external))

        def _ask_heap(self, size: int) -> SlotSharingGroup.Builder:
            if size <= 0:
                raise ConfigError(
                    f"slot sharing group {self._name!r}: task heap memory must be above 0, not {size} bytes"
                )
            return self._ask("heap", MemorySize(size))

        def _ask(self, kind: str, size: MemorySize) -> SlotSharingGroup.Builder:
            self._memory[kind] = size
            return self
