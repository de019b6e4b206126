"""The examples as they are, started without an argument; and PyFlink's own.

Each needs a Spark session, and to start one takes longer than most examples.  So one is started as a user
would, in an empty directory, and the others one after the other in one process, in the root directory.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import ROOT, run
from pyflink_examples import EXPECTED, ported, summary

pytestmark = pytest.mark.spark

EXAMPLES = ROOT / "examples"
ALONE = {"savepoints/bootstrap.py"}
WITHOUT_SPARK = {"testing/session_bug.py"}
"""In ``tests/sim/test_sim_guide.py``."""
TOGETHER = sorted(
    {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")} - ALONE - WITHOUT_SPARK
)
TOLD = {
    "deduplication.py": "('c', 5000)",
    "enrichment.py": "{'country': 'de', 'user': 1, 'name': 'ann', 'currency': 'EUR'}",
    "frames_totals.py": "totals are in ",
    "hourly_counts.py": 'alerts: {"country":"de","hour":0,"clicks":3}',
    "online_regression.py": "house-1",
    "sensor_alert.py": "celsius",
    "sensor_average.py": "('cellar', 12.0)",
    "session_counts.py": "alert",
    "slowly_changing.py": "{'customer': 2, 'euros': 9.0, 'country': 'ca'}",
    "temperature_pattern.py": "boiler: from 61.0 to 83.0 within 41 s",
    "top_n.py": "(1200000, [('jam', 1)])",
    "windowed_counts.py": "alert",
    "savepoints/ab.py": "79 results are the same, 1 differ",
    "savepoints/engine_upgrade.py": "went on to the same 77 results",
    "savepoints/migrate.py": "200 orders, each counted once, on 1 slot and then on 3",
    "savepoints/shop_job.py": "bob 957 0",
    "savepoints/shop_job_generous.py": "bob 957 9",
    "savepoints/upgrade.py": "the fixed code knew the totals of the old one",
    "savepoints/what_if.py": "79 the same, 1 only from shop_job.py, 1 only from shop_job_generous.py",
}
"""A part of what each prints, which it does not print before it has done what it is for."""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The output of all programs that were run together, by name."""
    work = tmp_path_factory.mktemp("examples")
    programs = {name: EXAMPLES / name for name in TOGETHER}
    try:
        for example in EXPECTED:
            programs[example] = work / f"{Path(example).name}.py"
            programs[example].write_text(ported(example), encoding="utf-8")
    except pytest.skip.Exception:  # only those which are PyFlink's are to be skipped
        programs = {name: EXAMPLES / name for name in TOGETHER}
    (work / "out").mkdir()
    run(work, "programs.py", work / "out", *programs.values(), cwd=Path("/"))
    return {name: (work / "out" / str(number)).read_text() for number, name in enumerate(programs)}


@pytest.mark.parametrize("example", TOGETHER)
def test_an_example_does_what_it_is_for(example: str, printed: dict[str, str]) -> None:
    if example == "savepoints/shop.py":
        assert printed[example] == "", "it is the module that the others share"
    else:
        assert TOLD[example] in printed[example]


@pytest.mark.parametrize("example", EXPECTED)
def test_pyflinks_examples(example: str, printed: dict[str, str]) -> None:
    if example not in printed:
        ported(example)
    assert summary(printed[example]) == EXPECTED[example], printed[example]


def test_a_session_of_ones_own_in_an_empty_directory(tmp_path: Path) -> None:
    """Its workers run the Python of the program, which need not be the first on the path."""
    empty = tmp_path / "empty"
    empty.mkdir()
    environment = {"PYSPARK_PYTHON": None}
    driver = run(tmp_path, str(EXAMPLES / "savepoints" / "bootstrap.py"), env=environment, cwd=empty)
    assert "|ann|    2|" in driver.lines
    assert driver.text.rstrip().endswith("ann: 3\ncy: 1")
    assert not list(empty.iterdir())
