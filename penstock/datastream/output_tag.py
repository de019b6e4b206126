"""``OutputTag``, where PyFlink programs look for it."""

from __future__ import annotations

from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.core.elsewhere import shown_in
from penstock.operators.output_tag import OutputTag

__all__ = ["OutputTag"]

shown_in(__name__, __all__)

# PyFlink has these here, too, from its other modules.
__all__ += ["RowTypeInfo", "TypeInformation", "Types"]
