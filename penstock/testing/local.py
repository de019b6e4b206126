"""A cluster in this process: the real coordinator, tasks and protocol, without Spark.

One thread per attempt drives all slots in turn over in-memory channels.  Jobs start in milliseconds,
which makes it the place to test a program's logic::

    with local_cluster(slots=2):
        assert sorted(stream.execute_and_collect()) == [...]
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.batch.job import start_batch
from penstock.batch.runner import LocalStages
from penstock.batch.sizes import Sizes
from penstock.coordinator.assemble import Assembled, assemble
from penstock.coordinator.events import AttemptEnded, SlotLost, SlotRegistered, SlotSaid
from penstock.coordinator.ports import Cluster, Notify
from penstock.coordinator.running_job import RunningJob
from penstock.coordinator.start import start
from penstock.core.batch import Batch
from penstock.core.clock import Clock, SystemClock
from penstock.core.copying import copied_batch
from penstock.core.errors import as_error
from penstock.core.ids import ChannelId, Generation, SlotId
from penstock.core.log_place import LogPlace, placed
from penstock.core.messages import FromSlot, TakeOutput, TakeSamples, ToSlot
from penstock.core.written import WRITTEN
from penstock.datastream.job import run_as, running_program
from penstock.exchange.channel import InputChannel, LocalSender
from penstock.graph.nodes import JobSpec
from penstock.luggage.in_process import Settled
from penstock.snapshot.local_backup import local_backup
from penstock.snapshot.storage import MemoryStore
from penstock.snapshot.store import open_store
from penstock.task.environment import StateStorage, TaskEnvironment
from penstock.task.sampling import sample
from penstock.task.slot import Slot, SlotPhase

_METRICS_INTERVAL_S = 1.0


class _Network:
    """Channels between slots of one attempt; either end may be made first."""

    def __init__(self, channels: dict[ChannelId, InputChannel], limit: int) -> None:
        self._channels = channels
        self._limit = limit

    def connect(self, peers: dict[SlotId, tuple[str, int]]) -> None:
        """Everybody is here already."""

    def sender(self, slot: SlotId, channel: ChannelId, limit: int) -> Any:
        """A sender that finds its queue when it is first used."""
        return _LateSender(self._channels, channel, limit)

    def register(self, channel: InputChannel) -> None:
        """Make a queue known."""
        early = self._channels.get(channel.id)
        if early is not None:
            while len(early):
                element = early.take()
                LocalSender(channel, self._limit).send(element)
        self._channels[channel.id] = channel


class _LateSender:
    def __init__(self, channels: dict[ChannelId, InputChannel], channel: ChannelId, limit: int) -> None:
        self._channels = channels
        self._id = channel
        self.limit = limit

    def _sender(self) -> LocalSender:
        found = self._channels.setdefault(self._id, InputChannel(self._id))
        return LocalSender(found, self.limit)

    @property
    def in_flight(self) -> int:
        return self._sender().in_flight

    @property
    def taken_bytes(self) -> int:
        return self._sender().taken_bytes

    def send(self, element: Any) -> None:
        """Records that cross slots are not the same objects there, as over a wire."""
        self._sender().send(copied_batch(element) if isinstance(element, Batch) else element)

    def writable(self) -> bool:
        return self._sender().writable()

    def waits(self) -> bool:
        return self._sender().waits()


class _Inline:
    """Background work done at once: deterministic."""

    def submit(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        try:
            result = work()
        except Exception as error:
            done(None, error)
        else:
            done(result, None)


class LocalCluster(Cluster):
    """Runs slots in a thread of this process. ``kill`` ends one as a crash would."""

    def __init__(
        self, job: Assembled, clock: Clock, around: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self._job = job
        self._clock = clock
        self._around = around
        """What the slots are driven within."""
        self._mailbox: queue.SimpleQueue[tuple[Generation, SlotId, ToSlot]] = queue.SimpleQueue()
        self._generation = Generation(0)
        self._number = -1
        self._stop = threading.Event()
        self._killed: set[int] = set()

    def check(self) -> None:
        """There is nothing that could be gone."""

    def start_attempt(self, generation: Generation, slots: int, notify: Notify) -> None:
        """Start the thread that drives the slots."""
        self._generation = generation
        self._number += 1
        self._stop = threading.Event()
        self._killed = set()
        threading.Thread(
            target=self._drive, args=(generation, slots, notify, self._stop), daemon=True
        ).start()

    def send(self, slot: SlotId, message: ToSlot) -> None:
        """Put a message into the slot's mailbox."""
        self._mailbox.put((self._generation, slot, message))

    def stop_attempt(self, generation: Generation, reason: str) -> None:
        """Stop driving."""
        self._stop.set()

    def kill(self, slot: int) -> None:
        """Let a slot vanish without a word."""
        self._killed.add(slot)

    def close(self) -> None:
        """Stop driving."""
        self._stop.set()

    def _environment(self, slot: SlotId, generation: Generation, notify: Notify) -> TaskEnvironment:
        url = self._job.store_url
        store = MemoryStore() if url is None else open_store(url)
        store.inline_limit = self._job.store.inline_limit
        kept = self._job.plan.settings.local_backup
        backup = local_backup(kept, store, generation, slot, self._clock)
        storage: StateStorage = store if backup is None else backup

        def open_storage(root: str) -> StateStorage:
            if root == storage.url or root.startswith("driver-memory:"):
                return storage
            opened = open_store(root, create=False)
            if url is not None:
                opened.inline_limit = storage.inline_limit
            return opened

        def report(message: FromSlot) -> None:
            if int(slot) not in self._killed:
                notify(SlotSaid(generation, slot, message))

        return TaskEnvironment(
            self._clock,
            storage,
            _Inline(),
            report,
            open_storage,
            generation,
            wake=lambda: None,
            backup=backup,
        )

    def _drive(self, generation: Generation, slots: int, notify: Notify, stop: threading.Event) -> None:
        error: Exception | None = None
        try:
            with self._around(), placed(LogPlace(self._job.plan.job_name, self._number)):
                self._run(generation, slots, notify, stop)
        except BaseException as caught:
            error = as_error(caught)
        finally:
            notify(AttemptEnded(generation, error))

    def _run(self, generation: Generation, slots: int, notify: Notify, stop: threading.Event) -> None:
        channels: dict[ChannelId, InputChannel] = {}
        network = _Network(channels, 8 << 20)
        running = {
            number: Slot(SlotId(number), self._environment(SlotId(number), generation, notify), network)
            for number in range(slots)
        }
        for number in running:
            notify(SlotRegistered(generation, SlotId(number), ("", 0)))
        wall, report_at = SystemClock(), 0.0
        while running and not stop.is_set():
            worked = self._deliver(generation, running, notify)
            if wall.monotonic() >= report_at:
                report_at = wall.monotonic() + _METRICS_INTERVAL_S
                self._report_metrics(generation, running, notify)
            for number, slot in list(running.items()):
                if number in self._killed:
                    del running[number]
                    notify(SlotLost(generation, SlotId(number), f"slot {number} was killed"))
                    continue
                worked = slot.step() or worked
                if slot.phase is SlotPhase.LEFT:
                    del running[number]
            if not worked:
                stop.wait(0.001)
        for slot in running.values():
            slot.leave()

    def _report_metrics(self, generation: Generation, running: dict[int, Slot], notify: Notify) -> None:
        for number, slot in running.items():
            if number not in self._killed and slot.phase is SlotPhase.RUNNING:
                notify(SlotSaid(generation, SlotId(number), slot.heartbeat()))

    def _aside(
        self, answer: Callable[[], FromSlot], generation: Generation, slot: SlotId, notify: Notify
    ) -> None:
        def look() -> None:
            notify(SlotSaid(generation, slot, answer()))

        threading.Thread(target=look, daemon=True, name="penstock-sampling").start()

    def _deliver(self, generation: Generation, running: dict[int, Slot], notify: Notify) -> bool:
        delivered = False
        while True:
            try:
                sent, number, message = self._mailbox.get_nowait()
            except queue.Empty:
                return delivered
            if sent == generation and int(number) in running:
                if isinstance(message, TakeSamples):
                    self._aside(partial(sample, number), generation, number, notify)
                elif isinstance(message, TakeOutput):
                    self._aside(WRITTEN.taken, generation, number, notify)
                running[int(number)].handle(message)
                delivered = True


class LocalLauncher:
    """Runs jobs on :class:`LocalCluster`. Keeps what it started, for tests to look at."""

    def __init__(self, slots: int = 2, clock: Clock | None = None) -> None:
        self._slots = slots
        self._clock = clock or SystemClock()
        self.batch_rows = 1024
        """How many rows a step of a BATCH job reads at a time."""
        self.batch_sizes = Sizes()
        self.jobs: list[RunningJob] = []
        self.clusters: list[LocalCluster] = []

    def default_parallelism(self) -> int:
        """As many as there are slots."""
        return self._slots

    def launch(self, spec: JobSpec) -> RunningJob:
        """Start a job."""
        job = assemble(spec, self._slots)
        settled = Settled(spec.python)
        try:
            running = self._started(job, settled)
        except BaseException:
            settled.leave()
            raise
        running.listeners.append(lambda _: settled.leave())
        running.result().add_done_callback(lambda _: settled.leave())  # also if it is over already
        self.jobs.append(running)
        return running

    def _started(self, job: Assembled, settled: Settled) -> RunningJob:
        if job.plan.settings.batch:
            stages = LocalStages(self._clock, self.batch_rows, settled.at_work, self.batch_sizes)
            return start_batch(job, self._clock, stages)
        cluster = LocalCluster(job, self._clock, settled.at_work)
        running = start(job, cluster, self._clock, {})
        self.clusters.append(cluster)
        return running


@contextmanager
def local_cluster(slots: int = 2, clock: Clock | None = None) -> Iterator[LocalLauncher]:
    """Run the jobs of this block in this process instead of on Spark, if need be in a time of their own."""
    launcher = LocalLauncher(slots, clock)
    with run_as(replace(running_program(), launcher=launcher)):
        yield launcher
