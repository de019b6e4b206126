"""Which modules go to executors, and what becomes of the files they travel in."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from penstock.luggage.archives import members
from penstock.luggage.found import user_modules
from penstock.spark import shipping
from penstock.spark.shipping import PREFIX, place_of


@pytest.fixture
def imports_at_any_moment() -> Iterator[None]:
    """Modules appear while others look at them, as when a thread of another job imports something."""
    numbers = itertools.count()
    added: list[str] = []

    def add(phase: str, info: dict[str, int]) -> None:
        added.append(f"penstock_test_import_{next(numbers)}")
        sys.modules[added[-1]] = ModuleType(added[-1])

    threshold = gc.get_threshold()
    gc.callbacks.append(add)
    gc.set_threshold(10)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(add)
        for name in added:
            sys.modules.pop(name, None)
        assert added, "nothing was imported on the way"


def test_modules_may_be_imported_while_they_are_listed(imports_at_any_moment: None) -> None:
    found = [path for one in user_modules() for path in one.paths]
    assert Path(__file__).resolve() in found
    assert not [path for path in found if path.name in ("pyarrow", "penstock")]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where this process and those it starts put temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(shipping, "_places", {})
    yield tmp_path
    place_of("no application")
    for place in shipping._places.values():
        place.remove()


def test_the_files_of_an_application_are_gone_once_there_is_another(temporary: Path) -> None:
    first = place_of("app-1")
    assert place_of("app-1") == first and first.is_dir()
    second = place_of("app-2")
    assert second.is_dir() and not first.exists()
    assert list(temporary.glob(f"{PREFIX}*")) == [second]


def test_a_package_travels_as_an_archive_that_only_its_owner_reads(temporary: Path) -> None:
    before = os.umask(0)
    try:
        source = Path(shipping.__file__).parent
        packed, _ = shipping._packed(list(members(source, source.name)), "spark", "app")
    finally:
        os.umask(before)
    assert "spark/shipping.py" in zipfile.ZipFile(packed).namelist()
    own = [temporary / packed.relative_to(temporary).parts[0], packed.parent, packed]
    assert [stat.S_IMODE(path.stat().st_mode) for path in own] == [0o700, 0o700, 0o600]
    assert shipping._packed(list(members(source, source.name)), "spark", "app")[0] == packed, "once"


_PROGRAM = """
import sys
from penstock.spark.shipping import place_of
print(place_of("app"), flush=True)
sys.stdin.read()
"""


def started(temporary: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    place = Path(process.stdout.readline().strip())
    assert place.parent == temporary and place.is_dir()
    return process, place


def test_a_program_that_ends_leaves_nothing(temporary: Path) -> None:
    process, place = started(temporary)
    process.communicate("")
    assert process.returncode == 0 and not place.exists()


def test_what_a_killed_program_left_is_removed_at_the_next_start(temporary: Path) -> None:
    killed, left = started(temporary)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert left.is_dir()
    alive, place = started(temporary)
    assert not left.exists()
    third, other = started(temporary)
    assert place.is_dir() and other.is_dir(), "those of a process that lives stay"
    for process in (alive, third):
        process.communicate("")
    assert not list(temporary.glob(f"{PREFIX}*"))
