"""Tables, columns and records of numpy, pandas, polars and pyarrow as plain values, which have names.

What these libraries say of themselves is laid out for people: names stand far from their values.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST_ROWS = 20
"""More would not be shown anyway."""
_FRAMES = frozenset(("pandas", "polars"))


def plain_of(value: Any) -> Any:
    """Its first rows, columns or fields, with their names; ``None`` if it is nothing of the kind."""
    libraries = {base.__module__.partition(".")[0] for base in type(value).__mro__}
    if "numpy" in libraries:
        return _of_numpy(value)
    if "pyarrow" in libraries:
        return _of_arrow(value)
    return _of_frame(value) if libraries & _FRAMES else None


def _of_numpy(value: Any) -> Any:
    import numpy as np  # settings are read where there is nothing but the standard library

    if not isinstance(value, np.void | np.ndarray):
        return None
    names = value.dtype.names
    if names is None:
        return None
    if isinstance(value, np.void):
        return {name: value[name] for name in names}
    return list(value.ravel()[:_MOST_ROWS])


def _of_arrow(value: Any) -> Any:
    import pyarrow as pa

    if isinstance(value, pa.RecordBatch | pa.Table):
        return value.slice(0, _MOST_ROWS).to_pydict()
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value.slice(0, _MOST_ROWS).to_pylist()
    return value.as_py() if isinstance(value, pa.Scalar) else None


def _of_frame(value: Any) -> Any:
    """A frame by its columns; a column by its labels, if it has them."""
    if not hasattr(value, "head"):
        return None
    some = value.head(_MOST_ROWS)
    if hasattr(some, "columns"):
        return {name: some[name].to_list() for name in some.columns}
    found = some.to_dict() if hasattr(some, "to_dict") else some.to_list()
    return dict(found) if isinstance(found, Mapping) else found
