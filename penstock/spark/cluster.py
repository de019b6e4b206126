"""Worker groups on Spark: one barrier job per attempt.

Spark never retries a failed barrier stage, so each attempt is a Spark job of its own and the
coordinator is the restart loop.  Threads: one per attempt, blocked in the Spark action.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from penstock.coordinator.assemble import Assembled
from penstock.coordinator.events import AttemptEnded, SlotLost, SlotRegistered, SlotSaid
from penstock.coordinator.ports import Cluster, Notify
from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.core.errors import ClusterError, as_error
from penstock.core.ids import Generation, SlotId
from penstock.core.messages import FromSlot, Heartbeat, ToSlot
from penstock.exchange.auth import Hello, new_secret
from penstock.spark.control import ControlServer
from penstock.spark.description import Description
from penstock.spark.failures import translate
from penstock.spark.lost import DAEMON, LastSigns
from penstock.spark.shipping import Shipment, wearing
from penstock.spark.slots import WaitingForSlots, check_alive, check_slots, driver_host, most_slots
from penstock.spark.terms import SlotTerms, use_pool
from penstock.spark.told import told
from penstock.spark.transport import transport_of
from penstock.spark.worker import WorkerInfo

_log = log_of(__name__)
_GRACE_S = 5.0
"""How long slots may take to leave by themselves before Spark is told to end them."""


class _Attempt:
    """One worker group: whether anybody still wants it, and whether its Spark job is over."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.seen = False
        """Whether one of its slots was ever there."""
        self.unwanted = threading.Event()
        self.over = threading.Event()
        self._untold = threading.Lock()

    def tell(self) -> bool:
        """True once: for who tells the coordinator that the attempt has ended."""
        return self._untold.acquire(blocking=False)


class SparkCluster(Cluster):
    """Starts worker groups in a Spark session."""

    def __init__(
        self,
        spark: SparkSession,
        job: Assembled,
        clock: Clock,
        shipment: Shipment | None = None,
        description: Description | None = None,
        beside: int = 0,
        terms: SlotTerms | None = None,
    ) -> None:
        """``beside``: slots that other work of the job needs."""
        self._spark = spark
        self._beside = beside
        self._terms = terms or SlotTerms()
        self._description = description or Description(job.plan.job_name, has_page=False)
        self._shipment = shipment or Shipment()
        self._job = job
        self._clock = clock
        self._secret = new_secret()
        self._transport = transport_of(spark, job.configuration, job.plan.job_name, clock)
        self._notify: Notify = lambda event: None
        self._attempt = _Attempt(Generation(-1))
        self._number = -1
        """Of the attempt, counted from 0."""
        self._signs = LastSigns(has_witness=False)
        self._waiting = WaitingForSlots(0, 0)
        # Two jobs may have one name, in two checkpoint directories, and begin in the same second.
        self._run_id = uuid.uuid4().hex[:8]
        self._server = ControlServer(
            job.job_id.hex,
            self._secret,
            driver_host(spark),
            clock,
            job.settings.heartbeat_timeout_ms / 1000,
            self._on_hello,
            self._on_message,
            self._on_lost,
            lambda generation, slot, words: self._signs.died(slot, words),
            self._transport,
        )

    def most_slots(self) -> int | None:
        """As many as Spark has, however many of them other jobs hold."""
        return most_slots(self._spark, self._beside, self._terms.profile)

    def check(self) -> None:
        """The session must still be there."""
        check_alive(self._spark)

    def start_attempt(self, generation: Generation, slots: int, notify: Notify) -> None:
        """Submit the barrier job."""
        self._notify = notify
        self._attempt = _Attempt(generation)
        self._number += 1
        self._signs = LastSigns(self._has_witness())
        self._waiting = WaitingForSlots(slots, self._job.settings.slots_timeout_ms / 1000)
        self._server.expect(generation)
        threading.Thread(
            target=self._run,
            args=(self._attempt, slots),
            daemon=True,
            name=f"penstock-workers-{generation}",
        ).start()

    def send(self, slot: SlotId, message: ToSlot) -> None:
        """Over the slot's control connection."""
        self._server.send(slot, message)

    def stop_attempt(self, generation: Generation, reason: str) -> None:
        """Give the slots a moment to leave; then let Spark end them.

        Again and again until they are gone: on a busy machine Spark may not have begun the job yet, and
        what it has not begun it cannot cancel.  It may not begin it for minutes, if executors are
        missing.  Such an attempt is over all the same: a slot of it that comes later finds nobody.
        """
        attempt = self._attempt
        attempt.unwanted.set()
        self._waiting.over()

        def enforce() -> None:
            while not attempt.over.wait(_GRACE_S):
                try:
                    self._spark.sparkContext.cancelJobGroup(self._group(generation))
                    if not (attempt.seen or self._has_begun(generation)):
                        self._tell_end(attempt, ClusterError(f"Spark had not begun attempt {generation}"))
                except Exception as error:
                    if not attempt.over.is_set():  # else the session has ended
                        _log.error("Spark cannot be told to end attempt %d: %s", generation, error)
                    return

        threading.Thread(target=enforce, daemon=True, name=f"penstock-enforce-{generation}").start()

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def _group(self, generation: Generation) -> str:
        return f"penstock-{self._job.directory}-{self._run_id}-{generation}"

    def _has_begun(self, generation: Generation) -> bool:
        tracker = self._spark.sparkContext.statusTracker()
        return bool(tracker.getJobIdsForGroup(self._group(generation)))

    def _run(self, attempt: _Attempt, slots: int) -> None:
        error: Exception | None = None
        generation = attempt.generation
        try:
            timeout_s = self._job.settings.slots_timeout_ms / 1000
            profile = self._terms.profile
            check_slots(self._spark, slots, timeout_s, self._clock, attempt.unwanted.is_set, profile)
            context = self._spark.sparkContext
            use_pool(context, self._terms.pool)
            vertices = [vertex.name for vertex in self._job.plan.vertices]
            text = self._description.of(f"attempt {self._number}", vertices)
            context.setJobGroup(self._group(generation), text, True)
            workers = self._spark.range(slots, numPartitions=slots)
            function = slot_function(self._info(generation), self._shipment)
            with wearing(context, self._shipment.python):
                worker_slots = workers.mapInArrow(function, "slot long", barrier=True, profile=profile)
            worker_slots.collect()
        except BaseException as caught:
            error = self._translated(as_error(caught))
        finally:
            attempt.over.set()
            self._waiting.over()
            self._tell_end(attempt, error)

    def _tell_end(self, attempt: _Attempt, error: Exception | None) -> None:
        """Once, by whoever knows it first."""
        if attempt.tell():
            self._notify(AttemptEnded(attempt.generation, error))

    def _has_witness(self) -> bool:
        try:
            return told(self._spark, "spark.python.daemon.module", "") == DAEMON
        except Exception:
            return False

    def _translated(self, error: Exception) -> Exception:
        """In words; that the session is gone, if that is why."""
        try:
            check_alive(self._spark)
            return self._signs.explain(translate(error, self._spark.sparkContext.pythonExec))
        except Exception as lost:
            return as_error(lost)

    def _info(self, generation: Generation) -> WorkerInfo:
        return WorkerInfo(
            self._job.job_id.hex,
            int(generation),
            self._secret,
            self._server.address,
            self._job.store_url,
            self._job.store.inline_limit,
            self._job.plan.settings.heartbeat_interval_ms / 1000,
            self._job.settings.heartbeat_timeout_ms / 1000,
            self._transport,
            self._job.plan.job_name,
            self._number,
            self._job.plan.settings.log_format,
            self._job.plan.settings.local_backup,
        )

    # --- callbacks of the control server ----------------------------------------------------

    def _on_hello(self, hello: Hello) -> None:
        if hello.generation == self._attempt.generation:
            self._attempt.seen = True
        address = hello.address or ("", 0)
        self._signs.registered(SlotId(hello.slot), address[0])
        self._waiting.registered(hello.slot)
        self._notify(SlotRegistered(Generation(hello.generation), SlotId(hello.slot), address))

    def _on_message(self, generation: Generation, slot: SlotId, message: FromSlot) -> None:
        if isinstance(message, Heartbeat):
            self._signs.beat(slot, message.used_bytes)
        self._notify(SlotSaid(generation, slot, message))

    def _on_lost(self, generation: Generation, slot: SlotId, reason: str) -> None:
        self._notify(SlotLost(generation, slot, self._signs.lost(slot, reason)))


def slot_function(info: WorkerInfo, shipment: Shipment) -> Any:
    """The function Spark runs in each task. It is pickled by value, so it carries only plain data."""
    facts = info.packed()
    luggage, engine = shipment.luggage, shipment.engine

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import sys

        import pyarrow
        from pyspark import BarrierTaskContext, SparkFiles

        for _ in batches:
            pass
        if engine and engine not in sys.path:
            sys.path.append(engine)
        try:
            from penstock.luggage.arrival import carrying
            from penstock.spark.worker import WorkerInfo, run_worker
        except ImportError as error:
            raise RuntimeError(f"PENSTOCK-MISSING {error}") from None
        context = BarrierTaskContext.get()
        number = context.partitionId()
        host = context.getTaskInfos()[number].address.rsplit(":", 1)[0]
        with carrying(luggage, SparkFiles.getRootDirectory()):
            run_worker(WorkerInfo.unpacked(facts), number, host)
        yield pyarrow.RecordBatch.from_pydict({"slot": pyarrow.array([number], pyarrow.int64())})

    run.__module__ = "__main__"
    return run
