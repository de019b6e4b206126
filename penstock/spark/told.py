"""What Spark was told: by its session, and from outside.

Of a session one setting is asked in one call: PySpark's ``getConf()`` copies all settings, each in a call of
its own to the JVM and back, which took a job's start a tenth of a second.

What spark-submit, the environment and ``spark-defaults.conf`` say is read before there is a JVM, in Spark's
own order, because a setting that a program puts into its session wins over all of them, in silence.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.core.config import GIVEN_MASTER as MASTER


def told(spark: SparkSession, key: str, default: str) -> str:
    """A setting of the session's application, or ``default``."""
    return str(spark.sparkContext._jsc.sc().conf().get(key, default))


def is_on(spark: SparkSession, key: str) -> bool:
    """Whether a switch, off unless told, is on."""
    return told(spark, key, "false").lower() == "true"


_LINE = re.compile(r"\s*([^\s=:#!]+)\s*[=:\s]\s*(.*?)\s*$")


def given_settings(environ: Mapping[str, str], spark_home: Path) -> dict[str, str]:
    """Spark's settings from outside, for a program that was not started by spark-submit."""
    asked, properties = _submit_args(environ.get("PYSPARK_SUBMIT_ARGS", ""))
    directory = Path(environ.get("SPARK_CONF_DIR") or spark_home / "conf")
    file = Path(properties) if properties else directory / "spark-defaults.conf"
    found = _properties(file) | asked
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


def _properties(file: Path) -> dict[str, str]:
    """The settings of a Java properties file, as ``spark-defaults.conf`` uses them: one a line."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    matches = [_LINE.match(line) for line in lines if not line.lstrip().startswith(("#", "!"))]
    return {found[1]: found[2] for found in matches if found and found[1].startswith("spark.")}
