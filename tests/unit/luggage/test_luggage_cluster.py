"""From a driver to a worker of another machine, with a directory in the place of Spark's files."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.luggage.wishes import Wishes
from penstock.spark import shipping
from tests.wheels import archive, compiled_files, wheel, write_files

LOOK = """
import sys
sys.path.insert(1, {engine!r})
from penstock.luggage.arrival import carrying
with carrying(sys.argv[1], "."):
    import pc_shelf, pc_quick, pc_ns.one, pc_ns.two, pc_swift, pc_zipped, pc_given
    print(pc_shelf.words(), pc_quick.escaped("<"), pc_ns.one.NAME, pc_ns.two.NAME, pc_swift.escaped(">"),
          pc_zipped.NAME, pc_given.NAME)
    mine = [pc_shelf, pc_quick, pc_ns.one, pc_ns.two, pc_swift, pc_zipped, pc_given]
    assert all(module.__file__.startswith({place!r}) for module in mine), mine
"""


class Sending:
    """What gets a file to the one executor."""

    application = "app"

    def __init__(self, executor: Path) -> None:
        self._executor = executor

    def __call__(self, path: Path) -> str:
        shutil.copy2(path, self._executor / path.name)
        return path.name


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Packages of all kinds on the driver's path, and loaded."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(shipping, "_places", {})
    words = "from pathlib import Path\nwords = lambda: Path(__file__).with_name('words.txt').read_text()\n"
    write_files(tmp_path / "code", {"pc_shelf/__init__.py": words, "pc_shelf/words.txt": "words"})
    write_files(tmp_path / "code", {"pc_ns/one.py": "NAME = 1\n", **compiled_files("pc_quick")})
    write_files(tmp_path / "more", {"pc_ns/two.py": "NAME = 2\n"})
    write_files(tmp_path / "given", {"pc_given.py": "NAME = 'given'\n"})
    zipped = archive(tmp_path / "lib.zip", {"pc_zipped.py": "NAME = 'zipped'\n"})
    before, path = set(sys.modules), list(sys.path)
    sys.path[1:1] = [str(tmp_path / "code"), str(tmp_path / "more"), str(zipped)]
    for name in ("pc_shelf", "pc_quick", "pc_ns.one", "pc_ns.two", "pc_zipped"):
        importlib.import_module(name)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]
    shipping.place_of("none")
    for place in shipping._places.values():
        place.remove()


def test_all_kinds_of_packages_arrive_whole(driver: Path) -> None:
    executor, own = driver / "executor", driver / "executor" / "blockmgr"
    own.mkdir(parents=True)
    swift = wheel(driver, "pc_swift", compiled_files("pc_swift"))
    wishes = Wishes((str(swift), str(driver / "given" / "pc_given.py")))
    luggage = shipping._by_parcels(Sending(executor), wishes)  # type: ignore[arg-type]
    shutil.rmtree(driver / "code")
    shutil.rmtree(driver / "more")
    engine = str(Path(penstock.__file__).parents[1])
    code = LOOK.format(engine=engine, place=str(own))
    environment = {**os.environ, "SPARK_LOCAL_DIRS": str(own), "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code, luggage.to_json()],
        cwd=executor,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["words", "&lt;", "1", "2", "&gt;", "zipped", "given"], done.stderr
