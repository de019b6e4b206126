"""Planted bugs of an untidy world: each brings back what the engine once did, and must be found again."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import pickle
import re
from itertools import chain
from typing import Any

import cloudpickle
import pytest
from sim_planted import Patch, Planted, must_be_found

import penstock.core.keygroups
import penstock.core.keys
import penstock.exchange.partition
import penstock.graph.plan
import penstock.snapshot.repository
from penstock.connectors.source import Split
from penstock.coordinator import job_directory
from penstock.coordinator.commits import CommitQueue
from penstock.coordinator.job_storage import JobStorage
from penstock.core import pickling, unpickling
from penstock.core.batch import Batch
from penstock.core.errors import TransportError
from penstock.exchange.codec import ChannelEncoder
from penstock.operators.outflow import Outflow
from penstock.operators.source_operator import SourceOperator
from penstock.operators.source_splits import AssignedSplit
from penstock.task.task import Task

# --- jobs side by side ----------------------------------------------------------------------------


def directories_of_readable_letters(patch: Patch) -> None:
    patch.setattr(job_directory, "job_directory", job_directory.former_directory)


def fence_before_the_look(patch: Patch) -> None:
    """Whoever starts has taken the job over before it is known whether it can go on with it."""
    original = JobStorage.claim

    def claim(self: JobStorage, checksums: bool) -> Any:
        self._repository.claim()
        return original(self, checksums)

    patch.setattr(JobStorage, "claim", claim)


# --- keys -----------------------------------------------------------------------------------------


def classes_travel_by_value(patch: Patch) -> None:
    """Each run of a script has its own classes, and what was stored is of another run's."""
    patch.setattr(penstock.graph.plan, "ship", cloudpickle.dumps)
    patch.setattr(pickling, "_HAS_CLASSES", re.compile(rb"(?!)"))
    patch.setattr(unpickling, "_StoredWithClasses", pickle.Unpickler)
    patch.setattr(penstock.core.keys, "is_named", lambda kind: True)


def every_nan_is_its_own_key(patch: Patch) -> None:
    patch.setattr(penstock.exchange.partition, "canonical_keys", lambda keys, kinds: keys)


def fields_that_do_not_compare_are_hashed(patch: Patch) -> None:
    everything = lambda kind: tuple(field.name for field in dataclasses.fields(kind))  # noqa: E731
    patch.setattr(penstock.core.keygroups, "compared_fields", everything)


def decimals_are_hashed_as_the_thread_rounds(patch: Patch) -> None:
    def rounded(value: decimal.Decimal) -> Any:
        return int(value) if value == value.to_integral_value() else str(value.normalize())

    patch.setattr(penstock.core.keygroups, "number_of", rounded)


def times_are_hashed_by_their_class(patch: Patch) -> None:
    def named(value: dt.date | dt.time | dt.timedelta) -> str:
        return f"{type(value).__name__}:{value}"

    patch.setattr(penstock.core.keygroups, "time_text", named)


# --- bounds ---------------------------------------------------------------------------------------


def rows_weigh_64_bytes(patch: Patch) -> None:
    original = Batch.nbytes

    def nbytes(self: Batch, *measure: Any) -> int:
        return original(self) if self.rows is None else 64 * len(self)

    patch.setattr(Batch, "nbytes", nbytes)


def batches_are_not_cut(patch: Patch) -> None:
    def refuse(self: Any, batch: Batch) -> Any:
        raise TransportError("a batch is larger than a frame may be")

    patch.setattr(ChannelEncoder, "_encode_halves", refuse)


def never_suspend(patch: Patch) -> None:
    """What is begun is done to its end, however full the outputs are."""
    patch.setattr(Task, "_is_blocked", lambda self: False)


def gather_all_results(patch: Patch) -> None:
    def pour_all(self: Outflow, results: Any, items: list[Any], ends: Any, times: Any) -> Any:
        items.extend(chain.from_iterable(results))
        return 0
        yield

    patch.setattr(Outflow, "pour_all", pour_all)


def never_wait_for_commits(patch: Patch) -> None:
    patch.setattr(CommitQueue, "is_full", property(lambda self: False))


def keep_splits_that_were_read(patch: Patch) -> None:
    end, store = SourceOperator._end, SourceOperator._store
    read: dict[SourceOperator, list[str]] = {}

    def remember(self: SourceOperator, assigned: AssignedSplit) -> None:
        read.setdefault(self, []).append(assigned.split.id)
        end(self, assigned)

    def store_all(self: SourceOperator) -> None:
        store(self)
        me = (self.ctx.info.subtask, self.ctx.info.parallelism)
        done = [(Split(name), None, True, *me) for name in read.get(self, ())]
        self._state.update([*self._state.get(), *done])

    patch.setattr(SourceOperator, "_end", remember)
    patch.setattr(SourceOperator, "_store", store_all)


def never_compact_the_journal(patch: Patch) -> None:
    patch.setattr(penstock.snapshot.repository, "is_crowded", lambda entries: False)


MUTATIONS: dict[str, Planted] = {
    "names that read alike share a directory": Planted(
        directories_of_readable_letters, "names_brackets", early=True
    ),
    "a start fences before it looks": Planted(fence_before_the_look, "chain", 9),
    "rows weigh 64 bytes": Planted(rows_weigh_64_bytes, "heavy_rows"),
    "batches above a frame are not cut": Planted(batches_are_not_cut, "heavy_rows"),
    "timers fire however full the outputs are": Planted(never_suspend, "pressed_timers"),
    "a watermark sets off all timers at once": Planted(never_suspend, "pressed_windows"),
    "all results of a record are gathered": Planted(gather_all_results, "many_lines"),
    "splits that were read are kept": Planted(keep_splits_that_were_read, "many_splits"),
    "the journal is never compacted": Planted(never_compact_the_journal, "stumbling"),
    "classes of the script travel by value": Planted(classes_travel_by_value, "keys", 4),
    "every NaN is its own key": Planted(every_nan_is_its_own_key, "keys"),
    "fields that do not compare are hashed": Planted(fields_that_do_not_compare_are_hashed, "keys"),
    "decimals are hashed as the thread rounds": Planted(decimals_are_hashed_as_the_thread_rounds, "keys"),
    "times are hashed by their class": Planted(times_are_hashed_by_their_class, "keys"),
    "checkpoints do not wait for commits": Planted(never_wait_for_commits, "long_life"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_bugs_are_found(name: str, monkeypatch: Patch) -> None:
    must_be_found(MUTATIONS[name], monkeypatch)
