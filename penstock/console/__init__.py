"""The page of a running job: files that a browser runs, and where they are.

Nothing here runs in Python.  The server puts ``STATIC`` at its root, beside Flink's REST, and the page asks
that for all it shows: ``docs/console.md`` lists the calls.  Read ``static/app.js`` first, then
``static/pages/job.js``.
"""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).resolve().parent / "static"
"""The directory to serve; ``index.html`` is in it, and all addresses in its files are relative."""
