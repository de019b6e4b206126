"""A soak on real Spark: rounds of a job, each disturbed at a random moment, each checked to the record.

``python scripts/chaos.py --minutes 10 --seed 1`` plays all kinds of trouble in random order; the same seed
plays the same ones.  A round is over when the job has ended; its files and its log must then hold exactly
the golden output.  Recovery is the time from the trouble (for a full disk: from its end) to the first
snapshot that the job publishes after it.  Cutting the network is not among the kinds: that needs firewall
rules for the whole machine, and the simulation loses connections far more often.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SPARK_TESTS = ROOT / "tests" / "spark"
sys.path[:0] = [str(ROOT), str(SPARK_TESTS), str(SPARK_TESTS / "jobs"), str(ROOT / "scripts")]

from chaos_job import HEARTBEAT_TIMEOUT_S  # noqa: E402
from drivers import Driver  # noqa: E402
from flow_graphs import keyed_golden, read_log, read_text  # noqa: E402
from processes import executors, kill  # noqa: E402
from progress import COUNT  # noqa: E402

JOB = ROOT / "scripts" / "chaos_job.py"
PUBLISHED = re.compile(r"round (\d+) published \d+ generation (\d+)")
PATIENCE_S = 180.0
LONGEST_MOMENT_S = 1.5
FULL_S = 1.5
DISK_BYTES = 8 << 20
KINDS = ("worker", "executor", "driver", "pause", "disk")


class Soak:
    """Rounds and trouble, and what came of them."""

    def __init__(
        self, master: str, work: Path, seed: int, kinds: list[str], say: Callable[[str], None]
    ) -> None:
        self.kills = 0
        self.recoveries_s: list[float] = []
        self.lost = 0
        self.duplicated = 0
        self._master = master
        self._work = work
        self._rng = random.Random(seed)
        self._kinds = kinds
        self._say = say
        self._next: list[str] = []
        self._number = 0
        self._driver: Driver
        self._trouble: dict[str, Callable[[], float]] = {
            "worker": self._kill_worker,
            "executor": self._kill_executor,
            "driver": self._kill_driver,
            "pause": self._pause_worker,
            "disk": self._fill_disk,
        }

    def run(self, minutes: float, rounds: int | None) -> None:
        """Rounds, until time or number is reached; the last one is finished."""
        deadline = time.monotonic() + minutes * 60
        self._start_driver()
        try:
            while time.monotonic() < deadline and (rounds is None or self._number < rounds):
                self._play_round()
                self._number += 1
            (self._work / "stop").touch()
            self._gate().touch()
            self._driver.finish()
        finally:
            self._driver.__exit__()

    @property
    def summary(self) -> str:
        """One line."""
        times = self.recoveries_s or [0.0]
        return (
            f"kills={self.kills} recoveries={len(self.recoveries_s)} "
            f"median_recovery_s={statistics.median(times):.2f} worst_recovery_s={max(times):.2f} "
            f"lost={self.lost} duplicated={self.duplicated}"
        )

    def _play_round(self) -> None:
        kind = self._choose()
        generation = self._until_published(lambda _: True)
        time.sleep(self._rng.uniform(0, LONGEST_MOMENT_S))
        self.kills += 1
        began = self._trouble[kind]()
        self._until_published(self._is_after(kind, generation))
        self.recoveries_s.append(time.monotonic() - began)
        self._gate().touch()
        self._driver.wait_for(f"round {self._number} done", PATIENCE_S)
        lost, duplicated = self._compare()
        self._say(
            f"round {self._number}: {kind}, recovered in {self.recoveries_s[-1]:.2f} s, "
            f"lost={lost} duplicated={duplicated}"
        )
        shutil.rmtree(self._out())

    def _choose(self) -> str:
        """Every kind once, in random order; then again."""
        if not self._next:
            self._next = self._rng.sample(self._kinds, len(self._kinds))
        return self._next.pop()

    def _is_after(self, kind: str, generation: int) -> Callable[[int], bool]:
        """Which snapshots show that the job is back: of a new attempt, unless none was needed."""
        if kind != "disk":
            return lambda found: found > generation
        seen = len(self._generations())
        return lambda found: len(self._generations()) > seen

    def _compare(self) -> tuple[int, int]:
        """Output against golden, both sinks; adds to the totals."""
        golden = Counter(keyed_golden(COUNT))
        lost = duplicated = 0
        for lines in (read_text(self._out() / "file"), read_log(self._out() / "log")):
            found = Counter(lines)
            lost += (golden - found).total()
            duplicated += (found - golden).total()
        self.lost += lost
        self.duplicated += duplicated
        return lost, duplicated

    # --- the program --------------------------------------------------------------------------

    def _start_driver(self) -> None:
        self._driver = Driver(self._work, str(JOB), self._master, self._work, self._number)

    def _out(self) -> Path:
        return self._work / f"round-{self._number}"

    def _gate(self) -> Path:
        return self._work / f"gate-{self._number}"

    def _generations(self) -> list[int]:
        """Generation of each snapshot that the running driver has published in this round."""
        found = [PUBLISHED.match(line) for line in list(self._driver.lines)]
        return [int(match[2]) for match in found if match and int(match[1]) == self._number]

    def _workers(self) -> list[int]:
        """Processes that the slots of this round are in; the round was not disturbed yet."""
        start = f"round {self._number} worker "
        self._driver.wait_for(start, PATIENCE_S)
        return [int(line.split()[-1]) for line in list(self._driver.lines) if line.startswith(start)]

    def _until_published(self, wanted: Callable[[int], bool]) -> int:
        """The generation of the newest snapshot, once it is one that is waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self._driver.process.poll() is None:
            newest = self._generations()[-1:]
            if newest and wanted(newest[0]):
                return newest[0]
            time.sleep(0.01)
        raise RuntimeError(f"round {self._number} does not go on; the program printed:\n{self._driver.text}")

    # --- trouble: each gives the time from which recovery counts --------------------------------

    def _kill_worker(self) -> float:
        kill(self._rng.choice(self._workers()))
        return time.monotonic()

    def _kill_executor(self) -> float:
        kill(self._rng.choice(executors(self._driver.process.pid)))
        return time.monotonic()

    def _kill_driver(self) -> float:
        self._driver.kill_all()
        began = time.monotonic()
        self._driver.__exit__()
        self._start_driver()
        return began

    def _pause_worker(self) -> float:
        """Silent for longer than the driver waits; then it wakes up and finds itself replaced."""
        pid = self._rng.choice(self._workers())
        began = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(HEARTBEAT_TIMEOUT_S + self._rng.uniform(1, 3))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return began

    def _fill_disk(self) -> float:
        """No snapshot can be written for a while; what the job frees meanwhile is taken as well."""
        ballast = self._work / "checkpoints" / "ballast"
        deadline = time.monotonic() + FULL_S
        with ballast.open("wb", buffering=0) as file:
            while time.monotonic() < deadline:
                try:
                    file.write(b"\0" * 4096)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    time.sleep(0.01)
        ballast.unlink()
        return time.monotonic()


@contextlib.contextmanager
def small_disk(directory: Path, wanted: bool) -> Iterator[bool]:
    """A file system of a few megabytes at ``directory``, if it is wanted and allowed here."""
    directory.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)]
    mounted = False
    if wanted and shutil.which("mount"):
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(directory)], check=True)


def possible(kinds: list[str], master: str, mounted: bool) -> Iterator[str]:
    """The kinds of trouble that can be made here; says why others cannot."""
    for kind in kinds:
        if kind == "executor" and not master.startswith("local-cluster"):
            print(f"No executors are killed: with {master} the executor is part of the driver.", flush=True)
        elif kind == "disk" and not mounted:
            print("No disk is filled: mounting a small one is not allowed here.", flush=True)
        else:
            yield kind


def main(arguments: list[str] | None = None) -> int:
    """Read the command line and soak; 1 if a record was lost or repeated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="when to start no further round")
    parser.add_argument("--rounds", type=int, help="play at most so many rounds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-chaos-", ignore_cleanup_errors=True) as work,
        small_disk(Path(work) / "checkpoints", "disk" in options.kinds) as mounted,
    ):
        kinds = list(possible(options.kinds, options.master, mounted))
        soak = Soak(options.master, Path(work), options.seed, kinds, lambda text: print(text, flush=True))
        soak.run(options.minutes, options.rounds)
    print(soak.summary, flush=True)
    return 1 if soak.lost or soak.duplicated else 0


if __name__ == "__main__":
    sys.exit(main())
