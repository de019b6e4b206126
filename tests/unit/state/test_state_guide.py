"""The guide to state tells the truth: its code runs, page by page."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "state.md"


def test_the_code_of_the_guide_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    exec(compile("\n".join(blocks), str(GUIDE), "exec"), {"__name__": "__main__"})
