"""What is one per process on a cluster, and must not be shared by the simulated processes of a script's job.

A script's classes live in ``__main__``: a driver that is started again runs the script again, and has new
classes of the old names; a slot has another ``__main__`` and knows only what the driver sent.
"""

from __future__ import annotations

import decimal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

_MAIN = "__main__"


class Process:
    """A simulated process of a script's job; what runs inside :meth:`inside` sees its globals."""

    def __init__(self, main: ModuleType | None = None) -> None:
        self.main = ModuleType(_MAIN) if main is None else main
        self._decimals = decimal.Context()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Be this process for a while."""
        main, decimals = sys.modules[_MAIN], decimal.getcontext()
        sys.modules[_MAIN] = self.main
        decimal.setcontext(self._decimals)
        try:
            yield
        finally:
            self._decimals = decimal.getcontext()
            decimal.setcontext(decimals)
            sys.modules[_MAIN] = main


class SimScript:
    """A job that is a script: every driver runs it anew, as a process that is started does.

    ``entry`` is the function in it that writes the job; the script itself is not to call it.
    """

    def __init__(self, path: str | Path, entry: str = "job") -> None:
        self._path = Path(path)
        self._code = compile(self._path.read_text(), str(path), "exec")
        self._entry = entry
        self.__name__ = self._path.stem

    def run(self) -> Process:
        """A new driver process in which the script has run."""
        process = Process()
        process.main.__dict__["__file__"] = str(self._path)
        with process.inside():
            exec(self._code, process.main.__dict__)
        return process

    def __call__(self, env: StreamExecutionEnvironment) -> None:
        """Write the job with the classes of the process that is current."""
        sys.modules[_MAIN].__dict__[self._entry](env)
