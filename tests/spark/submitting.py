"""What tests of cluster managers hand to spark-submit: a module, and an archive of an environment."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

import pyspark
from drivers import JOBS

LINE = "exactly-once: ok events=20000 lost=0 duplicated=0 crashes=1"
DEMO = [str(JOBS / "submitted.py"), "demo", "--events", "20000"]


def packed_module(work: Path) -> Path:
    """For ``--py-files``: the module that ``submitted.py`` imports."""
    target = work / "submitted_words.zip"
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("submitted_words/__init__.py", 'WORD = "from --py-files"\n')
    return target


def packed_environment(work: Path) -> Path:
    """For ``--archives``: as venv-pack makes it, but that its packages and interpreter are links."""
    target = work / "environment.tar.gz"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_prefix) / "bin" / version
    (work / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    with tarfile.open(target, "w:gz") as archive:
        archive.add(work / "pyvenv.cfg", "pyvenv.cfg")
        packages = Path(pyspark.__file__).parents[1]
        for name, leads_to in (("bin/python", base), (f"lib/{version}/site-packages", packages)):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, str(leads_to)
            archive.addfile(link)
    return target


def strangers(said: list[str]) -> list[str]:
    """What slots told, where it is not what spark-submit brought; also that not both of them told."""
    told = [line for line in said if line.startswith("slot ")]
    wrong = [line for line in told if "from --py-files" not in line or not line.endswith("/environment")]
    return wrong if len(told) == 2 else said
