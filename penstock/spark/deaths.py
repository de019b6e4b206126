"""Why the process of a slot died, in words."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, dataclass

_MEBI = 1 << 20
_MORE_MEMORY = (
    "Give the machine or the container more memory, lower the parallelism, or keep state on disk "
    "(state.backend.type: rocksdb)"
)


@dataclass(frozen=True, slots=True)
class Death:
    """What whoever waited for the process saw."""

    pid: int
    status: int
    """As ``waitpid`` gives it."""
    peak_bytes: int = 0
    """The most memory it ever used; 0 if that is not known."""
    limit_bytes: int = 0
    """What it might use."""
    oom_kill: bool = False
    """Whether the kernel's out-of-memory killer ended a process at that time."""

    def to_text(self) -> str:
        """For the way to the driver."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: str) -> Death:
        """Raises :class:`ValueError` if the text is none."""
        try:
            return Death(**json.loads(text))
        except TypeError as error:
            raise ValueError(str(error)) from None

    def __str__(self) -> str:
        if not os.WIFSIGNALED(self.status):
            return (
                f"its Python process ({self.pid}) ended itself with exit status "
                f"{os.waitstatus_to_exitcode(self.status)}: code of the job, or a library, called os._exit()"
            )
        number = os.WTERMSIG(self.status)
        return (
            f"its Python process ({self.pid}) was killed by signal {number}{_name(number)}{self._who(number)}"
        )

    def _who(self, number: int) -> str:
        used = memory(self.peak_bytes, self.limit_bytes)
        had = f", {used} at most" if used else ""
        if number != signal.SIGKILL:
            crash = number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
            return f": a crash in native code of a library that the job uses{had}" if crash else had
        if self.oom_kill:
            return f": the kernel's out-of-memory killer did that{had}. {_MORE_MEMORY}"
        return f"{had}. Somebody sent that; the kernel counts no out-of-memory kill at that time"


def memory(used: int, limit: int = 0) -> str:
    """``it used 512 MB of 2048 MB``, or nothing if that is not known."""
    if not used:
        return ""
    return f"it used {used // _MEBI} MB" + (f" of {limit // _MEBI} MB" if limit else "")


def _name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""
