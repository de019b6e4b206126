"""The job's processes: slots as Flink's task managers, the driver as its job manager.  Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from penstock.coordinator.attempt_history import SlotRecord
from penstock.core.discreet import shown
from penstock.graph.plan import Plan
from penstock.rest.look import Look, Process, Refused
from penstock.rest.metric_views import Values, process_metrics
from penstock.rest.task_views import manager_id


def task_managers(look: Look) -> dict[str, Any]:
    """Every slot of the newest attempt that is not lost."""
    slots = [slot for _, slot in sorted(look.history.slots.items()) if not slot.lost]
    return {"taskmanagers": [_manager(look, slot) for slot in slots]}


def found(look: Look, manager: str) -> SlotRecord:
    """The slot with this id, or 404."""
    for slot in look.history.slots.values():
        if manager_id(int(slot.slot)) == manager:
            return slot
    raise Refused(404, f"there is no task manager {manager}; each slot is one, from slot-0 on")


def task_manager(look: Look, slot: SlotRecord) -> dict[str, Any]:
    """One slot, with the numbers of its process."""
    process = process_of(slot)
    resource = _resource(slot)
    return {
        **_manager(look, slot),
        "allocatedSlots": [
            {"jobId": look.job_id, "resource": resource, "assignedTasks": _assigned(look, slot)}
        ],
        "metrics": {
            "heapUsed": process.used_bytes,
            "heapCommitted": process.used_bytes,
            "heapMax": process.limit_bytes,
            "nonHeapUsed": 0,
            "nonHeapCommitted": 0,
            "nonHeapMax": -1,
            "directCount": 0,
            "directUsed": 0,
            "directMax": 0,
            "mappedCount": 0,
            "mappedUsed": 0,
            "mappedMax": 0,
            "nettyShuffleMemorySegmentsAvailable": 0,
            "nettyShuffleMemorySegmentsUsed": 0,
            "nettyShuffleMemorySegmentsTotal": 0,
            "nettyShuffleMemoryAvailable": 0,
            "nettyShuffleMemoryUsed": 0,
            "nettyShuffleMemoryTotal": 0,
            "garbageCollectors": [
                {"name": "Python", "count": sum(process.gc_counts), "time": int(process.gc_ms)}
            ],
        },
    }


def process_of(slot: SlotRecord) -> Process:
    """What a slot says of its process."""
    facts = slot.process
    return Process.of(facts, slot.host, slot.used_bytes, int(facts.get("limit_bytes", 0)))


def manager_metrics(slot: SlotRecord) -> Values:
    """The same under the names of metrics."""
    return process_metrics(process_of(slot))


def _manager(look: Look, slot: SlotRecord) -> dict[str, Any]:
    resource, process = _resource(slot), process_of(slot)
    nothing = dict.fromkeys(resource, 0) | {"cpuCores": 0.0, "extendedResources": {}}
    memory = process.limit_bytes
    return {
        "id": manager_id(int(slot.slot)),
        "path": f"{slot.host or 'localhost'}, process {process.pid}" if process.pid else slot.host,
        "dataPort": slot.port,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": slot.heard_ms,
        "slotsNumber": 1,
        "freeSlots": 0,
        "assignedTasks": _assigned(look, slot),
        "totalResource": resource,
        "freeResource": nothing,
        "hardware": {"cpuCores": 1, "physicalMemory": memory, "freeMemory": 0, "managedMemory": 0},
        "memoryConfiguration": {
            "frameworkHeap": 0,
            "taskHeap": memory,
            "frameworkOffHeap": 0,
            "taskOffHeap": 0,
            "networkMemory": 0,
            "managedMemory": 0,
            "jvmMetaspace": 0,
            "jvmOverhead": 0,
            "totalFlinkMemory": memory,
            "totalProcessMemory": memory,
        },
        "blocked": False,
    }


def _assigned(look: Look, slot: SlotRecord) -> int:
    return sum(Plan.slot_of(subtask) == slot.slot for subtask in look.plan.subtasks())


def _resource(slot: SlotRecord) -> dict[str, Any]:
    heap = process_of(slot).limit_bytes >> 20
    return {
        "cpuCores": 1.0,
        "taskHeapMemory": heap,
        "taskOffHeapMemory": 0,
        "managedMemory": 0,
        "networkMemory": 0,
        "extendedResources": {},
    }


def environment() -> dict[str, Any]:
    """The Python that runs the driver, where Flink shows its JVM."""
    return {
        "jvm": {"version": f"Python {sys.version.split()[0]}", "arch": sys.platform, "options": []},
        "classpath": list(sys.path),
    }


def slot_threads(look: Look, slot: SlotRecord) -> dict[str, Any]:
    """Where a slot's threads were when somebody last asked; nothing the first time."""
    seen = look.history.samples.get(slot.slot)
    return thread_dump(
        {} if seen is None else {name: shown(stack) for name, stack in seen[1].threads.items()}
    )


def thread_dump(stacks: Mapping[str, str]) -> dict[str, Any]:
    """Threads by name, and where they are."""
    return {
        "threadInfos": [
            {"threadName": name, "stringifiedThreadInfo": f'"{name}"\n{stack}'}
            for name, stack in stacks.items()
        ]
    }
