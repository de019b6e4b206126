"""A driver that lost its job hears who has it now; one whose directory was deleted hears that."""

from __future__ import annotations

import logging
import os
import shutil
import socket
from pathlib import Path

import pytest
from snap_fixtures import make_manifest

from penstock.coordinator.driver_signature import Signature, this_driver
from penstock.core.clock import SystemClock
from penstock.core.errors import FencedError, SnapshotError
from penstock.snapshot.repository import Repository
from penstock.snapshot.storage import SnapshotStore

ANN = "ann@host-a, process 1, since 2026-01-01 10:00:00 UTC"
BOB = "bob@host-b, process 2, since 2026-01-01 11:00:00 UTC"
HOW = ["publish", "claim", "retain", "look", "permit", "again"]


def driver(place: Path, name: str | None = ANN) -> tuple[Repository, Signature]:
    """One that has claimed the job, signed, published and tidied up."""
    made = Repository(SnapshotStore(str(place)), "job")
    generation, _ = made.claim()
    signature = Signature("job", made, name)
    signature.sign()
    made.publish(make_manifest(made.next_epoch(), generation))
    made.retain(1)
    return made, signature


def refused(old: Repository, how: str) -> FencedError:
    with pytest.raises(FencedError) as raised:
        if how == "publish":
            old.publish(make_manifest(7, 1))
        elif how == "retain":
            old.retain(1)
        elif how == "look":
            old.latest_valid()
        elif how == "permit":
            old.permit_restored(make_manifest(1, 1))
        else:
            old.claim()
    return refused(old, "publish") if how == "again" else raised.value


@pytest.mark.parametrize("how", HOW)
def test_a_fenced_driver_hears_who_and_since_when(tmp_path: Path, how: str) -> None:
    old, signature = driver(tmp_path)
    driver(tmp_path, BOB)
    told = str(signature.explained(refused(old, how)))
    assert f"taken over by {BOB}" in told
    assert "deleted" not in told and "ann@" not in told


@pytest.mark.parametrize("what", ["job", "job/journal", "."])
@pytest.mark.parametrize("how", HOW)
def test_a_deleted_directory_is_no_other_driver(tmp_path: Path, what: str, how: str) -> None:
    place = tmp_path / "chk"
    old, signature = driver(place)
    shutil.rmtree(place / what)
    told = str(signature.explained(refused(old, how)))
    assert "the checkpoint directory was deleted, emptied or mounted anew" in told
    assert "newer driver" not in told and "taken over" not in told and "took over" not in told


def test_a_directory_that_was_deleted_and_then_used_by_another_driver(tmp_path: Path) -> None:
    old, signature = driver(tmp_path)
    shutil.rmtree(tmp_path / "job")
    newer = Repository(SnapshotStore(str(tmp_path)), "job", first_generation=100)
    newer.claim()
    Signature("job", newer, BOB).sign()
    assert f"taken over by {BOB}" in str(signature.explained(refused(old, "publish")))


def test_a_driver_without_a_name_is_another_driver(tmp_path: Path) -> None:
    old, signature = driver(tmp_path)
    driver(tmp_path, None)
    assert "taken over by another driver" in str(signature.explained(refused(old, "claim")))
    other = SnapshotError("no")
    assert signature.explained(other) is other and signature.explained(None) is None


def told(place: Path, before: str, caplog: pytest.LogCaptureFixture) -> tuple[int, str]:
    caplog.set_level(logging.INFO, "penstock")
    driver(place, before)
    caplog.clear()
    driver(place, ANN)
    return (caplog.records[-1].levelno, caplog.records[-1].getMessage()) if caplog.records else (0, "")


def test_a_new_driver_hears_whose_job_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    level, text = told(tmp_path / "far", BOB, caplog)
    assert level == logging.WARNING and BOB in text and "may still run" in text
    level, text = told(tmp_path / "here", this_driver(SystemClock()), caplog)
    assert level == logging.WARNING and "still runs" in text
    assert f"@{socket.gethostname()}, process {os.getpid()}, since 20" in text
    level, text = told(tmp_path / "gone", f"me@{socket.gethostname()}, process {2**22 + 1}, since", caplog)
    assert level == logging.INFO and "ended without a word" in text
    assert told(tmp_path / "again", ANN, caplog) == (0, "")


def test_who_has_ended_is_not_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, first = driver(tmp_path)
    _, second = driver(tmp_path, BOB)
    first.remove()
    assert (tmp_path / "job" / "_driver").read_text() == BOB, "that is somebody else's name"
    second.remove()
    assert not (tmp_path / "job" / "_driver").exists()
