"""Doctests in docstrings are shown as code: their output, such as ``['ann']``, would be taken for a link."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

DOCTEST = re.compile(r"^>>> .*(?:\n(?!\s*\n).*)*", re.MULTILINE)


class Doctests(Extension):
    """Puts each doctest into a fence."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called once for everything that was read."""
        if obj.docstring is not None:
            obj.docstring.value = DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
