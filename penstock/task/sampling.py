"""Where a slot's threads are, looked at many times: what a flame graph and a thread dump are made of.

A thread of its own looks at the others; they do not notice.  A stack belongs to the subtask whose ``step`` is
in it, and counts from there on.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections import Counter
from pathlib import PurePath
from types import FrameType

from penstock.core.ids import SlotId, Subtask
from penstock.core.messages import Samples
from penstock.task.task import Task

ROUNDS = 50
PAUSE_S = 0.02
_DEEPEST = 200


def sample(slot: SlotId, rounds: int = ROUNDS, pause_s: float = PAUSE_S) -> Samples:
    """Look at all threads of this process for about a second; of tasks, only at those of ``slot``."""
    pause, own = threading.Event(), threading.get_ident()
    stacks: dict[str, Counter[str]] = {}
    for _ in range(rounds):
        for number, frame in sys._current_frames().items():
            found = _of_task(frame) if number != own else None
            if found is not None and found[0].index == int(slot):
                stacks.setdefault(found[0].vertex, Counter())[found[1]] += 1
        pause.wait(pause_s)
    return Samples(rounds, {vertex: dict(counts) for vertex, counts in stacks.items()}, _threads(own))


def _of_task(frame: FrameType | None) -> tuple[Subtask, str] | None:
    """The subtask that a thread is at, and its frames from ``step`` on, outermost first."""
    names: list[str] = []
    while frame is not None and len(names) < _DEEPEST:
        code = frame.f_code
        names.append(f"{code.co_qualname} ({PurePath(code.co_filename).name}:{frame.f_lineno})")
        if code is Task.step.__code__:
            task = frame.f_locals.get("self")
            return (task.subtask, ";".join(reversed(names))) if isinstance(task, Task) else None
        frame = frame.f_back
    return None


def _threads(own: int) -> dict[str, str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return {
        f"{names.get(number, 'unknown')} ({number})": "".join(traceback.format_stack(frame))
        for number, frame in sys._current_frames().items()
        if number != own
    }
