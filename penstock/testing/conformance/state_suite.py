"""What every backend of keyed state must do.

::

    class TestMyState(StateConformance):
        def make(self, directory):
            return MyBackend(directory)

The contract is :mod:`penstock.state.backend`.  The suite calls every method of it, mostly as the engine does:
through handles, timers and the snapshot writer.  Read ``state_kinds.py`` first, then ``state_tables.py`` and
``state_snapshots.py``.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from penstock.testing.conformance.state_checkpoints import CheckpointTests
from penstock.testing.conformance.state_kinds import KindTests
from penstock.testing.conformance.state_model import CHANGES, Duel, Step
from penstock.testing.conformance.state_snapshots import FileTests, FreezeTests
from penstock.testing.conformance.state_tables import TableTests
from penstock.testing.conformance.state_timers import TimerTests


class StateConformance(KindTests, TableTests, TimerTests, FreezeTests, FileTests, CheckpointTests):
    """Subclass it as ``Test...`` and implement ``make``."""

    histories: int = 60
    """How many random histories to play; each with and without namespaces."""

    def test_agrees_with_a_dictionary_whatever_happens(self, tmp_path: Path) -> None:
        """Random histories of changes, freezes, releases in any order and restarts. Needs hypothesis."""
        import hypothesis
        from hypothesis import strategies

        numbers = strategies.integers(0, 9)
        step = strategies.tuples(strategies.sampled_from(CHANGES), numbers, numbers, numbers)
        serial = count()

        @hypothesis.settings(
            max_examples=self.histories, deadline=None, database=None, derandomize=True, print_blob=False
        )
        @hypothesis.given(strategies.lists(step, max_size=40), strategies.booleans())
        def duel(steps: list[Step], namespaced: bool) -> None:
            with self.backends(tmp_path / f"history-{next(serial)}") as new:
                Duel(new, namespaced).play(steps)

        duel()
