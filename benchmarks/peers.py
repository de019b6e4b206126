"""Other engines at the same work, by their own scripts and in their own environments, in the same run.

A peer's script prints a line ``RESULT`` with its figures; ``meas.py`` beside it runs it and looks at the
memory and the processor time of all its processes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import Figures
from rich.console import Console

TIMEOUT_S = 600


@dataclass(frozen=True)
class Peer:
    """An engine and the options of its script."""

    engine: str
    options: str


class Peers:
    """Runs peers; sets their environments up when the first one is wanted."""

    def __init__(self, home: Path, scripts: Path, console: Console) -> None:
        self._home, self._scripts, self._console = home.resolve(), scripts.resolve(), console

    def run(self, peer: Peer) -> Figures:
        """A peer's figures; none if it failed, and the console says why."""
        venv = self._home / f"venv_{peer.engine}"
        if not venv.exists():
            self._console.print(f"setting the peers up in {self._home} (once, several minutes) ...")
            settings = {**os.environ, "PEERS_HOME": str(self._home)}
            subprocess.run(["bash", str(self._scripts / "setup.sh")], env=settings, check=True)
        for script in self._scripts.glob("*.py"):
            shutil.copy(script, self._home)
        measured = self._measured(peer, venv)
        results = [one for one in measured["result"] if "raw" not in one]
        if not results:
            self._console.print(f"{peer.engine} {peer.options} failed: see {self._output(peer)}")
            return Figures()
        return _figures(results[-1], measured)

    def _measured(self, peer: Peer, venv: Path) -> dict[str, Any]:
        settings = {**os.environ, "PEERS_HOME": str(self._home)}
        settings["PATH"] = f"{venv}/bin{os.pathsep}{settings['PATH']}"
        if "thread" in peer.options:
            settings["PYTHONPATH"] = str(next((venv / "lib").glob("python3*/site-packages")))
        script = [f"{venv}/bin/python", f"{self._home}/bench_{peer.engine}.py", *peer.options.split()]
        watch = [f"{self._home}/venv_gen/bin/python", f"{self._home}/meas.py", "--timeout", str(TIMEOUT_S)]
        command = [*watch, "--out", str(self._output(peer)), "--", *script]
        done = subprocess.run(command, env=settings, cwd=self._home, capture_output=True, text=True)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
        return found

    def _output(self, peer: Peer) -> Path:
        return self._home / "logs" / f"{peer.engine}.txt"


def _figures(result: dict[str, Any], measured: dict[str, Any]) -> Figures:
    if "ev_s" not in result:
        return Figures(
            p50_ms=result["p50_ms"],
            p99_ms=result["p99_ms"],
            p999_ms=result.get("p999_ms"),
            peak_mb=measured["peak_rss_mb"],
        )
    millions = result["n"] / 1e6
    return Figures(
        events_s=result["ev_s"],
        processor_s_per_m=measured["cpu_s"] / millions,
        peak_mb=measured["peak_rss_mb"],
    )
