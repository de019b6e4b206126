"""A long run of one job on Spark, with kills: nothing is lost, nothing grows.

``python scripts/soak.py --hours 1`` keeps a job with keyed state, windows, timers, frequent checkpoints and
a two-phase sink at work.  Python workers and executors are killed all the time; the whole driver only in
the first quarter, so that the one that is watched afterwards is old.  Meanwhile memory, threads,
descriptors, files, journal and manifest are sampled, and every line of the output is ticked off.  Topics
and checkpoints are bounded by retention, so the run needs a few dozen megabytes of disk however long it
lasts.  Ends with 1 if anything was lost, doubled, wrong, or grew (``soak_growth.py`` says how that is told).
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SPARK_TESTS = ROOT / "tests" / "spark"
sys.path[:0] = [str(ROOT), str(SPARK_TESTS), str(SPARK_TESTS / "jobs"), str(ROOT / "scripts")]

from class_archive import quick_options  # noqa: E402
from drivers import Driver  # noqa: E402
from processes import command_line, executors, is_daemon, kill  # noqa: E402
from soak_growth import judge  # noqa: E402
from soak_job import PARALLELISM  # noqa: E402
from soak_ledger import Ledger  # noqa: E402
from soak_sample import ALLOWED, is_java, sample, session  # noqa: E402

from penstock.connectors.log import Consumer, Log  # noqa: E402

JOB = ROOT / "scripts" / "soak_job.py"
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
PATIENCE_S = 300.0
LOOK_S = 0.5
WARM_UP = 0.25
DRIVER_KILLS = 2
RETENTION_BYTES = 512 << 10


class Soak:
    """The run: what is done to the job, and what is seen of it."""

    def __init__(self, master: str, work: Path, seed: int, say: Callable[[str], None]) -> None:
        self.samples: list[dict[str, float]] = []
        self.ledger = Ledger(PARALLELISM)
        self.kills = 0
        self._master = master
        self._work = work
        self._rng = random.Random(seed)
        self._say = say
        topic = Log(work / "log").create_topic(
            "out", PARALLELISM, retention_bytes=RETENTION_BYTES, segment_bytes=RETENTION_BYTES // 8
        )
        self._output = Consumer(topic)
        self._driver = self._start()

    def run(self, seconds: float, every_s: float, kill_every_s: float) -> None:
        """Sample and kill for so long; then let the job stop by itself, and read what is left.

        The time that new drivers take to start does not count.
        """
        began = time.monotonic()
        next_sample, next_kill = 0.0, kill_every_s
        drivers = [seconds * WARM_UP * (n + 1) / (DRIVER_KILLS + 1) for n in range(DRIVER_KILLS)]
        while (now := time.monotonic() - began) < seconds:
            self._read()
            if now >= next_sample:
                self._sample(now)
                next_sample = now + every_s
            if drivers and now >= drivers[0]:
                drivers.pop(0)
                self._kill_driver()
                began = time.monotonic() - now
            elif now >= next_kill:
                self._kill_worker()
                next_kill = now + kill_every_s * self._rng.uniform(0.5, 1.5)
            time.sleep(LOOK_S)
        (self._work / "stop").touch()
        self._driver.wait_for("stopped", PATIENCE_S)
        self._driver.finish(PATIENCE_S)
        self._read()

    def close(self) -> None:
        """End whatever is left."""
        self._driver.__exit__()

    # --- what is done ---------------------------------------------------------------------------

    def _start(self) -> Driver:
        driver = Driver(self._work, str(JOB), self._master, self._work)
        try:
            driver.wait_for("published", PATIENCE_S)
        except BaseException:
            driver.__exit__()
            raise
        return driver

    def _kill_worker(self) -> None:
        """A Python worker or the daemon that forks them, or now and then an executor."""
        root = self._driver.process.pid
        python = [pid for pid in session(root) if is_daemon(command_line(pid)) and not is_java(pid)]
        found = executors(root) if self._rng.random() < 0.2 else []
        if found or python:
            kill(self._rng.choice(found or python))
            self.kills += 1

    def _kill_driver(self) -> None:
        self._driver.kill_all()
        self._driver.__exit__()
        self.kills += 1
        self._driver = self._start()

    # --- what is seen ---------------------------------------------------------------------------

    def _read(self) -> None:
        while found := self._output.poll():
            for _, batch in found:
                for value in batch.column("value").to_pylist():
                    self.ledger.add(value.decode())

    def _sample(self, at_s: float) -> None:
        if self._driver.process.poll() is not None:
            raise RuntimeError(f"the program has ended; it printed:\n{self._driver.text}")
        found = sample(self._driver.process.pid, self._work)
        if found is None:
            return
        if not self.samples:
            self._say(" ".join(f"{name:>16}" for name in ("seconds", "lines", "kills", *found)))
        seen = {"seconds": at_s, "lines": self.ledger.lines, "kills": self.kills, **found}
        self.samples.append(seen)
        self._say(" ".join(f"{value:>16.0f}" for value in seen.values()))

    # --- what came of it ------------------------------------------------------------------------

    def verdicts(self) -> tuple[list[str], bool]:
        """A line for each thing that was looked at, and whether all is well."""
        lines, fine = [], True
        for name, allowance in ALLOWED.items():
            verdict = judge([seen[name] for seen in self.samples], allowance)
            if verdict is None:
                return [f"{len(self.samples)} samples are too few to tell growth"], False
            fine = fine and not verdict.grows
            word = "GROWS" if verdict.grows else "steady"
            lines.append(
                f"{name:17}{verdict.before:>12.1f}{verdict.after:>12.1f}{verdict.trend:>8.2f}  {word}"
            )
        header = f"{'':17}{'before':>12}{'after':>12}{'trend':>8}"
        return [header, *lines], fine


def write_csv(samples: list[dict[str, float]], file: Path) -> None:
    """All samples, for whoever wants to draw them."""
    file.parent.mkdir(exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(samples[0]) if samples else [])
        writer.writeheader()
        writer.writerows({name: round(value, 1) for name, value in seen.items()} for seen in samples)


def main(arguments: list[str] | None = None) -> int:
    """Read the command line and soak; 1 if a record is not right or something grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="0.05 are three minutes")
    parser.add_argument("--kill-every", type=float, default=20.0, metavar="S", help="seconds between kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", default=LOCAL_CLUSTER)
    options = parser.parse_args(arguments)
    os.environ["JDK_JAVA_OPTIONS"] = quick_options()
    seconds = options.hours * 3600
    file = ROOT / ".soak" / f"soak-{time.strftime('%Y%m%d-%H%M%S')}.csv"
    with tempfile.TemporaryDirectory(prefix="penstock-soak-", ignore_cleanup_errors=True) as name:
        soak = Soak(options.master, Path(name), options.seed, lambda text: print(text, flush=True))
        try:
            soak.run(seconds, min(max(seconds / 240, 2.0), 30.0), options.kill_every)
        finally:
            soak.close()
            write_csv(soak.samples, file)
    lines, steady = soak.verdicts()
    ledger = soak.ledger
    print("\n".join(lines))
    print(f"samples in {file.relative_to(ROOT)}")
    print(
        f"lines={ledger.lines} kills={soak.kills} lost={ledger.lost} duplicated={ledger.duplicated} "
        f"wrong={ledger.wrong}",
        flush=True,
    )
    return 0 if steady and not (ledger.lost or ledger.duplicated or ledger.wrong) else 1


if __name__ == "__main__":
    # A terminated run cleans up like an interrupted one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
