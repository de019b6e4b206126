"""What is known of the slots of one attempt when one of them is lost, put into one sentence.

Called from the threads of the control server and of the attempt.
"""

from __future__ import annotations

import os
import signal
import threading

from penstock.core.errors import ProcessLostError
from penstock.core.ids import SlotId
from penstock.spark.failures import WorkerDiedError
from penstock.spark.witness import Death, memory

DAEMON = "penstock.spark.daemon"
_WITNESS_S = 2.0
"""How long to wait for the daemon's word once Spark has told that a worker is gone."""


class LastSigns:
    """``has_witness`` says whether a daemon of ours waits for the workers."""

    def __init__(self, has_witness: bool) -> None:
        self._has_witness = has_witness
        self._used: dict[SlotId, int] = {}
        self._hosts: dict[SlotId, str] = {}
        self._lost: list[SlotId] = []
        self._deaths: dict[SlotId, Death] = {}
        self._change = threading.Condition()

    def registered(self, slot: SlotId, host: str) -> None:
        """A slot is there."""
        self._hosts[slot] = host

    def beat(self, slot: SlotId, used_bytes: int) -> None:
        """A heartbeat."""
        self._used[slot] = used_bytes

    def lost(self, slot: SlotId, reason: str) -> str:
        """The connection to a slot is gone: that, in words."""
        self._lost.append(slot)
        return f"{self._slot(slot)} was lost: {reason}{self._last_memory(slot)}"

    def died(self, slot: SlotId, words: str) -> None:
        """The daemon has told how a slot's process ended."""
        try:
            death = Death.from_text(words)
        except ValueError:
            return  # of another version of Penstock
        with self._change:
            self._deaths[slot] = death
            self._change.notify_all()

    def explain(self, error: Exception) -> Exception:
        """The attempt's error with all that is known of a worker that died."""
        if not isinstance(error, WorkerDiedError):
            return error
        with self._change:
            if self._has_witness:
                self._change.wait_for(lambda: self._deaths, _WITNESS_S)
            found = min(self._deaths.items(), key=lambda each: _rank(each[1]), default=None)
        detail = str(error).partition(", ")[2]
        if found is not None:
            slot, death = found
            told = f"{self._slot(slot)} was lost: {death}"
            return ProcessLostError(f"{told} ({detail})" if detail else told)
        slots = "".join(f"; {self._slot(slot)}{self._last_memory(slot)}" for slot in self._lost[:1])
        hint = (
            ""
            if self._has_witness
            else f". Set spark.python.daemon.module to {DAEMON} to hear its signal or exit status"
        )
        return ProcessLostError(f"{error}{slots}{hint}")

    def _slot(self, slot: SlotId) -> str:
        host = self._hosts.get(slot)
        return f"slot {slot}" + (f" on {host}" if host and not host.startswith("127.") else "")

    def _last_memory(self, slot: SlotId) -> str:
        used = memory(self._used.get(slot, 0))
        return f" ({used} at its last heartbeat)" if used else ""


def _rank(death: Death) -> int:
    """Which of several deaths is the cause: whoever is left behind the first one Spark kills itself."""
    if death.oom_kill:
        return 0
    return 2 if os.WIFSIGNALED(death.status) and os.WTERMSIG(death.status) == signal.SIGKILL else 1
