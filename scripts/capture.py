"""Writes every byte that passes some network devices of this namespace to a file, until it is ended.

    capture.py FILE DEVICE...

Needs root, and Linux.  Prints ``listening`` once nothing is missed any more.
"""

from __future__ import annotations

import select
import socket
import sys
from pathlib import Path

_ALL = 3
"""``ETH_P_ALL``: frames of every protocol, in both directions."""
_ROOM = 1 << 24


def main(file: str, *devices: str) -> None:
    """Frame after frame, as they pass."""
    taps = []
    for device in devices:
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
        tap.bind((device, 0))
        taps.append(tap)
    print("listening", flush=True)
    with Path(file).open("ab", buffering=0) as out:
        while True:
            for tap in select.select(taps, [], [])[0]:
                out.write(tap.recv(1 << 17))


if __name__ == "__main__":
    main(*sys.argv[1:])
