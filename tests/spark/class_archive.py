"""Spark's classes, loaded and verified once for all the JVMs that the tests start.

That is most of what a short-lived JVM does.  An archive of class data (CDS) has them ready; it is made by a
program that does a little of everything, when the first test asks for it, and kept for later runs.  A JVM
that cannot use it (another class path, another version) goes on without.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pyspark

from penstock.spark import launcher
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "jobs" / "warm.py"
KEPT = ROOT / ".cache" / "classes"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:cds=off -Xlog:cds+dynamic=off"
"""Short lives: neither the best compiler nor a parallel collector pays."""


def quick_options() -> str:
    """Options for ``JDK_JAVA_OPTIONS`` with which a JVM of Spark starts quickly."""
    archive = _archive()
    return QUICK if archive is None else f"{QUICK} -XX:SharedArchiveFile={archive}"


def quiet_environment(work: Path, options: str | None = None) -> dict[str, str]:
    """Spark's settings without a directory on the class path, where an archive could not be used."""
    log = Path(launcher.__file__).parent / "conf" / "log4j2.properties"
    given = os.environ.get("JDK_JAVA_OPTIONS", "") if options is None else options
    java = f"{given} -Dlog4j2.configurationFile={log}".strip()
    return {"SPARK_CONF_DIR": str(work / "no-conf"), "JDK_JAVA_OPTIONS": java}


def _archive() -> Path | None:
    """The archive for this Java and this Spark; made if it is not there yet, ``None`` if that fails."""
    said = subprocess.run(["java", "-version"], capture_output=True, check=False)
    if said.returncode:
        return None
    kind = hashlib.sha256(said.stderr + pyspark.__version__.encode() + pyspark.__file__.encode())
    target = KEPT / f"{kind.hexdigest()[:16]}.jsa"
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _make(target)
    return target if target.exists() else None


def _make(target: Path) -> None:
    part = target.with_suffix(".part")
    part.unlink(missing_ok=True)
    environment = {
        **os.environ,
        **quiet_environment(KEPT, QUICK),
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--driver-java-options -XX:ArchiveClassesAtExit={part} pyspark-shell",
    }
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [sys.executable, str(PROGRAM)],
            env=environment,
            capture_output=True,
            check=False,
            timeout=PATIENCE_S,
        )
    if part.exists():
        part.rename(target)
