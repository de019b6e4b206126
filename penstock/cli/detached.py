"""``penstock run -d``: the same command again, in a process that stays when this one and its terminal go."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from penstock.cli.output import as_file_name, say
from penstock.coordinator.private import make_private
from penstock.coordinator.registry import Entry, entries, make_home
from penstock.core.clock import SystemClock
from penstock.core.errors import ClusterError, ConfigError
from penstock.storage.own_files import open_file

PATIENCE_S = 120.0
"""How long to wait for a job; a program may do other things first."""
_POLL_S = 0.1
_LAST_BYTES = 4000


def leave_running(ctx: click.Context, log: Path | None, debug: bool) -> None:
    """Start the command of ``ctx`` without ``-d``, and return when its job runs, or it has ended."""
    given = ctx.params
    entries()  # an error before anything is started, if jobs could not be found
    path = _log_file(given["name"] or given["script"].stem) if log is None else log.absolute()
    process = _start([*(["--debug"] if debug else []), "run", *_arguments(given)], path)
    try:
        entry = _awaited(process)
    except KeyboardInterrupt:
        say(f"It goes on without you: pid {process.pid}, log {path}.", err=True)
        raise
    if entry is not None:
        say(f"Job {entry.name} ({entry.id}) runs, pid {entry.pid}.")
    elif process.poll() is None:
        say(f"The program runs, pid {process.pid}; after {PATIENCE_S:.0f} s it has not started a job yet.")
    elif process.returncode == 0:
        say("The program has ended.")
    else:
        raise ClusterError(
            f"the program failed with status {process.returncode}; its log is {path}\n{_end(path)}"
        )
    say(f"Its log: {path}")


def _arguments(given: dict[str, Any]) -> list[str]:
    """The command line that means ``given``."""
    values = {
        "-p": given["parallelism"],
        "--master": given["master"],
        "-s": given["from_snapshot"],
        "--name": given["name"],
        "--config": given["config"],
    }
    flags = {"--allow-non-restored-state": given["allow_non_restored_state"], "--claim": given["claim"]}
    made = [part for name, value in values.items() if value is not None for part in (name, str(value))]
    made += [name for name, is_set in flags.items() if is_set]
    made += [part for setting in given["settings"] for part in ("-D", setting)]
    return [*made, "--", str(given["script"]), *given["args"]]


def _log_file(name: str) -> Path:
    """A new file's name in the user's own directory."""
    directory = make_private(make_home() / "logs")
    began = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    return directory / f"{as_file_name(name) or 'job'}-{began:%Y%m%d-%H%M%S}-{os.getpid()}.log"


def _start(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    try:
        file = open_file(log, "ab")
    except OSError as error:
        raise ConfigError(
            f"the log {log} cannot be written: {error.strerror}; name another with --log"
        ) from error
    with file:
        return subprocess.Popen(
            [sys.executable, "-m", "penstock.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


def _awaited(process: subprocess.Popen[bytes]) -> Entry | None:
    """The first job of a process, once it can be found; ``None`` if it ended or takes too long."""
    clock = SystemClock()
    deadline = clock.monotonic() + PATIENCE_S
    while process.poll() is None and clock.monotonic() < deadline:
        for entry in entries():
            if entry.pid == process.pid:
                return entry
        threading.Event().wait(_POLL_S)
    return None


def _end(log: Path) -> str:
    """The last lines of a log."""
    with log.open("rb") as file:  # which --log may have named, with years in it
        file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_BYTES))
        text = file.read(_LAST_BYTES).decode(errors="replace")
    return "\n".join(text.strip().splitlines()[-20:])
