"""The notebooks of the documentation run, each in a kernel of its own, and show what is kept in them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
PUBLIC = json.loads((ROOT / "tests" / "unit" / "public_names.json").read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_has_kept(notebook: Path) -> None:
    """Nothing of it can vary: places, times and logs are not kept."""
    script = [sys.executable, str(ROOT / "scripts" / "run_notebooks.py"), "--check", str(notebook)]
    ran = subprocess.run(script, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ran.returncode == 0, ran.stderr[-8000:]


def code_of(notebook: Path) -> list[dict[str, object]]:
    return [cell for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def test_notebooks_show_results_and_import_what_is_public() -> None:
    shown = {path.stem: sum(bool(cell["outputs"]) for cell in code_of(path)) for path in NOTEBOOKS}
    assert shown == {"first-stream": 3, "state-as-dataframes": 3, "what-if-from-a-savepoint": 2}
    names = {
        name
        for path in NOTEBOOKS
        for cell in code_of(path)
        for name in re.findall(r"^(?:from|import) (penstock[\w.]*)", "".join(cell["source"]), re.MULTILINE)  # type: ignore[arg-type]
    }
    assert len(names) > 8 and names <= set(PUBLIC)
