"""What Spark's own UI says of a job: its name, attempt and vertices, and where our page is.

Spark shows a description as markup if it is well-formed, with links into its own pages: ``/jobs/job/kill`` is
one.  So what came from a program is text there, whatever it looks like.

The page is opened when the job has been started, about when its first Spark job is: who describes that waits
for the page, but not long.
"""

from __future__ import annotations

import html
import threading
from collections.abc import Iterable

from penstock.core.discreet import discreet, plain

_LONGEST = 120
"""Characters of a name."""
_MOST = 8
"""Vertices that are named."""
_WAIT_S = 2.0


class Description:
    """Of one job. Any thread may set the page, any may ask."""

    def __init__(self, job_name: str, has_page: bool = True) -> None:
        self._job_name = job_name
        self._page: str | None = None
        self._settled = threading.Event()
        if not has_page:
            self.page_is(None)

    def page_is(self, page: str | None) -> None:
        """Where the page is; ``None`` if there is none."""
        self._page = page
        self._settled.set()

    def of(self, what: str, vertices: Iterable[str]) -> str:
        """The description of a Spark job that runs ``vertices``; ``what`` is the attempt, or ``batch``."""
        self._settled.wait(_WAIT_S)
        named = list(vertices)
        steps = [_text(name) for name in named[:_MOST]]
        steps += [f"and {len(named) - _MOST} more"] if len(named) > _MOST else []
        said = f"penstock: {_text(self._job_name)}, {what}: {' | '.join(steps)}"
        return said if self._page is None else f"{said}; page: {_text(self._page)}"


def _text(text: str) -> str:
    """One line, without secrets, that is no markup."""
    line = plain(discreet(text))
    cut = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
    return html.escape(cut, quote=False)
