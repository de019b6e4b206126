"""Program: steps that nobody reads, in both modes, in the session that Penstock starts by itself.

laptop.py DIRECTORY
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment


def note(file: Path) -> Callable[[Any], Any]:
    """Writes what it is called with to a file."""

    def noted(value: Any) -> Any:
        with file.open("a") as lines:
            lines.write(f"{value}\n")
        return value

    return noted


def unread(mode: RuntimeExecutionMode, work: Path) -> None:
    """A step alone, and two beside a sink: in its task, and in one of their own."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(mode).set_parallelism(2)
    env.from_collection([1, 2, 3]).map(note(work / f"alone {mode.name}"))
    env.execute(f"alone {mode.name}")
    numbers = env.from_collection([1, 2, 3])
    numbers.map(note(work / f"beside {mode.name}"))
    numbers.key_by(lambda number: number).map(note(work / f"apart {mode.name}"))
    numbers.print()
    env.execute(f"beside {mode.name}")


if __name__ == "__main__":
    for wanted in (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH):
        unread(wanted, Path(sys.argv[1]))
