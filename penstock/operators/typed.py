"""The output of a step that declares a type: results are brought to it on their way out."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.batch import Batch
from penstock.core.conversion import Convert, converter
from penstock.core.typeinfo import TypeInformation
from penstock.operators.operator import Output


class TypedOutput:
    """Converts the rows of the main output and of side outputs. Columns pass as they are."""

    __slots__ = ("_main", "_out", "_sides", "idle", "watermark")

    def __init__(self, out: Output, main: Convert | None, sides: dict[str, Convert]) -> None:
        self._out = out
        self._main = main
        self._sides = sides
        self.watermark = out.watermark
        self.idle = out.idle

    def emit(self, batch: Batch) -> None:
        """Send records on, as what the step declares them to be."""
        self._out.emit(_converted(batch, self._main))

    def side(self, tag: str, batch: Batch) -> None:
        """Send records to a side output, as what its tag declares them to be."""
        self._out.side(tag, _converted(batch, self._sides.get(tag)))


def _converted(batch: Batch, convert: Convert | None) -> Batch:
    if convert is None or batch.rows is None:
        return batch
    rows = convert(batch.rows)
    if rows is batch.rows:
        return batch
    return Batch(rows=rows if isinstance(rows, list) else list(rows), times=batch.times, keys=batch.keys)


def typed_output(
    out: Output, main: TypeInformation | None, sides: Mapping[str, TypeInformation | None]
) -> Output:
    """``out`` for results of declared types; ``out`` itself if such values stay as they are."""
    convert = converter(main)
    converters = {tag: made for tag, kind in sides.items() if (made := converter(kind)) is not None}
    return out if convert is None and not converters else TypedOutput(out, convert, converters)
