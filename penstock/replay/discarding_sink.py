"""A sink that forgets what it gets, and leaves alone what a snapshot holds for the sink it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.connectors.builtin.discard import DiscardingWriter
from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, WriterContext


class Nowhere(Sink):
    """Takes the place of a real sink."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return DiscardingWriter()

    def create_committer(self) -> Committer:
        return _NotOurs()


class _NotOurs(Committer):
    """The real job commits what it has prepared."""

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        return [CommitOutcome.ALREADY_COMMITTED] * len(committables)
