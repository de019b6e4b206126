"""The worker daemon without seals between slots: what ``tls.py`` compares with. No job runs so."""

from __future__ import annotations

import runpy
from typing import Any

import penstock.spark.daemon
from penstock.exchange.frames import MARK, Seal
from penstock.exchange.network import Peer

PRELOADED = penstock.spark.daemon.PRELOADED


class NoSeal(Seal):
    """Room for a mark, and nothing in it."""

    def __init__(self) -> None:
        """No keys."""

    def mark(self, *parts: Any) -> bytes:
        """Nothing."""
        return bytes(MARK)

    def check(self, mark: Any, *parts: Any) -> None:
        """Everything will do."""


def without_seals() -> None:
    """Connections between slots only: the driver's are few and checked at its end."""
    begin = Peer.__init__

    def bare(self: Peer, slot: Any, frames: Any) -> None:
        frames._seal = NoSeal()
        begin(self, slot, frames)

    Peer.__init__ = bare  # type: ignore[method-assign]


if __name__ == "__main__":
    without_seals()
    runpy.run_module("pyspark.daemon", run_name="__main__")
