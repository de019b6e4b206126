"""The driver's side of a job's sources and sinks: enumerators, committers, messages from writers.

:func:`commit_all` is the one place that commits: it takes a permit, and a permit exists only for what is
published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.connectors.sink import CommitOutcome, Committer, Sink
from penstock.connectors.source import BetweenSources, Dealt, Source, Split, SplitEnumerator, SplitsFinished
from penstock.coordinator.events import Commit, CommitDone, Discover, SplitsDiscovered
from penstock.core.discreet import log_of
from penstock.core.documents import dump, load
from penstock.core.errors import FencedError, FormatVersionError
from penstock.core.handles import Committable
from penstock.core.ids import Generation, OperatorId
from penstock.core.messages import DriverMessage
from penstock.core.packed import Names
from penstock.graph.plan import Plan
from penstock.snapshot.permit import CommitPermit

_log = log_of(__name__)


def commit_all(
    permit: CommitPermit,
    committables: tuple[Committable, ...],
    committer_of: Callable[[OperatorId], Committer | None],
) -> tuple[CommitOutcome, ...]:
    """Commit, oldest first, sink by sink; one outcome per committable, in the given order."""
    if any(item.epoch > permit.epoch for item in committables):
        raise FencedError(f"snapshot {permit.epoch} does not permit to commit what came after it")
    outcomes: dict[int, CommitOutcome] = {}
    by_sink: dict[OperatorId, list[int]] = {}
    for position, item in enumerate(committables):
        by_sink.setdefault(item.operator_id, []).append(position)
    for operator_id, positions in by_sink.items():
        committer = committer_of(operator_id)
        if committer is None:
            _tell_dropped(operator_id, len(positions))
            outcomes.update(dict.fromkeys(positions, CommitOutcome.DROPPED))
            continue
        payloads = [load(committables[position].payload) for position in positions]
        outcomes.update(zip(positions, committer.commit(payloads), strict=True))
    return tuple(outcomes[position] for position in range(len(committables)))


def _tell_dropped(operator_id: OperatorId, count: int) -> None:
    """A sink whose guarantee was changed since the snapshot commits nothing any more."""
    _log.error(
        "POSSIBLE DATA LOSS: the snapshot holds %d prepared outputs for the sink %s, which commits nothing "
        "any more: its guarantee was changed. They are skipped. If the job was stopped with a savepoint or "
        "ended by itself they had been committed before; else start it once from this snapshot with the "
        "sink as it was, stop it with a savepoint, and change the sink then.",
        count,
        operator_id,
    )


class JobConnectors:
    """Calls users' connectors. Each method is used from one thread, but not all from the same."""

    def __init__(self, plan: Plan) -> None:
        self._sources: dict[OperatorId, Source] = {}
        self._sinks: dict[OperatorId, Sink] = {}
        self._names: dict[OperatorId, str] = {}
        self._enumerators: dict[OperatorId, tuple[int, SplitEnumerator]] = {}
        self._first: dict[OperatorId, tuple[tuple[Split, ...], bytes]] = {}
        self._assigned: dict[OperatorId, Names] = {}
        """Of sources whose enumerators remember nothing."""
        self._committers: dict[OperatorId, Committer] = {}
        self.change_plan(plan)
        for _, planned in plan.operators():
            self._names[planned.operator_id] = planned.node.name
            if planned.node.source is not None:
                self._sources[planned.operator_id] = planned.node.source
            if planned.node.sink is not None:
                self._sinks[planned.operator_id] = planned.node.sink

    def change_plan(self, plan: Plan) -> None:
        """Another parallelism, from the next attempt on."""
        self._parallelism = {planned.operator_id: vertex.parallelism for vertex, planned in plan.operators()}

    def deliver(self, message: DriverMessage) -> None:
        """Give a writer's message to its sink, and a reader's to its enumerator."""
        sink = self._sinks.get(message.operator_id)
        if sink is not None:
            sink.on_driver_message(message.payload)
        elif isinstance(message.payload, SplitsFinished):
            generation, enumerator = self._enumerators[message.operator_id]
            if message.payload.generation == generation:
                enumerator.on_finished(message.payload.split_ids)

    def discover(self, instruction: Discover) -> SplitsDiscovered:
        """Ask an enumerator for splits."""
        operator_id = instruction.operator_id
        source = self._sources[operator_id]
        if instruction.restore:
            splits = self._start(source, instruction)
        else:
            splits = self._new(operator_id)
        _, enumerator = self._enumerators[operator_id]
        state = self._remembered(operator_id)
        if instruction.from_end:
            splits = tuple(source.from_end(split) for split in splits)
        final = source.discovery_interval_ms is None or enumerator.is_exhausted()
        expecting = not final and enumerator.expects_splits()
        return SplitsDiscovered(instruction.generation, operator_id, splits, state, final, expecting)

    def _start(self, source: Source, instruction: Discover) -> tuple[Split, ...]:
        """The splits an attempt starts with.

        An attempt without a snapshot starts where the first one did: were an end of input that was looked
        up then ("latest") looked up again, the records in between would be lost.
        """
        operator_id = instruction.operator_id
        first = self._first.get(operator_id) if instruction.state is None else None
        state = instruction.state if first is None else first[1]
        enumerator = source.create_enumerator(self._parallelism[operator_id])
        self._assigned[operator_id] = Names()
        if state is not None:
            found = load(state)
            if isinstance(found, Dealt):
                self._assigned[operator_id] = Names.restored(found.names)
                found = None
            enumerator.restore(_fitting(found, source))
        self._enumerators[operator_id] = (int(instruction.generation), enumerator)
        if first is not None:
            return first[0]
        splits = self._new(operator_id)
        if instruction.state is None:
            self._first[operator_id] = (splits, self._remembered(operator_id))
        return splits

    def _new(self, operator_id: OperatorId) -> tuple[Split, ...]:
        """Splits that were not assigned before, also if the enumerator does not remember that they were."""
        _, enumerator = self._enumerators[operator_id]
        found = tuple(enumerator.discover())
        if enumerator.snapshot() is not None:
            return found
        return tuple(split for split in found if self._assigned[operator_id].add(split.id))

    def _remembered(self, operator_id: OperatorId) -> bytes:
        state = self._enumerators[operator_id][1].snapshot()
        return dump(Dealt(self._assigned[operator_id].packed()) if state is None else state)

    def commit(self, instruction: Commit) -> CommitDone:
        """Run the committers."""
        outcomes = commit_all(instruction.permit, instruction.committables, self._committer)
        return CommitDone(instruction.committables, outcomes)

    def _committer(self, operator_id: OperatorId) -> Committer | None:
        if operator_id not in self._committers:
            committer = self._sinks[operator_id].create_committer()
            if committer is None:
                return None
            self._committers[operator_id] = committer
        return self._committers[operator_id]

    def finish(self) -> None:
        """All that a run in BATCH mode will ever commit is committed."""
        for operator_id, committer in self._committers.items():
            try:
                committer.finish()
            except Exception as error:
                _log.warning(
                    "what failed tries left for %r could not be removed: %s", self._names[operator_id], error
                )

    def abandon(self, job_name: str, generation: Generation) -> None:
        """What attempts up to ``generation`` prepared and is not committed never will be."""
        self._tell_committers(lambda each, sink: each.abandon(job_name, sink, generation))

    def withdraw(self, job_name: str, generation: Generation) -> None:
        """A run in BATCH mode has failed before anything that it prepared was published."""
        self._tell_committers(lambda each, sink: each.withdraw(job_name, sink, generation))

    def _tell_committers(self, tell: Callable[[Committer, OperatorId], None]) -> None:
        for operator_id in self._sinks:
            try:
                committer = self._committer(operator_id)
                if committer is not None:
                    tell(committer, operator_id)
            except Exception as error:
                _log.warning(
                    "output that %r prepared last could not be removed: %s", self._names[operator_id], error
                )

    def close(self) -> None:
        """Close the committers; the job is over whatever they say."""
        for operator_id, committer in self._committers.items():
            try:
                committer.close()
            except Exception as error:
                _log.warning("the committer of %r could not be closed: %s", self._names[operator_id], error)


def _fitting(state: Any, source: Source) -> Any:
    """State of an enumerator, if the source can go on with it."""
    if isinstance(state, BetweenSources) and not source.reports_finished:
        raise FormatVersionError(
            "the snapshot was taken while the job still read its history, which this program does not read; "
            "go on with penstock backfill and the same --history and --switch-at, or with the HybridSource "
            "that the program had, until the last source is reached"
        )
    return state
