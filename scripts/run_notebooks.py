"""Run the notebooks of the documentation, and keep what they show: ``python scripts/run_notebooks.py``.

Each runs in a kernel and a directory of its own.  Of what its cells show the text is kept: what is printed
and the last value of a cell.  What goes to standard error is not: logs have times and places.  ``--check``
changes nothing, and fails if anything else than what is kept is shown.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
PATIENCE_S = 600


@contextmanager
def own_places() -> Iterator[Path]:
    """A directory to run in; IPython and Jupyter write there, and Penstock is that of this repository."""
    with tempfile.TemporaryDirectory() as place:
        above = os.environ.get("PYTHONPATH")
        given = {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), above)))}
        given |= {name: place for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR")}
        before = {name: os.environ.get(name) for name in given}
        os.environ.update(given)
        try:
            yield Path(place)
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def executed(path: Path) -> Any:
    """The notebook as a run leaves it, without what differs from run to run."""
    notebook = nbformat.read(path, as_version=4)
    with own_places() as place:
        client = NotebookClient(
            notebook, timeout=PATIENCE_S, startup_timeout=PATIENCE_S, kernel_name="python3"
        )
        client.execute(cwd=str(place))
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [kept for output in cell.outputs if (kept := as_text(output)) is not None]
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return nbformat.from_dict(notebook)


def as_text(output: Any) -> Any:
    """What of an output is kept."""
    if output.output_type == "stream":
        return output if output.name == "stdout" else None
    text = {"text/plain": output.data["text/plain"]}
    return nbformat.v4.new_output("execute_result", data=text, execution_count=None)


def written(notebook: Any) -> str:
    """The text of its file."""
    return f"{nbformat.writes(notebook)}\n"


def main() -> None:
    """Run those that are named, or all."""
    parser = argparse.ArgumentParser(description="Run the notebooks of the documentation.")
    parser.add_argument("--check", action="store_true", help="fail if one shows something else than is kept")
    parser.add_argument("notebooks", nargs="*", type=Path, default=NOTEBOOKS)
    given = parser.parse_args()
    changed = []
    for path in given.notebooks:
        text = written(executed(path))
        if given.check and text != path.read_text(encoding="utf-8"):
            changed.append(f"{path.name} shows this now:\n{text}")
        elif not given.check:
            path.write_text(text, encoding="utf-8")
    if changed:
        sys.exit("\n".join(changed))


if __name__ == "__main__":
    main()
