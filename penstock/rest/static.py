"""Where the page's files are, if this installation has them."""

from __future__ import annotations

from pathlib import Path

import penstock


def console_files() -> str | None:
    """The directory of ``index.html``; ``None`` where there is no page."""
    found = Path(penstock.__file__).parent / "console" / "static"
    return str(found) if (found / "index.html").is_file() else None
