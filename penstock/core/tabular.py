"""Tables, columns and records of numpy, pandas, polars and pyarrow as plain values, which have names.

What these libraries say of themselves is laid out for people: names stand far from their values.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

_MOST_ROWS = 20
"""More would not be shown anyway."""
_FRAMES = frozenset(("pandas", "polars"))


def plain_of(value: Any) -> Any:
    """Its first rows, columns or fields, with their names; ``None`` if it is nothing of the kind."""
    if isinstance(value, np.void | np.ndarray):
        return _of_numpy(value)
    if isinstance(value, pa.RecordBatch | pa.Table):
        return value.slice(0, _MOST_ROWS).to_pydict()
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value.slice(0, _MOST_ROWS).to_pylist()
    if isinstance(value, pa.Scalar):
        return value.as_py()
    if any(base.__module__.partition(".")[0] in _FRAMES for base in type(value).__mro__):
        return _of_frame(value)
    return None


def _of_numpy(value: Any) -> Any:
    names = value.dtype.names
    if names is None:
        return None
    if isinstance(value, np.void):
        return {name: value[name] for name in names}
    return list(value.ravel()[:_MOST_ROWS])


def _of_frame(value: Any) -> Any:
    """A frame by its columns; a column by its labels, if it has them."""
    if not hasattr(value, "head"):
        return None
    some = value.head(_MOST_ROWS)
    if hasattr(some, "columns"):
        return {name: some[name].to_list() for name in some.columns}
    found = some.to_dict() if hasattr(some, "to_dict") else some.to_list()
    return dict(found) if isinstance(found, Mapping) else found
