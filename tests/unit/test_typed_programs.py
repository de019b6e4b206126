"""What users' type checkers make of programs: a right one passes, and every mistake of a wrong one is found.

One run of each checker over both programs: they are slow.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TYPED = Path(__file__).parent / "typed"
MISTAKES = {
    number
    for number, line in enumerate((TYPED / "wrong.py").read_text(encoding="utf-8").splitlines(), 1)
    if line.endswith("# wrong")
}

pytestmark = pytest.mark.slow


def mypy(directory: Path) -> dict[str, set[int]]:
    """The lines with errors, by file, as mypy sees them in strict mode."""
    settings = directory / "mypy.ini"
    settings.write_text("[mypy]\nstrict = true\n[mypy-penstock.*]\nfollow_imports = silent\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings), "--no-error-summary"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "typed"), "--hide-error-context"]
    said = run([*command, str(TYPED / "right.py"), str(TYPED / "wrong.py")])
    found = re.findall(r"(\w+\.py):(\d+): error", said)
    return {name: {int(line) for file, line in found if file == name} for name in ("right.py", "wrong.py")}


def pyright(directory: Path) -> dict[str, set[int]]:
    """The same as pyright sees them; ``pyright[nodejs]`` brings all it needs along."""
    for name in ("right.py", "wrong.py"):  # it reads only what lies beside its settings
        shutil.copy(TYPED / name, directory)
    settings = {"extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (directory / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    said = run([*command, "--project", str(directory)])
    problems = [each for each in json.loads(said)["generalDiagnostics"] if each["severity"] == "error"]
    found: dict[str, set[int]] = {"right.py": set(), "wrong.py": set()}
    for each in problems:
        found[Path(each["file"]).name].add(each["range"]["start"]["line"] + 1)
    return found


def run(command: list[str]) -> str:
    settings = {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **settings}, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_right_program_passes_and_all_mistakes_of_a_wrong_one_are_found(checker, tmp_path: Path) -> None:
    found = checker(tmp_path)
    assert found["right.py"] == set()
    assert found["wrong.py"] == MISTAKES
    assert len(MISTAKES) > 10
