"""Turning an exception in a step into something a person can act on."""

from __future__ import annotations

import traceback
from pathlib import Path

from penstock.core.errors import ConfigError, PenstockError, TypeMismatchError, UserCodeError
from penstock.operators.operator import Operator

_PACKAGE = str(Path(__file__).resolve().parents[1] / "_")[:-1]
"""The directory of the engine, with a separator at the end."""
_SHOWN = 300
_LOCATED = "_located"
"""Marks an error that says where it happened: steps of a chain call each other."""


def explain_failure(error: Exception, step: str, subtask: str, operator: Operator) -> Exception:
    """An error that names step, subtask and record; engine frames are left out of the traceback."""
    if isinstance(error, UserCodeError) or getattr(error, _LOCATED, False):
        return error
    if isinstance(error, PenstockError):
        wrong = isinstance(error, TypeMismatchError | ConfigError)
        record = _record_text(operator) if wrong else None
        shown = f" (the record is {record})" if record is not None and record not in str(error) else ""
        located = type(error)(f"step {step!r}, subtask {subtask}: {error}{shown}")
        setattr(located, _LOCATED, True)
        return located
    return UserCodeError(step, subtask, _record_text(operator), _trace(error))


def _record_text(operator: Operator) -> str | None:
    try:
        text = repr(operator.current_record())
    except Exception:
        return None
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _trace(error: Exception) -> str:
    """The traceback from the first frame outside the engine on; all of it if there is none."""
    summary = traceback.TracebackException.from_exception(error)
    frames = list(summary.stack)
    outside = [n for n, frame in enumerate(frames) if not frame.filename.startswith(_PACKAGE)]
    if outside:
        summary.stack = traceback.StackSummary.from_list(frames[outside[0] :])
    return "".join(summary.format())
