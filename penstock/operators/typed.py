"""The output of a step that declares a type: results are brought to it on their way out."""

from __future__ import annotations

from penstock.core.batch import Batch
from penstock.core.conversion import Convert, converter
from penstock.core.typeinfo import TypeInformation
from penstock.operators.operator import Output


class TypedOutput:
    """Converts the rows of the main output. Columns and side outputs pass as they are."""

    __slots__ = ("_convert", "_out", "idle", "side", "watermark")

    def __init__(self, out: Output, convert: Convert) -> None:
        self._out = out
        self._convert = convert
        self.side = out.side
        self.watermark = out.watermark
        self.idle = out.idle

    def emit(self, batch: Batch) -> None:
        """Send records on, as what the step declares them to be."""
        if batch.rows is not None:
            rows = self._convert(batch.rows)
            if rows is not batch.rows:
                batch = Batch(rows=list(rows), times=batch.times, keys=batch.keys)
        self._out.emit(batch)


def typed_output(out: Output, type_info: TypeInformation | None) -> Output:
    """``out`` for results of ``type_info``; ``out`` itself if such values stay as they are."""
    convert = converter(type_info)
    return out if convert is None else TypedOutput(out, convert)
