"""Every error Penstock raises on purpose.

::

    PenstockError
    ├── ConfigError            a setting, option or argument that cannot be used
    ├── GraphError             the program as built cannot be run
    ├── KeyError_              a key that is None or has no stable hash
    ├── TimestampError         event time was needed and the record has none
    ├── TypeMismatchError      a value that is not of the type its stream declares
    ├── SnapshotError          a snapshot cannot be written, read or trusted
    │   ├── CorruptSnapshotError   length or checksum differ from the manifest, or bytes are not ours
    │   └── FormatVersionError     written by a newer Penstock
    ├── FencedError            a newer generation owns the job; this one must stop
    ├── TransportError         a peer spoke out of turn, without the secret, or of another job
    ├── ConnectorError         a source or sink cannot do what was asked (missing topic, ...)
    │   └── PositionGoneError      what a source was to read next is not there any more
    ├── ClusterError           Spark cannot give what the job needs (slots, package, ...)
    │   └── SparkLostError         Spark is gone; only a new process can go on
    ├── UserCodeError          the user's function raised; carries step, subtask, record, traceback
    └── JobFailedError         the job ended as FAILED; its cause says why

Messages name the thing and the way out, in one paragraph, and no secret: a password in a URL is taken out
of every one of them.  The ``code`` is stable, searchable, and has a page: people are told it behind the
message (:func:`coded`; tracebacks show it as the exception's note).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from penstock.core.discreet import discreet
from penstock.core.error_codes import Code


class PenstockError(Exception):
    """Base of all errors raised on purpose."""

    code: str = Code.PENSTOCK
    """What it is known by; of the class, unless the situation has a code of its own."""

    def __init__(self, *args: object, code: str | None = None) -> None:
        super().__init__(*(discreet(part) if isinstance(part, str) else part for part in args))
        if code is not None:
            self.code = str(code)
        self.add_note(f"[{self.code}] {to_read_on(self.code)}")

    def retold(self, text: str) -> Self:
        """An error of the same class and code, in other words."""
        made = type(self)(text)
        made.code, made.__notes__ = self.code, list(self.__notes__)
        return made

    @classmethod
    def of_text(cls, text: str) -> Self:
        """The error again that :func:`coded` made this text of, elsewhere."""
        found = _CODED.search(text)
        return cls(text) if found is None else cls(text[: found.start()], code=found[1])


_CODED = re.compile(r"\s\[(PEN-\d{4})\]$")


def to_read_on(code: str) -> str:
    """Where more about a code is said."""
    return f"To read on: penstock explain {code}"


def coded(error: BaseException) -> str:
    """The text of an error as people are told it: with its code behind it, if it is one of ours."""
    text = str(error)
    if not isinstance(error, PenstockError):
        return text
    between = "\n" if "\n" in text else " "
    return f"{text}{between}[{error.code}]"


class ConfigError(PenstockError):
    """A setting, option or argument that cannot be used."""

    code = Code.CONFIG


class GraphError(PenstockError):
    """The program as built cannot be run."""

    code = Code.GRAPH


class KeyError_(PenstockError):
    """A key that is ``None`` or has no stable hash."""

    code = Code.KEY


class TimestampError(PenstockError):
    """Event time was needed and the record has none."""

    code = Code.TIMESTAMP


class TypeMismatchError(PenstockError):
    """A value that is not of the type its stream declares."""

    code = Code.TYPE


class SnapshotError(PenstockError):
    """A snapshot cannot be written, read or trusted."""

    code = Code.SNAPSHOT


class CorruptSnapshotError(SnapshotError):
    """Stored bytes differ from what the manifest promises."""

    code = Code.CORRUPT_SNAPSHOT


class FormatVersionError(SnapshotError):
    """The snapshot was written by a newer Penstock than this one, or by sources that read otherwise."""

    code = Code.FORMAT_VERSION


@contextmanager
def naming(what: str) -> Iterator[None]:
    """A :class:`SnapshotError` in the block says what it is about: a step, a file, a snapshot."""
    try:
        yield
    except SnapshotError as error:
        raise error.retold(f"{what}: {error}") from error


class FencedError(PenstockError):
    """A newer generation owns the job; whoever gets this must stop and commit nothing."""

    code = Code.FENCED


class TransportError(PenstockError):
    """A peer broke the protocol, lacks the secret, or belongs to another job or generation."""

    code = Code.TRANSPORT


class UnansweredError(TransportError):
    """A peer hung up without a word: it may have been too busy, and the next call may do."""


class ConnectorError(PenstockError):
    """A source or sink cannot do what was asked."""

    code = Code.CONNECTOR


class PositionGoneError(ConnectorError):
    """What a source was to read next is not there any more. Starting again does not bring it back."""

    code = Code.POSITION_GONE


class ClusterError(PenstockError):
    """Spark cannot give what the job needs."""

    code = Code.CLUSTER


class ProcessLostError(ClusterError):
    """A process of the job died; another can take its place."""

    code = Code.PROCESS_LOST


class SparkLostError(ClusterError):
    """The JVM, the Spark context or all executors are gone. Only a new process can go on."""

    code = Code.SPARK_LOST


class UserCodeError(PenstockError):
    """The user's function raised.

    Carries what a person needs and nothing else: the step's name, the subtask, the record that was
    being processed (shortened) and the Python traceback of the user's code.
    """

    code = Code.USER_CODE

    def __init__(self, step: str, subtask: str, record: str | None, trace: str) -> None:
        self.step = step
        self.subtask = subtask
        self.record = record
        self.trace = trace
        shown = f"\n  record:  {record}" if record is not None else ""
        super().__init__(f"step {step!r} failed\n  subtask: {subtask}{shown}\n{trace.rstrip()}")

    def __reduce__(self) -> tuple[object, ...]:
        return (UserCodeError, (self.step, self.subtask, self.record, self.trace))


def as_error(caught: BaseException) -> Exception:
    """What code that must not end a thread of ours has raised, as an error to report.

    ``sys.exit()`` ends only the thread it is called in: whoever waits for that thread's answer must hear it.
    """
    if isinstance(caught, Exception):
        return caught
    return PenstockError(f"code of the job ended its thread with {caught!r}; raise an exception instead")


class JobFailedError(PenstockError):
    """The job ended as FAILED. Its text tells all; ``cause`` is the error itself, for programs."""

    code = Code.JOB_FAILED

    def __init__(self, text: str, cause: Exception | None = None, code: str | None = None) -> None:
        super().__init__(text, code=cause.code if code is None and isinstance(cause, PenstockError) else code)
        self.cause = cause
