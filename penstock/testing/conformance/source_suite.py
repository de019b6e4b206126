"""What every source must do: deliver each record once, from any position, at any poll size."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cloudpickle

from penstock.connectors.source import EndOfSplit, Source, Split, SplitReader
from penstock.core.clock import ManualClock

_START_MS = 1_700_000_000_000
_Record = tuple[Any, int]
"""A value and its event time."""


class SourceConformance:
    """Subclass it as ``Test...`` and implement ``make_source``; the source must be bounded."""

    poll_sizes: tuple[int, ...] = (1, 3, 1000)
    parallelism: int = 2

    def make_source(self, directory: Path) -> Source:
        """A source with some tens of records. Called once per test, with an empty directory."""
        raise NotImplementedError

    def expected(self) -> list[Any] | None:
        """The records of all splits in the order of splits, or ``None`` not to compare them."""
        return None

    def test_delivers_the_expected_records(self, tmp_path: Path) -> None:
        """All splits together hold what was promised."""
        source = self.make_source(tmp_path)
        values = [value for split in self._splits(source) for value, _ in _read_all(source, split, 1000)]
        assert values, "the suite needs a source with records"
        if self.expected() is not None:
            assert values == self.expected()

    def test_poll_size_does_not_matter(self, tmp_path: Path) -> None:
        """Small and large polls deliver the same records in the same order, none too large."""
        source = self.make_source(tmp_path)
        for split in self._splits(source):
            first, *others = [_read_all(source, split, size) for size in self.poll_sizes]
            assert all(other == first for other in others)

    def test_resumes_at_every_position(self, tmp_path: Path) -> None:
        """A reader opened at a position delivers exactly the records not delivered before it."""
        source = self.make_source(tmp_path)
        for split in self._splits(source):
            for size in self.poll_sizes:
                whole, marks = _read_with_positions(source, split, size)
                for delivered, position in marks:
                    assert _read_all(source, split, max(self.poll_sizes), position) == whole[delivered:]

    def test_position_does_not_move_by_itself(self, tmp_path: Path) -> None:
        """Asking for the position, or opening at one, changes nothing."""
        source = self.make_source(tmp_path)
        for split in self._splits(source):
            _, marks = _read_with_positions(source, split, min(self.poll_sizes))
            for _, position in marks[1:]:
                reader = source.open_split(split, position, ManualClock(_START_MS))
                assert reader.position() == position == reader.position()
                reader.close()

    def test_end_is_final(self, tmp_path: Path) -> None:
        """A poll after the end says so again, and so does a reader opened there."""
        source = self.make_source(tmp_path)
        for split in self._splits(source):
            clock = ManualClock(_START_MS)
            reader = source.open_split(split, None, clock)
            _drain(reader, clock, 1000)
            assert _is_at_end(reader) and _is_at_end(reader)
            end = reader.position()
            reader.close()
            assert _read_all(source, split, 1000, end) == []

    def test_split_ids_are_unique_and_stable(self, tmp_path: Path) -> None:
        """Two enumerators find the same splits, and each id once."""
        source = self.make_source(tmp_path)
        ids = [split.id for split in self._splits(source)]
        assert len(set(ids)) == len(ids)
        assert ids == [split.id for split in self._splits(source)]

    def test_restored_enumerator_deals_nothing_twice(self, tmp_path: Path) -> None:
        """Splits dealt before a snapshot stay dealt after it, also at another parallelism."""
        source = self.make_source(tmp_path)
        enumerator = source.create_enumerator(self.parallelism)
        assert list(enumerator.discover())
        assert list(enumerator.discover()) == []
        state = pickle.dumps(enumerator.snapshot())
        for parallelism in (self.parallelism, self.parallelism + 1, 1):
            restored = source.create_enumerator(parallelism)
            restored.restore(pickle.loads(state))
            assert list(restored.discover()) == []

    def _splits(self, source: Source) -> list[Split]:
        return list(source.create_enumerator(self.parallelism).discover())


def _ship(value: Any) -> Any:
    """What arrives in a slot."""
    return pickle.loads(cloudpickle.dumps(value))


def _read_with_positions(
    source: Source, split: Split, size: int
) -> tuple[list[_Record], list[tuple[int, Any]]]:
    """All records of a split, and after each poll how many came and the position."""
    clock = ManualClock(_START_MS)
    reader = _ship(source).open_split(_ship(split), None, clock)
    records: list[_Record] = []
    marks = [(0, _ship(reader.position()))]
    while (polled := _poll(reader, clock, size)) is not None:
        records.extend(polled)
        mark = (len(records), _ship(reader.position()))
        if mark != marks[-1]:  # a source of the real world may have nothing for thousands of polls
            marks.append(mark)
    reader.close()
    return records, marks


def _read_all(source: Source, split: Split, size: int, position: Any | None = None) -> list[_Record]:
    clock = ManualClock(_START_MS)
    reader = _ship(source).open_split(_ship(split), position, clock)
    records = _drain(reader, clock, size)
    reader.close()
    return records


def _drain(reader: SplitReader, clock: ManualClock, size: int) -> list[_Record]:
    records: list[_Record] = []
    while (polled := _poll(reader, clock, size)) is not None:
        records.extend(polled)
    return records


def _poll(reader: SplitReader, clock: ManualClock, size: int) -> list[_Record] | None:
    """One poll's records, ``None`` at the end; virtual time passes while the reader has nothing."""
    try:
        batch = reader.poll(size)
    except EndOfSplit:
        return None
    if batch is None:
        due = reader.next_poll_ms()
        clock.advance(1 if due is None else max(1, due - clock.now_ms()))
        return []
    assert 0 < len(batch) <= size, f"asked for {size} records, got {len(batch)}"
    return list(zip(batch.to_rows(), batch.time_list(), strict=True))


def _is_at_end(reader: SplitReader) -> bool:
    try:
        reader.poll(1)
    except EndOfSplit:
        return True
    return False
