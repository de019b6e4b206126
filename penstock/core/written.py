"""The end of what this process has written: by ``logging``, and to standard output.

Nothing is taken away from anybody: no handler is added (with one, Python would no longer show warnings to a
program that set up no logging, and ``basicConfig`` would do nothing), and standard output stays the object
that it is.  Kept are the last so many bytes of each, whatever a program writes.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from penstock.core.messages import Output

KEPT_BYTES = 128 << 10
_LONGEST = 8 << 10
_CUT = "... (the rest of it is not kept)\n"
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class Ring:
    """The end of a text that goes on and on.  Any thread may write and read."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept = kept_bytes
        self._pieces: deque[str] = deque()
        self._size = 0
        self._begins_inside = False
        self._lock = threading.RLock()  # a signal's handler may print in the middle of a print

    def write(self, text: str) -> None:
        """Keep it, and of what came before as much as there is room for."""
        if not text:
            return
        if len(text) > _LONGEST:
            text = text[:_LONGEST] + _CUT
        with self._lock:
            self._pieces.append(text)
            self._size += len(text)
            while self._size > self._kept:
                gone = self._pieces.popleft()
                self._size -= len(gone)
                self._begins_inside = not gone.endswith("\n")

    def text(self) -> str:
        """All that is kept, from the beginning of a line: without its name a value is not known as secret."""
        with self._lock:
            text = "".join(self._pieces)
            return text.partition("\n")[2] if self._begins_inside else text


class Written:
    """What one process has written while somebody kept it."""

    def __init__(self) -> None:
        self.log = Ring()
        self.stdout = Ring()
        self._format = logging.Formatter(_FORMAT)
        self._lock = threading.Lock()
        self._keepers = 0
        self._undo: list[Callable[[], None]] = []

    @contextlib.contextmanager
    def kept(self) -> Iterator[Written]:
        """Keep what is written from here on; several at once keep the same."""
        with self._lock:
            self._keepers += 1
            if self._keepers == 1:
                self._undo = [_with_records(self._saw), *_with_writes(sys.stdout, self.stdout)]
        try:
            yield self
        finally:
            with self._lock:
                self._keepers -= 1
                undo, self._undo = (self._undo, []) if not self._keepers else ([], self._undo)
            for step in undo:
                step()

    def taken(self) -> Output:
        """All that is kept, secrets included: who shows it to people takes them out."""
        return Output(self.log.text(), self.stdout.text())

    def _saw(self, record: logging.LogRecord) -> None:
        if record.name is None:  # logging.makeLogRecord fills it in later: it comes from another process
            return
        with contextlib.suppress(Exception):  # logging's own handlers say what is wrong with a record
            self.log.write(self._format.format(record) + "\n")
            record.exc_text = None  # what the formatter keeps there would skip other formatters


def _with_records(saw: Callable[[logging.LogRecord], None]) -> Callable[[], None]:
    """Show every log record, when it is made, to ``saw``; how to end that."""
    before = logging.getLogRecordFactory()

    def make(*arguments: Any, **named: Any) -> logging.LogRecord:
        record = before(*arguments, **named)
        saw(record)
        return record

    logging.setLogRecordFactory(make)

    def end() -> None:
        if logging.getLogRecordFactory() is make:
            logging.setLogRecordFactory(before)

    return end


def _with_writes(stream: Any, ring: Ring) -> list[Callable[[], None]]:
    """Have a stream write into ``ring``, too; how to end that. Nothing if it will not be changed."""
    replaced = "write" in getattr(stream, "__dict__", ())
    try:
        write = stream.write

        def both(text: str) -> Any:
            done = write(text)
            if isinstance(text, str):
                ring.write(text)
            return done

        stream.write = both
    except (AttributeError, TypeError):
        return []

    def end() -> None:
        with contextlib.suppress(AttributeError, TypeError):
            if stream.write is both and replaced:
                stream.write = write
            elif stream.write is both:
                del stream.write

    return [end]


WRITTEN = Written()
"""Of this process."""
