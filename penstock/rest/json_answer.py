"""JSON of anything that a name may hold: of a step, a file or a metric, which need not be valid Unicode."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse


class JsonAnswer(JSONResponse):
    """Halves of characters, as names of files have them, are written as escapes, which JSON knows."""

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")
