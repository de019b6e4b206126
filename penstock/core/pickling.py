"""Pickling of users' objects.

Classes that a program defines in its own script live in ``__main__`` there and nowhere else, so plain
pickle cannot name them in a slot.  Such objects are pickled with their class; everything else takes the
plain and much faster way.  Loading is the same for both.
"""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle


def dumps(value: Any) -> bytes:
    """Bytes of any object that can be pickled at all."""
    try:
        return pickle.dumps(value, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        data: bytes = cloudpickle.dumps(value)
        return data
