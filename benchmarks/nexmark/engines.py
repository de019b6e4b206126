"""The engines: a program for each that runs queries one after the other, and what it says of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.nexmark.events import Feed
from benchmarks.nexmark.reporting import BEGINS, FAILED, RESULT, sized

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FLINK = "apache-flink==2.3.0"
PATIENCE_S = 300
"""How long a query may say nothing; many times what the longest takes on a quiet machine."""
TAIL = 1500

Said = tuple[str, dict[str, Any] | None, str]
"""A query, what was said of it, or else what went wrong."""


@dataclass(frozen=True)
class Engine:
    """A program that runs queries."""

    name: str
    python: str
    script: Path
    checked: Feed
    """The events whose rows are compared with DuckDB's."""
    options: tuple[str, ...] = ()

    def check(self, queries: list[str], *more: str) -> Iterator[Said]:
        """Each query as it ends, over the events whose rows are compared."""
        events = self.checked.events or 0
        return self.run(dict.fromkeys(queries, events), self.checked.per_second, *more)

    def run(self, events: Mapping[str, int], per_second: int, *more: str) -> Iterator[Said]:
        """Each query as it ends, over so many events; all in one process, and behind one that takes it down,
        the rest in another."""
        left = dict(events)
        while left:
            for said in self._process(left, per_second, more):
                del left[said[0]]
                yield said

    def _process(self, events: Mapping[str, int], per_second: int, more: tuple[str, ...]) -> Iterator[Said]:
        """What one process says, of one query at least; the one in which it died or hung is the last."""
        queries = list(events)
        sizes = [sized(query, count) for query, count in events.items()]
        command = [self.python, str(self.script), *sizes, "--per-second", str(per_second)]
        command += [*self.options, *more]
        path = f"{Path(self.python).parent}{os.pathsep}{os.environ['PATH']}"
        settings = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}
        current = queries[0]
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                command, env=settings, stdout=subprocess.PIPE, stderr=errors, text=True
            )
            assert process.stdout is not None
            watch = _Watch(process)
            ended = 0
            for line in process.stdout:
                watch.again()
                kind, _, rest = line.partition(" ")
                if kind + " " == BEGINS:
                    current = json.loads(rest)["query"]
                elif kind + " " in (RESULT, FAILED):
                    found = json.loads(rest)
                    ended += 1
                    failed = kind + " " == FAILED
                    yield found.pop("query"), None if failed else found, found.get("error", "")
            watch.stop()
            process.wait()
            if ended < len(queries) and (process.returncode or not ended):
                errors.seek(0)
                tail = errors.read()[-TAIL:]
                yield current, None, f"the process ended with {process.returncode}: {tail}"


class _Watch:
    """Ends a process that says nothing for too long."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.again()

    def again(self) -> None:
        """It said something."""
        if hasattr(self, "_timer"):
            self._timer.cancel()
        self._timer = threading.Timer(PATIENCE_S, self._process.kill)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """It will say no more."""
        self._timer.cancel()


def penstock(check_events: int, by_sql: bool) -> Engine:
    """Penstock on Spark, in this environment."""
    options = ("--sql",) if by_sql else ()
    return Engine("Penstock", sys.executable, HERE / "penstock_job.py", Feed(check_events), options)


def flink(home: Path) -> Engine:
    """Flink in an environment of its own, which is made once."""
    place = home.resolve() / "venv_flink"
    if not place.exists():
        print(f"installing {FLINK} in {place} (once, some minutes) ...", flush=True)
        venv.create(place, with_pip=True)
        subprocess.run([place / "bin" / "pip", "install", "-q", FLINK], check=True)
    # Rows come from there one by one, so there are few; at this pace windows begin and end all the same.
    checked = Feed(6_000, per_second=250)
    return Engine("Flink SQL", str(place / "bin" / "python"), HERE / "flink_job.py", checked)
