"""What ``luggage.py`` needs, made on the spot, and what its jobs must have seen of it."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from drivers import Driver

from tests.wheels import archive, compiled_files, wheel, write_files


def pack_up(work: Path) -> None:
    """What ``luggage.py`` needs."""
    shelf = "from pathlib import Path\nwords = lambda: Path(__file__).with_name('words.txt').read_text()\n"
    code: dict[str, bytes | str] = {
        "code/shelf/__init__.py": shelf,
        "code/shelf/words.txt": "words",
        "code/later.py": "NAME = 'later'\n",
        "code/planet/earth.py": "NAME = 'earth'\n",
        "more/planet/mars.py": "NAME = 'mars'\n",
        "files/given.py": "NAME = 'given'\n",
        "requirements.txt": "needed==1.0\n",
        "count.txt": "tar",
    }
    code |= {f"code/{name}": data for name, data in compiled_files("quick").items()}
    write_files(work, code)
    wheel(work / "files", "swift", compiled_files("swift"))
    wheel(work / "wheels", "needed", {"needed.py": b"NAME = 'needed'\n"})
    for stock in ("first", "second"):
        (work / stock).mkdir()
        archive(work / stock / "stock.zip", {"count.txt": stock})
    with tarfile.open(work / "other.tar.gz", "w:gz") as made:
        made.add(work / "count.txt", "count.txt")


def lines(driver: Driver, job: str) -> list[dict[str, Any]]:
    """What the two slots of a job saw."""
    start = f"seen {job} "
    return [json.loads(line.removeprefix(start)) for line in driver.lines if line.startswith(start)]


def check(driver: Driver, work: Path, by_path: bool) -> None:
    """All is there, and from where it should be; a later job gets what is there then."""
    for job in ("STREAMING first", "BATCH second"):
        edited = not job.endswith("first")
        found = lines(driver, job)
        assert sorted(one.pop("number") for one in found) == [1, 2], driver.text
        for one in found:
            origins = one.pop("origins")
            assert one == {
                "data": "edited" if edited else "words",
                "namespace": ["earth", "mars"],
                "compiled": "&lt;",
                "wheel": "&gt;",
                "requirement": "needed",
                "file": "given anew" if edited else "given",
                "neighbour": "later",
                "archive": job.split()[1],
                "target": "tar",
            }
            own = {"shelf": "code/shelf", "quick": "code/quick", "planet.mars": "more/planet"}
            for name, place in own.items():
                assert (origins[name] == str(work / place)) is by_path, origins
            assert "packages-" in origins["needed"]
    assert not list((work / "tmp").glob("**/penstock-luggage")), "what was unpacked goes with the application"
    assert not list((work / "tmp").glob("penstock-ship-*"))
