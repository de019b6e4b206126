"""A real driver with slots that only send what real ones would: what ``slots.py`` measures.

The job has 10 vertices, each joined to the next by an exchange.  All messages are encoded and decoded as on
their way, and counted.  Nothing runs in the slots, and no socket is opened: times are the processor's, of the
driver's event loop and its storage.
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.sink import CommitOutcome, Committer, Sink
from penstock.connectors.source import FixedSplits, Source, Split
from penstock.coordinator.assemble import Assembled, assemble
from penstock.coordinator.coordinator import Coordinator
from penstock.coordinator.driver import JobDriver
from penstock.coordinator.events import (
    AttemptEnded,
    Event,
    SlotLost,
    SlotRegistered,
    SlotSaid,
    Start,
    Tick,
)
from penstock.coordinator.job_storage import JobStorage, StorageOptions
from penstock.coordinator.phases import JobPhase
from penstock.coordinator.ports import Cluster, DriverPorts, Lane, Lanes
from penstock.coordinator.request_futures import ClientFutures
from penstock.core.documents import dump
from penstock.core.handles import Blob, Committable, KeyedHandle, OperatorSnapshot, SubtaskSnapshot
from penstock.core.ids import Epoch, EventTime, Generation, SlotId, Subtask, SubtaskIndex, WallMs
from penstock.core.keygroups import key_group_range
from penstock.core.messages import Deploy, Deployed, Heartbeat, SnapshotAck, TriggerSnapshot, WatermarkReport
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.job import run_as, running_program
from penstock.exchange.control_frames import from_bytes, to_bytes
from penstock.graph.nodes import JobSpec
from penstock.graph.plan import Plan, Vertex
from penstock.snapshot.store import open_store
from penstock.spark.control import encoded

KEYED = 8
STATE_BYTES = 1_000_000
CHECKSUM = "0123456789abcdef" * 2
COUNTERS = {f"step.{name}": 123456.0 for name in ("numRecordsIn", "numRecordsOut", "numLateRecordsDropped")}
COUNTERS |= {"busyTimeMs": 1234.5, "idleTimeMs": 234.5, "backPressuredTimeMs": 34.5}


class Numbers(Source):
    """A split for each subtask."""

    def create_enumerator(self, parallelism: int) -> FixedSplits:
        return FixedSplits([Split(f"numbers-{index}") for index in range(parallelism)])

    def open_split(self, split: Split, position: Any, clock: Any) -> Any:
        raise AssertionError("nothing runs in the slots")


class _Commits(Committer):
    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        return [CommitOutcome.COMMITTED] * len(committables)


class Out(Sink):
    """Commits at once."""

    def create_writer(self, context: Any) -> Any:
        raise AssertionError("nothing runs in the slots")

    def create_committer(self) -> Committer:
        return _Commits()


class Pass(KeyedProcessFunction):
    """A keyed step."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value


class _Captured(BaseException):
    def __init__(self, spec: JobSpec) -> None:
        super().__init__()
        self.spec = spec


class _Launcher:
    def default_parallelism(self) -> int:
        return 1

    def launch(self, spec: JobSpec) -> Any:
        raise _Captured(spec)


def assembled(slots: int, directory: Path) -> Assembled:
    """A source, eight keyed steps and a sink, each a vertex of its own."""
    config = Configuration()
    config.set_string("execution.checkpointing.interval", "10 s")
    config.set_string("execution.checkpointing.dir", directory.as_uri())
    config.set_string("restart-strategy.type", "fixed-delay")
    config.set_string("restart-strategy.fixed-delay.attempts", "1000")
    try:
        with run_as(_program()):
            env = StreamExecutionEnvironment.get_execution_environment(config)
            stream = env.from_source(Numbers(), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
            for number in range(KEYED):
                stream = stream.key_by(lambda value: value % 1000).process(Pass()).uid(f"step-{number}")
            stream.rebalance().sink_to(Out()).uid("out")
            env.execute("many slots")
    except _Captured as captured:
        return assemble(captured.spec, slots)
    raise AssertionError("execute() always raises here")


def _program() -> Any:
    return replace(running_program(), launcher=_Launcher())


class HandClock:
    """Goes on when told to."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> WallMs:
        return WallMs(1_700_000_000_000 + self.ms)

    def monotonic(self) -> float:
        return self.ms / 1000


class _Now(Lane):
    """Work is done when it is submitted."""

    def __init__(self, post: Any) -> None:
        self._post = post

    def submit(self, work: Any, failed: Any) -> None:
        try:
            event = work()
        except Exception as error:
            event = failed(error)
        self._post(event)

    def wait_for(self, work: Any) -> Any:
        return work()

    def close(self, wait: bool) -> None:
        pass


class Wires(Cluster):
    """Encodes and counts what the driver says to its slots."""

    def __init__(self) -> None:
        self.messages = self.bytes = 0
        self.kinds: Counter[str] = Counter()
        self.deploy: bytes = b""
        self.largest_to_one = 0
        self.epoch = 0
        self.wanted: tuple[Generation, int] | None = None
        self.to_each: Counter[int] = Counter()

    def check(self) -> None:
        pass

    def start_attempt(self, generation: Generation, slots: int, notify: Any) -> None:
        self.wanted = generation, slots

    def send(self, slot: SlotId, message: Any) -> None:
        self._count(slot, message, encoded(message))

    def _count(self, slot: SlotId, message: Any, data: bytes) -> None:
        self.messages += 1
        self.bytes += len(data)
        self.to_each[int(slot)] += len(data)
        self.kinds[type(message).__name__] += 1
        if isinstance(message, Deploy):
            self.deploy = data
        elif isinstance(message, TriggerSnapshot):
            self.epoch = int(message.epoch)

    def stop_attempt(self, generation: Generation, reason: str) -> None:
        pass

    def close(self) -> None:
        pass


class Job:
    """One driver with its slots."""

    def __init__(self, slots: int, directory: Path) -> None:
        self.slots = slots
        self.directory = directory
        self.seconds = 0.0
        """Of the processor, in the driver."""
        self.heard = self.heard_bytes = 0
        job = assembled(slots, directory)
        self.plan: Plan = job.plan
        self.plan_bytes = len(job.plan_bytes)
        self.clock, self.wires = HandClock(), Wires()
        self._events: deque[Event] = deque()
        self._root = job.repository.root
        self.coordinator = Coordinator(
            job.plan, job.plan_bytes, job.job_id.hex, job.settings, random.Random(1)
        )
        lane = _Now(self._events.append)
        storage = JobStorage(
            job.plan, job.job_id.hex, job.repository, self.clock, open_store, StorageOptions(1)
        )
        lanes = Lanes(lane, lane, lane, lane)
        assert job.planner is not None
        ports = DriverPorts(self.clock, self.wires, self, lanes, storage, ClientFutures(), job.planner)
        self.driver = JobDriver(job.plan, self.coordinator, ports, lambda status, error: None)

    def post(self, event: Event) -> None:
        self._events.append(event)

    def drain(self) -> Iterator[Event]:
        return iter(())

    def give(self, *events: Event | tuple[int, bytes], after_ms: int = 0) -> None:
        """Events, or slots with the bytes that they have sent."""
        self.clock.ms += after_ms
        began = time.process_time()
        for given in events:
            if isinstance(given, tuple):
                slot, data = given
                self.heard += 1
                self.heard_bytes += len(data)
                self._events.append(SlotSaid(self.coordinator.generation, SlotId(slot), from_bytes(data)))
            else:
                self._events.append(given)
            while self._events:
                for instruction in self.driver.decide(self._events.popleft()):
                    self.driver.carry_out(instruction)
                self.driver.next_wake()
        self.seconds += time.process_time() - began

    def spent(self) -> float:
        """Seconds since this was last asked."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds

    # --- what slots say ---------------------------------------------------------------------

    def start(self) -> None:
        """Up to the point where all tasks run."""
        if self.coordinator.phase is JobPhase.CREATED and self.coordinator.attempt < 0:
            self.give(Start())
        assert self.wires.wanted is not None
        generation, slots = self.wires.wanted
        addresses = [(f"10.{slot // 250}.{slot % 250}.17", 40_000 + slot) for slot in range(slots)]
        self.give(*(SlotRegistered(generation, SlotId(slot), at) for slot, at in enumerate(addresses)))
        deployed = to_bytes(Deployed())
        self.give(*((slot, deployed) for slot in range(slots)))
        assert self.coordinator.phase is JobPhase.RUNNING, self.coordinator.phase

    def beat(self) -> None:
        """A heartbeat of every slot, and where event time is at the sources."""
        said: list[tuple[int, bytes]] = []
        source = self.plan.vertices[0].head
        for slot in range(self.slots):
            metrics = {subtask: dict(COUNTERS) for subtask in self.plan.subtasks_in(SlotId(slot))}
            said.append((slot, to_bytes(Heartbeat(metrics, 200_000_000, {"cpu": 1.0}))))
            at = EventTime(1_700_000_000_000 + self.clock.ms + slot)
            report = WatermarkReport(source.operator_id, "numbers", slot, at, True, True, "its records")
            said.append((slot, to_bytes(report)))
        self.give(*said, after_ms=1_000)

    def checkpoint(self, in_files: bool = False) -> None:
        """A whole checkpoint, with keyed state in a file for each subtask."""
        before = self.wires.epoch
        self.give(Tick(), after_ms=10_000)
        epoch = Epoch(self.wires.epoch)
        assert epoch > before, "it was triggered"
        acks = [
            (slot, to_bytes(self._ack(epoch, vertex, slot, in_files)))
            for slot in range(self.slots)
            for vertex in self.plan.vertices
        ]
        self.give(*acks)
        assert self.coordinator.checkpoints.last_published == epoch

    def _ack(self, epoch: Epoch, vertex: Vertex, slot: int, in_file: bool) -> SnapshotAck:
        head, index = vertex.head, SubtaskIndex(slot)
        operators: tuple[OperatorSnapshot, ...] = ()
        committables: tuple[Committable, ...] = ()
        if head.node.keyed:
            path = f"chk-{epoch}/{vertex.id}-{slot}-{self.coordinator.generation}.state"
            if in_file:
                self._write(path)
            groups = key_group_range(index, vertex.parallelism, vertex.max_parallelism)
            keyed = KeyedHandle(Blob(STATE_BYTES, CHECKSUM, path), groups, False)
            operators = (OperatorSnapshot(head.operator_id, (keyed,)),)
        elif head.node.sink is not None:
            payload = dump({"file": f"part-{slot}-{epoch}.parquet", "length": STATE_BYTES})
            committables = (Committable(head.operator_id, epoch, index, payload),)
        snapshot = SubtaskSnapshot(Subtask(vertex.id, index), operators, False, (), STATE_BYTES)
        times = (1.5, 20.5, 3.5, STATE_BYTES, 2.5)
        return SnapshotAck(epoch, snapshot, committables, *times, dict(COUNTERS))

    def _write(self, path: str) -> None:
        """Room for the state: a file without a block."""
        file = Path(self._root.url.removeprefix("file://")) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as written:
            written.truncate(STATE_BYTES)

    def restart(self) -> None:
        """A slot is lost: up to the point where all tasks run again."""
        generation = self.coordinator.generation
        self.give(SlotLost(generation, SlotId(0), "killed"), AttemptEnded(generation, None))
        self.give(Tick(), after_ms=10_000)
        self.start()
