"""A savepoint that an older Penstock wrote, started with this one.

python engine_upgrade.py [DIRECTORY]
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.snapshot.manifest import FORMAT_VERSION
from penstock.snapshot.recovery import read_manifest

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
sys.path.insert(0, str(GOLDEN))

from golden_job import build, read_lines  # noqa: E402
from shop import working_directory  # noqa: E402


def main(work: Path) -> None:
    """Every format there ever was, from its golden savepoint to its golden output."""
    for version in range(1, FORMAT_VERSION + 1):
        kept = GOLDEN / f"format-{version}"
        savepoint = Path(shutil.copytree(kept / "savepoint", work / f"savepoint-{version}"))
        manifest = read_manifest(str(savepoint)).manifest
        config = Configuration()
        config.set_string("execution.state-recovery.path", str(savepoint))
        env = StreamExecutionEnvironment.get_execution_environment(config)
        build(env.set_parallelism(2), work / f"out-{version}", None)
        env.execute("golden")
        lines = read_lines(work / f"out-{version}")
        assert lines == (kept / "expected.txt").read_text().splitlines()
        print(
            f"format {manifest.format_version}, written by Penstock {manifest.penstock_version}: went on to "
            f"the same {len(lines)} results"
        )


if __name__ == "__main__":
    main(working_directory())
