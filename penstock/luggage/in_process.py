"""What a job asks for, in the process that started it: for the runner that has no workers."""

from __future__ import annotations

import ctypes
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from penstock.core.discreet import log_of
from penstock.core.errors import ConfigError
from penstock.luggage.arrival import Hands, Luggage, at_work
from penstock.luggage.outfit import outfit_of, put_on
from penstock.luggage.staging import staged_file
from penstock.luggage.wishes import Wishes
from penstock.storage.work_place import WorkPlace

_log = log_of(__name__)
PREFIX = "penstock-local-"
_CLONE_FS = 0x200
_directory = threading.Lock()


def has_own_directory() -> bool:
    """Give this thread a working directory of its own, where the system allows that."""
    return sys.platform == "linux" and int(ctypes.CDLL(None).unshare(_CLONE_FS)) == 0


@contextmanager
def _only_one() -> Iterator[None]:
    """Where the working directory is the whole process's, it can be that of one job at a time."""
    if not _directory.acquire(blocking=False):
        raise ConfigError(
            "another job of this process has archives, and here all threads share one working directory: run "
            "the jobs one after the other, or on Spark"
        )
    try:
        yield
    finally:
        _directory.release()


class Settled:
    """The files, archives and packages of one job, there until :meth:`leave`."""

    def __init__(self, wishes: Wishes) -> None:
        if wishes.executable is not None and shutil.which(wishes.executable) != sys.executable:
            _log.warning("python.executable: a job in this process is run by its Python, %s", sys.executable)
        self._place: WorkPlace | None = None
        self._work: Path | None = None
        self._hands = Hands()
        if wishes.files or wishes.archives or wishes.requirements is not None:
            self._place = WorkPlace.make(Path(tempfile.gettempdir()), PREFIX)
            try:
                self._settle(wishes, self._place.path)
            except BaseException:
                self.leave()
                raise

    def _settle(self, wishes: Wishes, place: Path) -> None:
        worn = put_on(outfit_of(wishes, place, None, None), place, str(place), sys.executable)
        stages = [staged_file(Path(file), place) for file in wishes.files]
        front = [str(worn.packages)] if worn.packages is not None else []
        front += [path for stage in stages for path in stage.fronts()]
        back = [path for stage in stages for path in stage.backs()]
        self._hands.take_up(Luggage(tuple(front), tuple(back)), str(place))
        self._work = worn.work

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """The thread that runs the job's functions is where its archives are; the program's own is not."""
        if self._work is None:
            yield
            return
        with nullcontext() if has_own_directory() else _only_one(), at_work(str(self._work)):
            yield

    def leave(self) -> None:
        """The job is over."""
        self._hands.put_down()
        if self._place is not None:
            self._place.remove()
