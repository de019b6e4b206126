"""What a job asks for, in the process that started it: for the runner that has no workers."""

from __future__ import annotations

import ctypes
import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.core.work_place import WorkPlace
from penstock.luggage.arrival import Hands, Luggage, at_work
from penstock.luggage.outfit import put_on
from penstock.luggage.outfitting import outfit_of
from penstock.luggage.staging import staged_file
from penstock.luggage.wishes import Wishes

_log = logging.getLogger("penstock")
PREFIX = "penstock-local-"
_CLONE_FS = 0x200


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
        if self._work is not None and sys.platform == "linux":
            ctypes.CDLL(None).unshare(_CLONE_FS)
        with at_work(None if self._work is None else str(self._work)):
            yield

    def leave(self) -> None:
        """The job is over."""
        self._hands.put_down()
        if self._place is not None:
            self._place.remove()
