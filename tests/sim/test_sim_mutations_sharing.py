"""Planted bugs of records with two readers: each must be found within a number of seeds."""

from __future__ import annotations

from typing import Any

import pytest
from sim_planted import Patch, Planted, must_be_found

import penstock.operators.async_io.operator
import penstock.operators.chain
import penstock.state.keyed
import penstock.task.build
from penstock.core.copying import itself


def share_between_branches(patch: Patch) -> None:
    """All branches get the same records."""
    patch.setattr(penstock.operators.chain, "copied_batch", itself)


def share_with_state(patch: Patch) -> None:
    """Functions hold what is in their state."""
    patch.setattr(penstock.state.keyed, "private", lambda handle, descriptor: handle)


def hand_out_requests(patch: Patch) -> None:
    """Asynchronous functions get the record that snapshots store."""
    patch.setattr(penstock.operators.async_io.operator, "copied", itself)


def forget_what_is_chained_now(patch: Patch) -> None:
    """Records in flight on an exchange that is within a chain now are left behind."""

    def nothing(*_: Any) -> list[Any]:
        return []

    patch.setattr(penstock.task.build, "recovered_inside", nothing)


MUTATIONS: dict[str, Planted] = {
    "share records between branches": Planted(share_between_branches, "careless_branches"),
    "share records with state": Planted(share_with_state, "careless_state"),
    "hand out requests": Planted(hand_out_requests, "careless_requests", 1),
    "forget what is chained now": Planted(forget_what_is_chained_now, "unaligned_chains", 297),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_bugs_are_found(name: str, monkeypatch: Patch) -> None:
    must_be_found(MUTATIONS[name], monkeypatch)
