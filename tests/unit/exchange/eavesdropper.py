"""Somebody between two peers: sees every byte, and may put some of his own in between."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import Any


class Between:
    """Listens where a server seems to be, and passes on what is said, both ways."""

    def __init__(self, server: tuple[str, int], host: str = "127.0.0.1") -> None:
        self._server = server
        self._listener = socket.create_server((host, 0))
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self.to_server = bytearray()
        self.to_caller = bytearray()
        self.caller: socket.socket | None = None
        self.callee: socket.socket | None = None
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.caller, _ = self._listener.accept()
                self.callee = socket.create_connection(self._server)
                for source, target, seen in (
                    (self.caller, self.callee, self.to_server),
                    (self.callee, self.caller, self.to_caller),
                ):
                    threading.Thread(target=_pass_on, args=(source, target, seen), daemon=True).start()

    def close(self) -> None:
        for sock in (self._listener, self.caller, self.callee):
            if sock is not None:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                sock.close()


def _pass_on(source: socket.socket, target: socket.socket, seen: bytearray) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            seen += data
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


class Bomb:
    """Makes a directory where it is unpickled."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._place),)
