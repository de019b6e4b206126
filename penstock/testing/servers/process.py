"""Processes of servers: started aside, on a port that is free, killed by number, and never left behind.

A server runs in a session of its own, so that ^C at the test run does not reach it, under an account that
it accepts (several servers refuse to be root).  Beside it waits a small shell, the watchdog, with a pipe
from us: when that closes, because it was told to or because we were killed, it kills the server and
removes its directory.
"""

from __future__ import annotations

import os
import pwd
import random
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from penstock.core.clock import SystemClock
from penstock.core.errors import ConnectorError

LOOPBACK = "127.0.0.1"
_PORTS = range(20_000, 32_000)
"""Below those that Linux gives to outgoing connections.  A client that keeps dialling a killed server's
port would else be given that very port as its own one day, meet itself, and keep the server out."""
_TRIES = 200


def free_port() -> int:
    """A port on which a server can listen, and listen again after it was killed."""
    for port in random.SystemRandom().sample(_PORTS, _TRIES):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
    raise ConnectorError(f"found no free port between {_PORTS.start} and {_PORTS.stop} on {LOOPBACK}")


def ask(port: int, question: bytes, size: int) -> bytes:
    """The first ``size`` bytes that come back for ``question``; fewer if nobody or nothing answers."""
    answer = b""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=2.0) as link:
            link.sendall(question)
            while len(answer) < size and (part := link.recv(size - len(answer))):
                answer += part
    except OSError:
        pass
    return answer


_WATCH = """cat >/dev/null
[ -f "$1/pid" ] && kill -s KILL -- "-$(cat "$1/pid")" 2>/dev/null
rm -rf -- "$1"
"""
_GONE_WITHIN = 10.0


def account(wanted: str | None) -> str | None:
    """Whom to run as: ``wanted`` (or ``nobody``) if we are root, else ourselves (``None``)."""
    if wanted is None or os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return wanted if wanted in known else "nobody"


def spawn(command: Sequence[str], log: Path, user: str | None) -> subprocess.Popen[bytes]:
    """Start ``command`` in a session of its own, with its output appended to ``log``."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            start_new_session=True,
            user=user,
            group=None if user is None else pwd.getpwnam(user).pw_gid,
            extra_groups=None if user is None else [],
        )


def watchdog(directory: Path) -> subprocess.Popen[bytes]:
    """The shell that tidies up after us; ``directory/pid`` is to name the server's process."""
    return subprocess.Popen(
        ["sh", "-c", _WATCH, "penstock-watchdog", str(directory)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill -9 a process and all below it; returns when none of them is left."""
    family = [process.pid, *_below(process.pid)]
    for pid in family:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()
    clock = SystemClock()
    deadline = clock.monotonic() + _GONE_WITHIN
    while any(_alive(pid) for pid in family) and clock.monotonic() < deadline:
        Event().wait(0.01)


def _below(pid: int) -> list[int]:
    parents = {int(entry.name): _stat(int(entry.name)) for entry in Path("/proc").glob("[0-9]*")}
    found = [child for child, stat in parents.items() if stat is not None and stat[1] == pid]
    return found + [deeper for child in found for deeper in _below(child)]


def _alive(pid: int) -> bool:
    stat = _stat(pid)
    return stat is not None and stat[0] != "Z"


def _stat(pid: int) -> tuple[str, int] | None:
    """State and parent of a process; ``None`` if it is gone, or this system has no ``/proc``."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except OSError:
        return None
    state, parent = fields.split()[:2]
    return state, int(parent)
