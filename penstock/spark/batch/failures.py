"""Errors of vertices on their way through Spark: the same error arrives that was raised.

Spark turns what a Python worker raises into text.  The error itself travels inside that text.
"""

from __future__ import annotations

import base64
import pickle
import re

from penstock.core.pickling import dumps

_MARK = "PENSTOCK-FAILED "
_FOUND = re.compile(_MARK + r"([A-Za-z0-9+/=]+)")


def packed(error: Exception) -> RuntimeError:
    """What to raise in a worker in place of ``error``."""
    return RuntimeError(_MARK + base64.b64encode(dumps(error)).decode())


def unpacked(error: Exception) -> Exception | None:
    """The error that a worker packed into what Spark raised, if one did."""
    found = _FOUND.search(str(error))
    if found is None:
        return None
    raised = pickle.loads(base64.b64decode(found[1]))
    return raised if isinstance(raised, Exception) else None
