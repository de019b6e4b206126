"""What Spark is told from outside: by spark-submit, the environment and ``spark-defaults.conf``.

Read before there is a JVM, in Spark's own order, because a setting that a program puts into its session wins
over all of them, in silence.  Needs no PySpark.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from penstock.core.config import GIVEN_MASTER as MASTER

DEFAULTS = "spark-defaults.conf"
_LINE = re.compile(r"\s*([^\s=:#!]+)\s*[=:\s]\s*(.*?)\s*$")


def given_settings(environ: Mapping[str, str], spark_home: Path) -> dict[str, str]:
    """Spark's settings from outside, for a program that was not started by spark-submit."""
    asked, properties = _submit_args(environ.get("PYSPARK_SUBMIT_ARGS", ""))
    directory = Path(environ.get("SPARK_CONF_DIR") or spark_home / "conf")
    file = Path(properties) if properties else directory / DEFAULTS
    found = dict[str, str]()
    with suppress(OSError):
        found |= spark_properties(file)
    found |= asked
    if MASTER not in found and environ.get("MASTER"):
        found[MASTER] = environ["MASTER"]
    return found


def is_submitted(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether spark-submit started this program: its JVM is there, and has all settings."""
    return "PYSPARK_GATEWAY_PORT" in environ


def _submit_args(text: str) -> tuple[dict[str, str], str | None]:
    """Settings on the command line that PySpark will give to spark-submit, and the file it names."""
    found: dict[str, str] = {}
    named: str | None = None
    words = iter(shlex.split(text))
    for word in words:
        option, equals, value = word.partition("=")
        if option not in ("--master", "--name", "--conf", "-c", "--properties-file"):
            continue
        value = value if equals else next(words, "")
        if option == "--master":
            found[MASTER] = value
        elif option == "--name":
            found["spark.app.name"] = value
        elif option == "--properties-file":
            named = value
        else:
            key, _, setting = value.partition("=")
            found[key.strip()] = setting.strip()
    return found, named


def spark_properties(file: Path) -> dict[str, str]:
    """Spark's settings in a file of Java properties, as Spark's own defaults are: one a line."""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    matches = [_LINE.match(line) for line in lines if not line.lstrip().startswith(("#", "!"))]
    return {found[1]: found[2] for found in matches if found and found[1].startswith("spark.")}
