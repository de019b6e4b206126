"""Shared test set-up: the graphs of the exactly-once tests are importable everywhere; any order will do."""

from __future__ import annotations

import gc
import os
import random
import sys
import tempfile
from collections.abc import Generator, Iterator
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.servers"]

sys.path.insert(0, str(Path(__file__).parent / "spark" / "jobs"))

# The same examples in every run, however slow the machine: what fails here has its reason in the change at
# hand.  ``--hypothesis-profile=search`` looks for new ones.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", derandomize=True, **_PATIENT)
settings.register_profile("search", **_PATIENT)
settings.load_profile("steady")


MEMORY = Path("/dev/shm")
ROOM = 4 * 1024**3
"""Many times what all the tests leave there."""


def pytest_configure() -> None:
    """What tests write and sync is not kept: it is in memory, where that has room and may hold programs."""
    if not os.access(MEMORY, os.W_OK | os.X_OK):
        return
    about = os.statvfs(MEMORY)
    if about.f_bavail * about.f_frsize >= ROOM and not about.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="run files, and the tests of each, in a random order")


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("shuffle")
    return seed and f"shuffled with seed {seed}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests and all that they import stay to the end: nobody looks for garbage among them."""
    gc.disable()
    try:
        found = yield
    finally:
        gc.enable()
    gc.collect()
    gc.freeze()
    return found


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The tests of a file stay together, so that what it sets up for all of them is set up once."""
    seed = config.getoption("shuffle")
    if not seed:
        return
    chance = random.Random(seed)
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    chance.shuffle(files)
    for tests in files:
        chance.shuffle(tests)
    items[:] = [item for tests in files for item in tests]


@pytest.fixture
def quick_disk() -> Iterator[Path]:
    """A directory for files that are synced often and not kept: in memory, where there is such a place."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        yield Path(place)
