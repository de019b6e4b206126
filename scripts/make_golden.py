"""Makes the golden savepoint of the current snapshot format.

python scripts/make_golden.py

Writes ``tests/golden/format-N``: a savepoint of the job in ``tests/golden/golden_job.py`` and the output
that a job started from it must have.  Run it once, when a format becomes final; after that the directory
never changes, because people keep savepoints longer than they keep our version.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

from penstock.common import Configuration
from penstock.core.clock import SystemClock
from penstock.datastream import StreamExecutionEnvironment
from penstock.snapshot.manifest import FORMAT_VERSION
from penstock.testing.local import local_cluster

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
sys.path.insert(0, str(GOLDEN))

from golden_job import build, read_lines  # noqa: E402

_QUIET_S = 1.0
PARALLELISM = 2


def environment(work: Path) -> StreamExecutionEnvironment:
    """Small state goes to files too, so that the savepoint has both kinds of blobs."""
    config = Configuration()
    config.set_string("execution.checkpointing.interval", "50 ms")
    config.set_string("execution.checkpointing.dir", str(work / "chk"))
    config.set_string("execution.checkpointing.data-inline-threshold", "2 kb")
    config.set_string("pipeline.auto-watermark-interval", "5 ms")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(PARALLELISM).set_max_parallelism(16)
    return env


def until_quiet(directory: Path) -> None:
    """Wait until no more lines come."""
    clock = SystemClock()
    seen, since = -1, clock.monotonic()
    while clock.monotonic() - since < _QUIET_S:
        count = len(read_lines(directory)) if directory.exists() else -1
        if count != seen:
            seen, since = count, clock.monotonic()
        threading.Event().wait(0.05)


def make(target: Path, work: Path) -> None:
    """Run the job to its limit, stop it with a savepoint, and work out what is missing of its output."""
    env = environment(work)
    build(env, work / "full", None)
    env.execute("golden")
    env = environment(work)
    build(env, work / "before", work / "gate")
    client = env.execute_async("golden")
    until_quiet(work / "before")
    place = client.stop_with_savepoint(False, str(work / "savepoints")).result()
    remembered = Counter(f"remembered {number}" for number in range(0, 240, 20))
    expected = Counter(read_lines(work / "full")) - Counter(read_lines(work / "before")) + remembered
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(place.removeprefix("file://"), target / "savepoint")
    (target / "expected.txt").write_text("".join(f"{line}\n" for line in sorted(expected.elements())))
    print(f"{target}: {sum(path.stat().st_size for path in target.rglob('*') if path.is_file())} bytes")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, local_cluster():
        make(GOLDEN / f"format-{FORMAT_VERSION}", Path(scratch))
