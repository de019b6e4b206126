"""A soak on real Spark: rounds of a job, each disturbed at a random moment, each checked to the record.

``python scripts/chaos.py --minutes 10 --seed 1`` plays all kinds of trouble in random order; the same seed
plays the same ones.  A round is over when the job has ended; its files and its log must then hold exactly
the golden output.  Recovery is the time from the trouble (for a full disk
and a cut network: from its end) to the first
snapshot that the job publishes after it.  Where network namespaces are allowed, all of it runs on a cluster
of three such hosts, and the network between them is cut (``chaos_network.py``).
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
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SPARK_TESTS = ROOT / "tests" / "spark"
sys.path[:0] = [str(ROOT), str(SPARK_TESTS), str(SPARK_TESTS / "jobs"), str(ROOT / "scripts")]

from chaos_job import HEARTBEAT_TIMEOUT_S  # noqa: E402
from chaos_network import DRIVER, WORKERS, Cluster, address, spark_hosts  # noqa: E402
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
KINDS = ("worker", "executor", "driver", "pause", "disk", "network")
LOCAL_CLUSTER = "local-cluster[2,1,1024]"


@dataclass(frozen=True)
class Hit:
    """A trouble that was made."""

    began: float
    """When recovery starts to count."""
    restarts: bool = True
    """Whether only a new attempt can go on after it."""
    how: str = ""


@dataclass(frozen=True)
class Round:
    """What came of a round."""

    kind: str
    recovery_s: float
    lost: int
    duplicated: int


class Soak:
    """Rounds and trouble, and what came of them."""

    def __init__(
        self,
        place: str | Cluster,
        work: Path,
        seed: int,
        kinds: list[str],
        say: Callable[[str], None],
    ) -> None:
        self.kills = 0
        self.rounds: list[Round] = []
        self._place = place
        self._work = work
        self._rng = random.Random(seed)
        self._kinds = kinds
        self._say = say
        self._next: list[str] = []
        self._number = 0
        self._driver: Driver
        self._trouble: dict[str, Callable[[], Hit]] = {
            "worker": self._kill_worker,
            "executor": self._kill_executor,
            "driver": self._kill_driver,
            "pause": self._pause_worker,
            "disk": self._fill_disk,
            "network": self._cut_network,
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
    def ok(self) -> bool:
        """Whether every record was there once, in every round."""
        return not any(played.lost or played.duplicated for played in self.rounds)

    @property
    def summary(self) -> str:
        """A line per kind, and one for all."""
        lines = [f"{'kind':10}{'rounds':>8}{'median_s':>10}{'worst_s':>10}{'lost':>6}{'duplicated':>12}"]
        for kind in self._kinds:
            of_kind = [played for played in self.rounds if played.kind == kind]
            count, median, worst, lost, duplicated = _totals(of_kind)
            lines.append(f"{kind:10}{count:>8}{median:>10.2f}{worst:>10.2f}{lost:>6}{duplicated:>12}")
        count, median, worst, lost, duplicated = _totals(self.rounds)
        lines.append(
            f"kills={self.kills} recoveries={count} median_recovery_s={median:.2f} "
            f"worst_recovery_s={worst:.2f} lost={lost} duplicated={duplicated}"
        )
        return "\n".join(lines)

    def _play_round(self) -> None:
        kind = self._choose()
        generation = self._until_published(lambda _: True)
        time.sleep(self._rng.uniform(0, LONGEST_MOMENT_S))
        self.kills += 1
        hit = self._trouble[kind]()
        self._until_published(self._is_after(hit, generation))
        recovery_s = time.monotonic() - hit.began
        self._gate().touch()
        self._driver.wait_for(f"round {self._number} done", PATIENCE_S)
        played = Round(kind, recovery_s, *self._compare())
        self.rounds.append(played)
        self._say(
            f"round {self._number}: {kind}{hit.how}, recovered in {recovery_s:.2f} s, "
            f"lost={played.lost} duplicated={played.duplicated}"
        )
        shutil.rmtree(self._out())

    def _choose(self) -> str:
        """Every kind once, in random order; then again."""
        if not self._next:
            self._next = self._rng.sample(self._kinds, len(self._kinds))
        return self._next.pop()

    def _is_after(self, hit: Hit, generation: int) -> Callable[[int], bool]:
        """Which snapshots show that the job is back: of a new attempt, unless none was needed."""
        if hit.restarts:
            return lambda found: found > generation
        seen = len(self._generations())
        return lambda found: len(self._generations()) > seen

    def _compare(self) -> tuple[int, int]:
        """Output against golden, both sinks."""
        golden = Counter(keyed_golden(COUNT))
        lost = duplicated = 0
        for lines in (read_text(self._out() / "file"), read_log(self._out() / "log")):
            found = Counter(lines)
            lost += (golden - found).total()
            duplicated += (found - golden).total()
        return lost, duplicated

    # --- the program --------------------------------------------------------------------------

    def _start_driver(self) -> None:
        place = self._place
        if isinstance(place, Cluster):
            where = {"SPARK_LOCAL_IP": address(DRIVER)}
            entry = place.hosts.entry(DRIVER)
            self._driver = Driver(
                self._work, str(JOB), place.master, self._work, self._number, env=where, entry=entry
            )
        else:
            self._driver = Driver(self._work, str(JOB), place, self._work, self._number)

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

    # --- trouble ------------------------------------------------------------------------------

    def _kill_worker(self) -> Hit:
        kill(self._rng.choice(self._workers()))
        return Hit(time.monotonic())

    def _kill_executor(self) -> Hit:
        place = self._place
        roots = place.workers if isinstance(place, Cluster) else [self._driver.process.pid]
        kill(self._rng.choice([pid for root in roots for pid in executors(root)]))
        return Hit(time.monotonic())

    def _kill_driver(self) -> Hit:
        self._driver.kill_all()
        began = time.monotonic()
        self._driver.__exit__()
        self._start_driver()
        return Hit(began)

    def _pause_worker(self) -> Hit:
        """Silent for longer than the driver waits; then it wakes up and finds itself replaced."""
        pid = self._rng.choice(self._workers())
        began = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(HEARTBEAT_TIMEOUT_S + self._rng.uniform(1, 3))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return Hit(began)

    def _fill_disk(self) -> Hit:
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
        return Hit(time.monotonic(), restarts=False)

    def _cut_network(self) -> Hit:
        """One host alone, for longer or shorter than the driver waits; or slots apart from each other."""
        assert isinstance(self._place, Cluster)
        hosts, host = self._place.hosts, self._rng.choice(WORKERS)
        seconds, block, who = self._rng.choice(
            [
                (HEARTBEAT_TIMEOUT_S + self._rng.uniform(1, 3), hosts.cut(host), "of one host"),
                (self._rng.uniform(0.2, HEARTBEAT_TIMEOUT_S / 3), hosts.cut(host), "of one host"),
                (self._rng.uniform(0.5, 2 * HEARTBEAT_TIMEOUT_S), hosts.apart(), "between the slots"),
            ]
        )
        with block:
            time.sleep(seconds)
        restarts = who == "of one host" and seconds > HEARTBEAT_TIMEOUT_S
        return Hit(time.monotonic(), restarts, f" {who} cut for {seconds:.1f} s")


def _totals(rounds: list[Round]) -> tuple[int, float, float, int, int]:
    """Number, median and worst recovery, lost, duplicated."""
    times = [played.recovery_s for played in rounds] or [0.0]
    lost, duplicated = sum(played.lost for played in rounds), sum(played.duplicated for played in rounds)
    return len(rounds), statistics.median(times), max(times), lost, duplicated


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


@contextlib.contextmanager
def place_to_run(master: str | None, work: Path, with_network: bool) -> Iterator[str | Cluster]:
    """The master asked for; else hosts with a network to cut, where allowed; else Spark's own pretence."""
    if with_network and master is not None:
        print(f"network cuts are left out: they need a cluster of their own, not {master}.", flush=True)
    if not with_network or master is not None:
        yield master or LOCAL_CLUSTER
        return
    with spark_hosts(work) as cluster:
        yield cluster or LOCAL_CLUSTER


def possible(kinds: list[str], place: str | Cluster, mounted: bool) -> Iterator[str]:
    """The kinds of trouble that can be made here; says why others cannot."""
    for kind in kinds:
        if kind == "executor" and isinstance(place, str) and not place.startswith("local-cluster"):
            print(f"No executors are killed: with {place} the executor is part of the driver.", flush=True)
        elif kind == "disk" and not mounted:
            print("No disk is filled: mounting a small one is not allowed here.", flush=True)
        elif kind != "network" or isinstance(place, Cluster):
            yield kind


def main(arguments: list[str] | None = None) -> int:
    """Read the command line and soak; 1 if a record was lost or repeated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="when to start no further round")
    parser.add_argument("--rounds", type=int, help="play at most so many rounds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", help=f"default: hosts in namespaces, or {LOCAL_CLUSTER}")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-chaos-", ignore_cleanup_errors=True) as name,
        small_disk(Path(name) / "checkpoints", "disk" in options.kinds) as mounted,
        place_to_run(options.master, Path(name), "network" in options.kinds) as place,
    ):
        kinds = list(possible(options.kinds, place, mounted))
        soak = Soak(place, Path(name), options.seed, kinds, lambda text: print(text, flush=True))
        try:
            soak.run(options.minutes, options.rounds)
        finally:
            print(soak.summary, flush=True)
    return 0 if soak.ok else 1


if __name__ == "__main__":
    # A terminated run cleans up like an interrupted one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
