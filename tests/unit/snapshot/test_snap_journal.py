from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import FencedError, FormatVersionError
from penstock.core.handles import digest
from penstock.core.ids import Epoch, Generation
from penstock.snapshot.journal import (
    Append,
    ClaimOutcome,
    Entry,
    Fence,
    Published,
    Refused,
    Seq,
    Unreadable,
    candidates,
    claim_outcome,
    decode,
    encode,
    entry_path,
    history,
    link,
    may_publish,
    next_epoch,
    next_generation,
    seq_of,
    takeover,
)
from penstock.snapshot.permit import CommitPermit, Ownership, permit_publication, permit_restored


def build(*steps: tuple[str, int]) -> list[Entry]:
    """A journal of linked entries: ("fence", generation) and ("epoch", epoch)."""
    entries: list[Entry] = []
    generation = 0
    for kind, number in steps:
        seq = Seq(len(entries) + 1)
        previous = link(entries[-1]) if entries else None
        if kind == "fence":
            generation = number
            entries.append(Fence(seq, Generation(number), f"owner-{number}", previous))
        else:
            location = f"chk-{number}/_metadata"
            sums = digest(location.encode())
            entries.append(
                Published(seq, Generation(generation), Epoch(number), location, sums, 10, previous)
            )
    return entries


JOURNAL = build(("fence", 1), ("epoch", 1), ("epoch", 2), ("fence", 2), ("epoch", 3), ("epoch", 4))


def test_snap_entries_survive_the_round_trip() -> None:
    for entry in JOURNAL:
        assert decode(entry.seq, encode(entry)) == entry


def test_snap_entry_names() -> None:
    assert entry_path(Seq(42)) == "journal/0000000042.json"
    assert seq_of("journal/0000000042.json") == 42
    for other in ("journal/42.json", "journal/0000000042.json.bak", "x/0000000042.json", "journal"):
        assert seq_of(other) is None


def test_snap_foreign_bytes_are_unreadable_entries() -> None:
    raw = encode(JOURNAL[1])
    for junk in (b"", raw[:-1], b"{}", raw.replace(b'"epoch":1', b'"epoch":-1'), raw.replace(b"pub", b"bup")):
        assert decode(Seq(2), junk) == Unreadable(Seq(2), digest(junk))
    assert decode(Seq(3), raw) == Unreadable(Seq(3), digest(raw))
    with pytest.raises(FormatVersionError):
        decode(Seq(2), raw.replace(b'"format_version":3', b'"format_version":5'))


def test_snap_every_flipped_bit_of_an_entry_is_noticed() -> None:
    """The newest entry has no successor to vouch for it."""
    for entry in JOURNAL[:2]:
        raw = encode(entry)
        for bit in range(8 * len(raw)):
            flipped = bytearray(raw)
            flipped[bit // 8] ^= 1 << bit % 8
            try:
                assert isinstance(decode(entry.seq, bytes(flipped)), Unreadable)
            except FormatVersionError:
                continue


def test_snap_entries_of_format_1_are_read_and_linked_by_their_own_bytes() -> None:
    old = Fence(Seq(1), Generation(1), "owner", None, 1)
    raw = encode(old)
    assert b"checksum" not in raw and decode(Seq(1), raw) == old and link(old) == digest(raw)
    newer = Fence(Seq(2), Generation(2), "owner", link(old))
    assert history([old, newer]) == [old, newer]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=120))
def test_snap_arbitrary_bytes_never_break_the_journal(raw: bytes) -> None:
    assert decode(Seq(1), raw) == Unreadable(Seq(1), digest(raw))


def test_snap_history_is_what_links_to_the_newest() -> None:
    assert history(reversed(JOURNAL)) == JOURNAL
    assert history(JOURNAL[3:]) == JOURNAL[3:]
    assert history([*JOURNAL[:2], *JOURNAL[4:]]) == JOURNAL[4:]
    leftover = Published(Seq(4), Generation(1), Epoch(3), "chk-3/_metadata", digest(b""), 1, link(JOURNAL[2]))
    assert history([leftover, *JOURNAL[4:]]) == JOURNAL[4:]
    assert history([]) == []


def test_snap_unreadable_entry_does_not_hide_what_is_before_it() -> None:
    torn = Unreadable(Seq(7), digest(b"torn"))
    assert history([*JOURNAL, torn]) == [*JOURNAL, torn]
    assert [entry.epoch for entry in candidates([*JOURNAL, torn])] == [4, 3, 2, 1]
    fence = takeover([*JOURNAL, torn], "next")
    assert (fence.seq, fence.generation, fence.previous) == (8, 4, torn.checksum)
    assert [entry.epoch for entry in candidates([*JOURNAL, torn, fence])] == [4, 3, 2, 1]


def test_snap_takeover_goes_behind_everything() -> None:
    assert takeover([], "a") == Fence(Seq(1), Generation(1), "a")
    fence = takeover(JOURNAL, "b")
    assert fence == Fence(Seq(7), Generation(3), "b", link(JOURNAL[-1]))
    assert next_generation(JOURNAL) == 3


def test_snap_claims_are_judged_by_what_is_read_after() -> None:
    fence = takeover(JOURNAL, "b")
    assert claim_outcome([*JOURNAL, fence], fence) is ClaimOutcome.OWNER
    assert claim_outcome([JOURNAL[-1], fence], fence) is ClaimOutcome.OWNER
    newer = takeover([*JOURNAL, fence], "c")
    assert claim_outcome([*JOURNAL, fence, newer], fence) is ClaimOutcome.SUPERSEDED
    assert claim_outcome([fence], fence) is ClaimOutcome.STALE
    stale = takeover(JOURNAL[:2], "late")
    assert claim_outcome([stale, *JOURNAL[3:]], stale) is ClaimOutcome.STALE
    first = takeover([], "first")
    assert claim_outcome([first], first) is ClaimOutcome.OWNER


def test_snap_only_the_newest_generation_may_publish() -> None:
    assert may_publish(JOURNAL, Generation(2)) == Append(Seq(7), link(JOURNAL[-1]))
    assert isinstance(may_publish(JOURNAL, Generation(1)), Refused)
    assert isinstance(may_publish(JOURNAL, Generation(3)), Refused)
    assert isinstance(may_publish([], Generation(1)), Refused)
    assert isinstance(may_publish([*JOURNAL, takeover(JOURNAL)], Generation(2)), Refused)
    torn = Unreadable(Seq(7), digest(b""))
    assert isinstance(may_publish([*JOURNAL, torn], Generation(2)), Refused)


def test_snap_publisher_must_still_find_its_own_entry() -> None:
    assert isinstance(may_publish(JOURNAL, Generation(2), JOURNAL[4]), Append)
    assert isinstance(may_publish(JOURNAL[5:], Generation(2), JOURNAL[4]), Refused)


def test_snap_candidates_are_newest_first() -> None:
    assert [entry.epoch for entry in candidates(JOURNAL)] == [4, 3, 2, 1]
    assert candidates(build(("fence", 1))) == []


def test_snap_publication_behind_a_newer_fence_does_not_count() -> None:
    fence = build(("fence", 1), ("epoch", 1), ("fence", 2))
    behind = Published(Seq(4), Generation(1), Epoch(2), "x", digest(b""), 1, link(fence[-1]))
    assert [entry.epoch for entry in candidates([*fence, behind])] == [1]


def test_snap_epochs_are_never_used_twice() -> None:
    assert next_epoch([]) == 1
    assert next_epoch(JOURNAL) == 5
    assert next_epoch(JOURNAL, Epoch(9)) == 10
    assert next_epoch(JOURNAL, Epoch(2)) == 5


def test_snap_permits_cannot_be_made_up() -> None:
    with pytest.raises(TypeError):
        CommitPermit(Epoch(1), Generation(1))
    with pytest.raises(TypeError):
        CommitPermit(Epoch(1), Generation(1), object())


def test_snap_permit_needs_the_predecessor() -> None:
    ownership = Ownership(JOURNAL[3])
    entry = JOURNAL[5]
    permit = permit_publication(ownership, entry, encode(JOURNAL[4]))
    assert (permit.epoch, permit.generation) == (4, 2)
    assert pickle.loads(pickle.dumps(permit)) == permit
    for found in (None, encode(JOURNAL[3]), b""):
        with pytest.raises(FencedError):
            permit_publication(ownership, entry, found)
    with pytest.raises(FencedError):
        permit_publication(Ownership(JOURNAL[0]), entry, encode(JOURNAL[4]))


def test_snap_permit_for_a_restored_snapshot_needs_ownership() -> None:
    assert permit_restored(Ownership(JOURNAL[3]), JOURNAL, Epoch(2)).epoch == 2
    with pytest.raises(FencedError):
        permit_restored(Ownership(JOURNAL[0]), JOURNAL, Epoch(2))
