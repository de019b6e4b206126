"""The user's own functions in expressions: once per row with plain values, or once per batch with arrays."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.core.errors import TypeMismatchError
from penstock.expressions.functions import Kernel, Value, on_arrays
from penstock.expressions.nodes import PythonCall


def python_kernel(node: PythonCall) -> Kernel:
    """A kernel that calls the function; what it returns must fit the type that was promised."""

    def per_batch(*arguments: Value) -> Value:
        result = node.function(*arguments)
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        lengths = {len(it) for it in arguments if isinstance(it, pa.Array)}
        found = result if isinstance(result, pa.Array) else _typed(node, result)
        if lengths and {len(found)} != lengths:
            raise TypeMismatchError(f"{node} returned {len(found)} values for {lengths.pop()} rows")
        return found.cast(node.type)

    def per_row(*arguments: pa.Array) -> pa.Array:
        rows = zip(*(it.to_pylist() for it in arguments), strict=True)
        return _typed(node, [node.function(*row) for row in rows])

    return per_batch if node.vectorised else on_arrays(per_row)


def _typed(node: PythonCall, values: Any) -> pa.Array:
    try:
        return pa.array(values, node.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TypeMismatchError(
            f"{node} promised {node.type}, and returned something else: {error}"
        ) from error
