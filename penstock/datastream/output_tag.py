"""``OutputTag``, where PyFlink programs look for it."""

from __future__ import annotations

from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.operators.output_tag import OutputTag

__all__ = ["OutputTag"]

# PyFlink has these here, too, from its other modules.
__all__ += ["RowTypeInfo", "TypeInformation", "Types"]
