"""What runs in a Spark task of a BATCH job, and how its errors pass through Spark.

The error arrives that was raised.  Spark turns what a Python worker raises into text, and quotes data in text
of its own: the cell of a CSV file that is no number, for one.  So an error travels as plain words, its class
by name and its texts, of which only known classes are made again: **nothing is ever unpickled from text**.
The words stand behind a mark that each run draws by lot, so that data cannot choose what a job's error says
either.
"""

from __future__ import annotations

import base64
import json
import pickle
import re
import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import pyarrow as pa

from penstock.batch.vertex import run_vertex
from penstock.batch.wire import HERE
from penstock.batch.work import TaskAttempt, VertexWork
from penstock.core import errors
from penstock.core.clock import SystemClock
from penstock.core.error_codes import Code
from penstock.core.errors import PenstockError, UserCodeError
from penstock.core.log_format import all_formatted
from penstock.core.log_place import LogPlace, placed
from penstock.spark.collecting import rarely_collected

_WORDS = "PENSTOCK-FAILED"
_KNOWN: dict[str, type[PenstockError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, PenstockError) and kind is not UserCodeError
}
_CODES = frozenset(Code)


def new_mark() -> str:
    """A mark for the errors of one run, which nobody can guess."""
    return secrets.token_hex(16)


def packed(error: Exception, mark: str) -> RuntimeError:
    """What to raise in a worker in place of ``error``."""
    said = base64.b64encode(json.dumps(_said(error)).encode()).decode()
    return RuntimeError(f"{_WORDS} {mark} {said}")


def unpacked(error: Exception, mark: str) -> Exception | None:
    """The error that a worker of the run with this mark packed into what Spark raised, if one did."""
    found = re.search(rf"{_WORDS} {mark} ([A-Za-z0-9+/=]+)", str(error))
    if found is None:
        return None
    try:
        return _made(json.loads(base64.b64decode(found[1], validate=True)))
    except (ValueError, RecursionError):
        return None


def _said(error: Exception) -> tuple[str, tuple[str | None, ...]]:
    """The name of the nearest class that :func:`_made` knows, and the texts it is made of, with its code."""
    if isinstance(error, UserCodeError):
        return UserCodeError.__name__, (error.step, error.subtask, error.record, error.trace)
    code = str(error.code) if isinstance(error, PenstockError) else None
    for kind in type(error).__mro__:
        if _KNOWN.get(kind.__name__) is kind:
            return kind.__name__, (_text(error), code)
    return PenstockError.__name__, (f"{type(error).__name__}: {_text(error)}", None)


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text cannot be shown)"


def _made(said: object) -> Exception | None:
    match said:
        case ["UserCodeError", [str(step), str(subtask), str() | None as record, str(trace)]]:
            return UserCodeError(step, subtask, record, trace)
        case [str(name), [str(text), str() | None as code]] if name in _KNOWN:
            return _KNOWN[name](text, code=code if code in _CODES else None)
    return None


Rows = Iterator[pa.RecordBatch]


def run_task(work: bytes, mark: str, attempt: tuple[int, int], rows: Rows) -> Rows:
    """Run one subtask of a vertex; its errors travel behind the ``mark``.

    ``attempt`` is the number of the try, and a number that no other try of any task has.  ``rows`` say which
    subtask it is; a table's partition without rows cannot, and has nothing to do.
    """
    try:
        vertex: VertexWork = pickle.loads(work)
        found = _of_table(rows) if vertex.at_hand else _of_exchange(rows)
        if found is not None:
            subtask, rest = found
            with _logging(vertex, subtask, attempt[0]), rarely_collected():
                yield from run_vertex(vertex, TaskAttempt(subtask, *attempt), rest, SystemClock())
            # A source never looks at it; but Spark gives up a worker that has not read its input to the end.
            deque(rest, maxlen=0)
    except Exception as error:
        raise packed(error, mark) from None


@contextmanager
def _logging(work: VertexWork, subtask: int, attempt: int) -> Iterator[None]:
    place = LogPlace(work.job_name, attempt, work.vertex.name, subtask)
    with all_formatted(work.settings.log_format), placed(place, whole_process=True):
        yield


def _of_exchange(rows: Rows) -> tuple[int, Rows]:
    """The first row names the subtask."""
    first = next(rows)
    assert first.column("edge")[0].as_py() == HERE, "a partition begins with the row that names it"
    return first.column("target")[0].as_py(), chain((first.slice(1),), rows)


def _of_table(rows: Rows) -> tuple[int, Rows] | None:
    """The last column names the subtask, the same in every row."""
    first = next((batch for batch in rows if batch.num_rows), None)
    if first is None:
        return None
    columns = list(range(first.num_columns - 1))
    subtask = first.column(len(columns))[0].as_py()
    return subtask, (batch.select(columns) for batch in chain((first,), rows))
