"""The course of a BATCH job on the driver.

1. Find all splits of all sources and deal them; but what the runner reads itself is left to it.
2. Run the vertices.  Whatever sinks prepare stays invisible; what of it counts is told by the rows that the
   attempts which succeeded sent to the driver.
3. Publish: the list of everything prepared goes where checkpoints go.  From here on the job has succeeded.
4. Commit, let committers remove what failed attempts have prepared, then forget the list.

If 2 fails, committers remove what was prepared.  A driver that dies before 3 leaves nothing visible, and a
rerun starts over.  One that dies later leaves the
list: a rerun of the job finishes that commit and runs nothing.  Without a checkpoint directory the list dies
with the driver, and a rerun after a death in 4 writes again what was visible already.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from functools import partial
from typing import Any

import penstock
from penstock.batch.runner import Stage, StageRunner
from penstock.batch.vertex import EPOCH
from penstock.batch.work import Delivery, Run, TaskCounts, feeds_of, in_order, vertex_work
from penstock.connectors.source import Split, SplitsFinished
from penstock.coordinator.assemble import Assembled
from penstock.coordinator.attempt_history import TaskState
from penstock.coordinator.commits import CommitQueue
from penstock.coordinator.connectors import JobConnectors
from penstock.coordinator.events import Discover, RequestKind
from penstock.coordinator.job_directory import check_owner
from penstock.coordinator.job_history import JobHistory
from penstock.coordinator.reporting import JobReporter
from penstock.coordinator.resuming import what_became
from penstock.coordinator.running_job import JobResult, RunningJob
from penstock.coordinator.start import announce
from penstock.core.clock import Clock, mono_ms
from penstock.core.discreet import log_of
from penstock.core.documents import dump
from penstock.core.error_codes import Code
from penstock.core.errors import GraphError, JobFailedError, as_error
from penstock.core.handles import Committable
from penstock.core.ids import Generation, OperatorId, Subtask, SubtaskIndex
from penstock.core.interrupts import how_to_go_on
from penstock.core.job import JobStatus
from penstock.core.log_place import at_job
from penstock.core.messages import DriverMessage, Remark
from penstock.core.signals import SnapshotKind
from penstock.graph.plan import Vertex, shipped_plan
from penstock.snapshot.manifest import Manifest
from penstock.snapshot.permit import CommitPermit
from penstock.snapshot.recovery import Found
from penstock.snapshot.repository import first_generation
from penstock.snapshot.state_assignment import match

_log = log_of(__name__)
_BACKOFF_MS = 1000
_LOOK_AGAIN_S = 0.1
_LAST_STATE = {
    JobStatus.FINISHED: TaskState.FINISHED,
    JobStatus.CANCELED: TaskState.CANCELED,
    JobStatus.FAILED: TaskState.FAILED,
}


class BatchRun(RunningJob):
    """A running BATCH job."""

    def __init__(self, job: Assembled, clock: Clock, runner: StageRunner) -> None:
        super().__init__(job, JobResult(job, clock))
        self._clock = clock
        self._runner = runner
        self._status = JobStatus.CREATED
        self._stop = threading.Event()
        self._dropped = 0
        self._connectors = JobConnectors(job.plan)
        self._reporter = JobReporter(
            job.plan.job_name, late_ms=0
        )  # nothing is late before the end of all input
        self.history = JobHistory(job.plan, clock.now_ms())
        self._repository = job.repository
        self._repository.first_generation = first_generation(clock.now_ms())

    def start(self) -> None:
        """Begin, on a thread of its own."""
        threading.Thread(target=self._run, daemon=True, name="penstock-batch").start()

    def status(self) -> JobStatus:
        return self._status

    def facts(self) -> dict[str, Any]:
        return {
            "id": self.job_id.hex,
            "name": self.job.plan.job_name,
            "status": self._status.name,
            "restarts": 0,
            "checkpoints": 0,
            "last_checkpoint": None,
            "records_in": 0,
            "outputs_dropped": self._dropped,
            "under_way": (),
            "late_dropped": 0,
            "stalled": None,
            "held": None,
            "stages": asdict(self._runner.progress()) if self._status is JobStatus.RUNNING else None,
        }

    def cancel(self) -> Future[None]:
        if not self._result.finished.done():
            self._status = JobStatus.CANCELLING
            self.history.status(self._status, self._clock.now_ms())
            self._stop.set()
            self._runner.cancel()
        return self._result.stopped

    def interrupt(self) -> Future[None]:
        return self.cancel()

    def what_is_kept(self) -> str:
        name = self.job.plan.job_name
        if self._status is JobStatus.FINISHED:
            return f"job {name!r} was interrupted, but had finished by then"
        return f"{what_became(name, self._status)}; in BATCH mode it begins anew; {how_to_go_on()}"

    def request(
        self, kind: RequestKind, directory: str | None = None, accepted: Callable[[], None] | None = None
    ) -> tuple[str, Future[str]]:
        future: Future[str] = Future()
        future.set_exception(
            GraphError(
                "a job in BATCH mode takes no snapshots: Spark's own retries are its fault tolerance; run it "
                "in STREAMING mode to take savepoints"
            )
        )
        return "none", future

    # --- the course -------------------------------------------------------------------------

    def _run(self) -> None:
        at_job(self.job.plan.job_name, 0)
        try:
            self._status = JobStatus.RUNNING
            self.history.status(self._status, self._clock.now_ms())
            self.history.all_tasks(TaskState.SCHEDULED, self._clock.now_ms())
            self._course()
        except BaseException as error:
            stopped = self._stop.is_set()
            self._end(JobStatus.CANCELED if stopped else JobStatus.FAILED, as_error(error))
        else:
            self._end(JobStatus.FINISHED, None)

    def _end(self, status: JobStatus, error: Exception | None) -> None:
        self._connectors.close()
        self._status = status
        now = self._clock.now_ms()
        self.history.all_tasks(_LAST_STATE[status], now)
        if error is not None and status is JobStatus.FAILED:
            self.history.failed(error, now)
        self.history.status(status, now)
        self._result.resolve(status, error)

    def _course(self) -> None:
        found = self._look()  # refused here, whoever runs the job goes on
        generation, _ = self._repository.claim()
        if self._repository.moved_on():
            found = self._look()
        if found is not None:
            _log.warning(
                "job %r had ended but for the commit of its output; that is done now and nothing is run. "
                "Run it again for new results",
                self.job.plan.job_name,
            )
            names = self._names()
            listed = tuple(item for item in found.manifest.committables if item.operator_id in names)
            self._commit(listed, self._repository.permit_restored(found.manifest))
        else:
            prepared = self._prepare(generation)
            if prepared:
                self._commit(prepared, self._repository.publish(self._manifest(generation, prepared)))
        self._repository.drop_all()

    def _look(self) -> Found | None:
        """The list that an earlier run left, if it is this job's and this program's."""
        found = self._repository.latest_valid()
        check_owner(found, self.job.plan.job_name)
        if found is not None:
            match(found.manifest, self._names(), self.job.settings.allow_non_restored)
        return found

    def _names(self) -> dict[OperatorId, str]:
        return {planned.operator_id: planned.node.name for _, planned in self.job.plan.operators()}

    def _prepare(self, generation: Generation) -> tuple[Committable, ...]:
        """Run all vertices; what sinks prepared."""
        plan = self.job.plan
        shipped = shipped_plan(plan)
        run = Run(int(generation), self._clock.now_ms())
        tables = {vertex.id: self._table(vertex) for vertex in plan.vertices}
        read = [vertex for vertex in plan.vertices if tables[vertex.id] is None]
        splits = {vertex.id: self._splits(vertex, generation) for vertex in read}
        stages = [
            Stage(
                vertex_work(shipped, vertex, run, splits.get(vertex.id, ()), vertex.id not in splits),
                feeds_of(shipped, vertex),
                tables[vertex.id],
            )
            for vertex in in_order(shipped)
        ]
        self.history.all_tasks(TaskState.RUNNING, self._clock.now_ms())
        try:
            return self._prepared_by(stages)
        except BaseException:
            self._connectors.withdraw(plan.job_name, generation)
            raise

    def _prepared_by(self, stages: list[Stage]) -> tuple[Committable, ...]:
        prepared: list[Committable] = []
        for body in self._runner.run(stages):
            said: Delivery = pickle.loads(body)
            if said.prepared:
                place = SubtaskIndex(said.subtask)
                prepared.append(Committable(said.operator_id, EPOCH, place, dump(said.payload)))
            elif isinstance(said.payload, TaskCounts):
                ended = Subtask(said.payload.vertex, SubtaskIndex(said.subtask))
                self.history.counted(ended, said.payload.values, mono_ms(self._clock))
            elif isinstance(said.payload, Remark):
                self._reporter.remark(said.payload)
            else:
                self._connectors.deliver(DriverMessage(said.operator_id, said.payload))
        if self._stop.is_set():
            raise JobFailedError("the job was cancelled", code=Code.JOB_CANCELLED)
        return tuple(sorted(prepared, key=lambda item: (item.operator_id, item.subtask_index)))

    def _table(self, vertex: Vertex) -> Any | None:
        """What the runner reads itself, if the vertex is a source of that kind."""
        source = vertex.head.node.source
        return None if source is None else self._runner.table_of(source)

    def _splits(self, vertex: Vertex, generation: Generation) -> tuple[tuple[Split, ...], ...]:
        """All splits of a source, dealt in turn; nothing for other vertices."""
        if vertex.head.node.source is None:
            return ()
        operator_id = vertex.head.operator_id
        ask = partial(Discover, generation, operator_id, None)
        answer = self._connectors.discover(ask(restore=True))
        found = list(answer.splits)
        while not answer.final and not self._stop.wait(0 if answer.splits else _LOOK_AGAIN_S):
            # All of them will be read, so an enumerator that waits for some to end need not wait.
            ids = tuple(split.id for split in answer.splits)
            self._connectors.deliver(DriverMessage(operator_id, SplitsFinished(int(generation), ids)))
            answer = self._connectors.discover(ask(restore=False))
            found += answer.splits
        count = vertex.parallelism
        return tuple(tuple(found[subtask::count]) for subtask in range(count))

    def _manifest(self, generation: Generation, prepared: tuple[Committable, ...]) -> Manifest:
        return Manifest(
            job_id=self.job_id.hex,
            job_name=self.job.plan.job_name,
            epoch=self._repository.next_epoch(),
            generation=generation,
            kind=SnapshotKind.CHECKPOINT,
            created_ms=self._clock.now_ms(),
            operators=(),
            enumerators={},
            committables=prepared,
            penstock_version=penstock.__version__,
        )

    def _commit(self, prepared: tuple[Committable, ...], permit: CommitPermit) -> None:
        """Make everything visible, sink by sink; those that ask for it are tried again."""
        queue = CommitQueue(self.job.settings.committer_retries, _BACKOFF_MS)
        queue.published(prepared, permit)
        while not queue.is_empty:
            now = mono_ms(self._clock)
            work = queue.next(now)
            if work is None:
                threading.Event().wait(_LOOK_AGAIN_S)
                continue
            queue.done(self._connectors.commit(work), now)
            self._dropped = queue.dropped
        self._connectors.finish()


def start_batch(job: Assembled, clock: Clock, runner: StageRunner) -> BatchRun:
    """Set a BATCH job going."""
    running = BatchRun(job, clock, runner)
    running.start()
    announce(running)
    return running
