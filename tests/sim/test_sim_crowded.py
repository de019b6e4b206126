"""Journals that are compacted by every claim: exact all the same, and a compaction that forgets is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sim_graphs import GRAPHS
from sim_planted import Patch, Planted, must_be_found

from penstock.snapshot import journal
from penstock.snapshot.repository import Repository
from penstock.testing import Faults, simulate

FAULTS = Faults(
    driver_crash=0.02,
    driver_crash_in_storage=0.03,
    driver_hang_in_storage=0.02,
    slot_crash=0.02,
    storage_error=0.02,
    storage_error_after=0.02,
    torn_file=0.1,
    rotten_file=0.3,
    slow_storage=0.1,
    commit_error=0.1,
    rescale=0.3,
)


@pytest.mark.parametrize("fences", [0, 2])
def test_a_journal_that_is_always_crowded(fences: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "CROWDED", fences)
    report = simulate(GRAPHS["chain"], range(30), FAULTS, name="chain")
    assert report.faults["driver_crash_in_storage"] > 5


def carry_nothing(patch: Patch) -> None:
    patch.setattr(journal, "CROWDED", 0)
    patch.setattr(Repository, "_countable", lambda self, entries: [])


def carry_all_but_the_newest(patch: Patch) -> None:
    real = Repository._countable
    patch.setattr(journal, "CROWDED", 0)
    patch.setattr(Repository, "_countable", lambda self, entries: real(self, entries)[:-1])


@pytest.mark.parametrize("mutate", [carry_nothing, carry_all_but_the_newest])
def test_a_compaction_that_forgets_is_found(
    mutate: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(Planted(mutate, "chain"), monkeypatch)
