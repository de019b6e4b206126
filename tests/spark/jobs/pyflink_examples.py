"""PyFlink's own example programs, taken from its wheel when they are needed; none of them is kept here.

``pyflink_examples.json`` has what PyFlink 2.3 printed for each: how many lines, a digest of them, and whether
a line begins with the number of its subtask.  Which subtask prints a line and in which order is left out.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

VERSION = "2.3.0"
CACHE = Path(__file__).resolve().parents[3] / ".cache" / "pyflink"
EXPECTED: dict[str, dict[str, object]] = json.loads(Path(__file__).with_suffix(".json").read_text())
_PREFIX = re.compile(r"\d+> ")
_IMPORT = re.compile(r"^(from|import) pyflink\b", re.MULTILINE)


def wheel() -> Path:
    """The wheel, downloaded once; the test is skipped if it cannot be had."""
    found = sorted(CACHE.glob(f"apache_flink-{VERSION}-*.whl"))
    if not found:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        try:
            subprocess.run(
                [*download, "--dest", str(CACHE), f"apache-flink=={VERSION}"],
                check=True,
                capture_output=True,
                timeout=300,
            )
        except (subprocess.SubprocessError, OSError):
            pytest.skip(f"pip cannot download the wheel of apache-flink {VERSION}, which has the examples")
        found = sorted(CACHE.glob(f"apache_flink-{VERSION}-*.whl"))
    return found[0]


def ported(example: str) -> str:
    """The source of an example with nothing but its imports changed."""
    with zipfile.ZipFile(wheel()) as archive:
        source = archive.read(f"pyflink/examples/datastream/{example}.py").decode()
    return _IMPORT.sub(r"\1 penstock", source)


def summary(output: str) -> dict[str, object]:
    """What ``pyflink_examples.json`` has for an output."""
    plain = sorted(plain_lines(output))
    return {
        "lines": len(plain),
        "numbered": any(_PREFIX.match(line) for line in output.splitlines()),
        "digest": hashlib.blake2b("\n".join(plain).encode(), digest_size=16).hexdigest(),
    }


def plain_lines(output: str) -> list[str]:
    """The lines of an output without the numbers of subtasks."""
    return [_PREFIX.sub("", line, count=1) for line in output.splitlines() if line]
