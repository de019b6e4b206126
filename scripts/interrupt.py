"""Ctrl-C at random moments of a job on Spark: it is heard, leaves nothing behind, and the job goes on.

``python scripts/interrupt.py --moments 20 --seed 1`` runs a job once undisturbed, to know how long it takes,
then once for each moment, and prints a table.  A moment is in the start, the run or the end; a signal goes to
the whole process group, as that of a terminal does.  Behind each, the command that was printed is run: the
output must then be that of the quiet run.  ``--signal TERM`` sends that one; ``--python`` runs the program
itself instead of ``penstock run``.  The exit status is 1 if anything was not as it must be.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SPARK_TESTS = ROOT / "tests" / "spark"
sys.path[:0] = [str(ROOT), str(SPARK_TESTS), str(SPARK_TESTS / "jobs"), str(ROOT / "scripts")]

from class_archive import quick_options, quiet_environment  # noqa: E402
from flow_graphs import keyed_golden, read_text  # noqa: E402
from interrupt_job import COUNT, RATE  # noqa: E402

JOB = ROOT / "scripts" / "interrupt_job.py"
PATIENCE_S = 300.0
GONE_S = 10.0
"""How long a process that was told to end may take to be gone, behind the end of the driver."""
MARK = "PENSTOCK_INTERRUPT_TRIAL"
GO_ON = re.compile(r"go on with: (.+)$", re.MULTILINE)
ENDED = {signal.SIGINT: (130, -signal.SIGINT), signal.SIGTERM: (143,)}


@dataclass(frozen=True)
class Trial:
    """What became of one interrupted run."""

    part: str
    at_s: float
    status: int | None
    """``None``: it was not heard."""
    took_s: float
    left: tuple[int, ...]
    before: int | None
    """The newest checkpoint when the signal was sent."""
    after: int | None
    said: str
    command: str | None
    exact: bool
    """Whether the output is that of a quiet run, once the printed command has ended."""

    def wrong(self, number: signal.Signals) -> list[str]:
        """Everything that is not as it must be."""
        over = self.status == 0 or (self.command is None and self.exact)
        found = []
        if self.status is None:
            found.append("swallowed")
        elif self.status not in (*ENDED[number], 0):
            found.append(f"status {self.status}")
        if self.left:
            found.append(f"left behind: {self.left}")
        if not over and self.before is not None and (self.after is None or self.after < self.before):
            found.append("checkpoint lost")
        if not self.exact:
            found.append("not exact")
        return found


class Place:
    """A directory of its own for one run, and the processes that belong to it."""

    def __init__(self, work: Path, as_python: bool) -> None:
        self.work = work
        self._mark = uuid.uuid4().hex
        penstock = Path(sys.executable).with_name("penstock")
        entry = [str(JOB)] if as_python else [str(penstock), "run", str(JOB)]
        self.command = [sys.executable, *entry, str(work)]

    def environment(self) -> dict[str, str]:
        """Whatever is started with it can be found again, also when its parent is gone."""
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PENSTOCK_HOME": str(self.work / "home"),
            "SPARK_LOCAL_DIRS": str(self.work / "tmp"),
            MARK: self._mark,
            **quiet_environment(self.work),
        }

    def start(self) -> subprocess.Popen[str]:
        """The job, as the first of a process group."""
        (self.work / "tmp").mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(
            self.command,
            cwd=self.work,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def processes(self) -> list[int]:
        """Everything alive that was started by this run."""
        wanted, found = f"{MARK}={self._mark}".encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if wanted in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
        return found

    def left(self) -> tuple[int, ...]:
        """What is still there a little later."""
        deadline = time.monotonic() + GONE_S
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        return tuple(self.processes())

    def newest(self) -> int | None:
        """The newest checkpoint that is published."""
        found = self.work.glob("checkpoints/*/chk-*/_metadata*")
        return max((int(path.parent.name.partition("-")[2]) for path in found), default=None)

    def is_exact(self) -> bool:
        """Whether the output is complete, each line once."""
        return read_text(self.work / "out") == keyed_golden(COUNT)

    def kill(self) -> None:
        """Nothing stays here, whatever the verdict."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def ended(process: subprocess.Popen[str]) -> tuple[int | None, str]:
    """Status and output of a process; no status if it does not end."""
    try:
        said, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return None, ""
    return process.returncode, said


def timetable(work: Path, as_python: bool) -> tuple[float, float]:
    """When the first checkpoint is there, and when the program is over, if nobody disturbs it."""
    place = Place(work, as_python)
    began, first = time.monotonic(), None
    process = place.start()
    while process.poll() is None:
        if first is None and place.newest() is not None:
            first = time.monotonic() - began
        time.sleep(0.02)
    took = time.monotonic() - began
    said = process.communicate()[0]
    assert process.returncode == 0 and first is not None and place.is_exact(), said
    return first, took


def moments(count: int, seed: int, first: float) -> list[tuple[str, float]]:
    """When to interrupt: of five, two in the start, two in the run and one in the end.

    Seconds from the start of the program, or from its first checkpoint on.
    """
    rng = random.Random(seed)
    reading = COUNT / RATE
    parts = {"start": (0.0, first), "run": (0.0, reading), "end": (reading - 0.5, reading + 2.0)}
    drawn = [("start", "run", "start", "run", "end")[number % 5] for number in range(count)]
    return [(part, rng.uniform(*parts[part])) for part in drawn]


def trial(work: Path, part: str, at_s: float, number: signal.Signals, as_python: bool) -> Trial:
    """Start, interrupt, look; then do what was said."""
    place = Place(work, as_python)
    process = place.start()
    try:
        while part != "start" and place.newest() is None and process.poll() is None:
            time.sleep(0.02)
        time.sleep(at_s)
        before, sent = place.newest(), time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        status, said = ended(process)
        took = time.monotonic() - sent
        left, after = place.left(), place.newest()
        told = GO_ON.search(said)
        command = None if told is None else told[1]
        if status is not None and status != 0 and not place.is_exact():
            again = command if command is not None else shlex.join(place.command)
            subprocess.run(
                again, shell=True, cwd=work, env=place.environment(), check=False, timeout=PATIENCE_S
            )
        return Trial(part, at_s, status, took, left, before, after, said.strip(), command, place.is_exact())
    finally:
        place.kill()


def main() -> int:
    """Play all moments; 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--signal", choices=("INT", "TERM"), default="INT")
    parser.add_argument("--python", action="store_true", help="run the program itself")
    parser.add_argument("--verbose", action="store_true", help="show what each run printed")
    asked = parser.parse_args()
    os.environ.setdefault("JDK_JAVA_OPTIONS", quick_options())
    number = signal.Signals[f"SIG{asked.signal}"]
    root = Path(tempfile.mkdtemp(prefix="penstock-interrupt-"))
    failed = 0
    try:
        first, took = timetable(root / "quiet", asked.python)
        print(f"undisturbed: first checkpoint after {first:.1f} s, over after {took:.1f} s", flush=True)
        print("  #  part   at s  status  ended in s  left  checkpoint    told  exact  verdict")
        for place, (part, at_s) in enumerate(moments(asked.moments, asked.seed, first)):
            done = trial(root / str(place), part, at_s, number, asked.python)
            wrong = done.wrong(number)
            failed += bool(wrong)
            kept = f"{done.before or '-'} -> {done.after or '-'}"
            print(
                f"{place + 1:3}  {done.part:5} {done.at_s:5.1f}  {done.status!s:>6}  {done.took_s:10.1f}  "
                f"{len(done.left):4}  {kept:12}  {'yes' if done.command else 'no':>4}  "
                f"{'yes' if done.exact else 'no':>5}  {', '.join(wrong) or 'ok'}",
                flush=True,
            )
            if asked.verbose:
                print(done.said, flush=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{asked.moments - failed} of {asked.moments} as they must be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
