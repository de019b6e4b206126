"""``make test`` leaves no test out, but those of cluster managers, which have a target of their own."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_is_in_one_run() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"--output-sync=target (test-.*)", makefile)
    assert targets is not None and "lint" in targets[1].split()
    assert re.search(r"^check: lint .*\n\t\$\(PYTEST\) tests/unit/", makefile, re.M), (
        "its tests are run with others"
    )
    recipes = [re.search(rf"^{name}: .*\n\t(.*)", makefile, re.M) for name in targets[1].split()]
    assert None not in recipes
    commands = [recipe[1].removeprefix("$(SPARE) ") for recipe in recipes if recipe]
    runs = [command.removeprefix("$(PYTEST) ") for command in commands if "$(PYTEST)" in command]
    # What one run leaves out of the simulator's tests, another one has.
    planted = "test_sim_mutations*"
    assert f'tests/sim tests/property --ignore-glob "*/{planted}"' in runs
    assert f"tests/sim/{planted}.py" in runs and any((ROOT / "tests/sim").glob(f"{planted}.py"))
    others = [run.partition(" --ignore-glob ")[0] for run in runs if not run.startswith("tests/sim/")]
    places = sorted(place for run in others for place in run.partition(" -m ")[0].split())
    there = {path.relative_to(ROOT).parts[1] for path in (ROOT / "tests").rglob("test_*.py")}
    assert places == sorted([*(f"tests/{place}" for place in there), "tests/spark"])
    assert {run for run in runs if "spark" in run} == {
        "tests/spark -m kills",
        'tests/spark -m "not kills and not clusters"',
    }
    assert re.search(r"^test-clusters: .*\n(\t.*\n)*\t\$\(PYTEST\) tests/spark -m clusters$", makefile, re.M)
