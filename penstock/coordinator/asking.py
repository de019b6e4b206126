"""HTTP to a driver of this user, at the socket or port that its file names: how the command line asks.

What answers is ``rest/serving.py``, and what can be asked for is what REST has: there is no other table of
requests.  A connection is for one request, which shows the token of the file.  ``penstock ui`` asks here,
too, and says that it does so for a browser.
"""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.coordinator.private import connect_private
from penstock.core.errors import TransportError

PATIENCE_S = 10.0
"""How long a driver may be silent: one that has just started loads its server first."""
_LOOPBACK = "127.0.0.1"
_MAX_ANSWER = 16 << 20
"""An answer may hold an error of any length, or all that stands still in a large job."""
FOR_BROWSER = "penstock-for-browser"
"""Header of a request that somebody at a browser has made: what the page may not do is refused."""
_GOOD = range(200, 300)
_NOT_KNOWN = 401


@dataclass(frozen=True, slots=True)
class Said:
    """A driver's answer: what was asked for, or why not."""

    status: int
    body: dict[str, Any]

    @property
    def is_good(self) -> bool:
        """Whether it did as asked."""
        return self.status in _GOOD

    @property
    def why_not(self) -> str:
        """The reasons that it gave."""
        return "; ".join(map(str, self.body.get("errors") or ["the driver did not say why"]))


class _Connection(http.client.HTTPConnection):
    """To a socket with a name, or to a port of the loopback address."""

    def __init__(self, where: int | Path, patience_s: float) -> None:
        port = None if isinstance(where, Path) else where
        super().__init__(_LOOPBACK, port, timeout=patience_s)
        self._where = where
        self._patience_s = patience_s

    def connect(self) -> None:
        if isinstance(self._where, Path):
            self.sock = connect_private(self._where, self._patience_s)
        else:
            super().connect()


def ask(
    where: int | Path,
    token: str,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    patience_s: float = PATIENCE_S,
) -> Said:
    """Ask a driver.

    Raises :class:`TransportError` if it is gone, does not know the token, or is no driver at all.
    """
    sent = None if body is None else json.dumps(body).encode()
    answer = exchange(where, token, method, path, sent, patience_s)
    return Said(answer.status, _object(answer.body))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a driver has answered, as it is."""

    status: int
    kind: str
    """Its content type."""
    body: bytes


def exchange(
    where: int | Path,
    token: str,
    method: str,
    path: str,
    body: bytes | None = None,
    patience_s: float = PATIENCE_S,
    most: int = _MAX_ANSWER,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """The same of any kind, with an answer of at most so many bytes."""
    connection = _Connection(where, patience_s)
    shown = {"Authorization": f"Bearer {token}", "Connection": "close", **(headers or {})}
    try:
        with contextlib.suppress(BrokenPipeError):  # refused before all of it was sent: the answer says why
            connection.request(method, path, body, headers=shown)
        response = connection.getresponse()
        raw = response.read(most + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise TransportError(f"the job's driver does not answer: {error}") from error
    finally:
        connection.close()
    if response.status == _NOT_KNOWN:
        raise TransportError("whoever listens there does not know the job's token: it is not its driver")
    if len(raw) > most:
        raise TransportError("the job's driver says more than anybody reads")
    return Answer(response.status, response.headers.get("content-type", ""), raw)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise TransportError("the job's driver answered with something that is not JSON") from None
    if not isinstance(found, dict):
        raise TransportError("the job's driver answered with something that is no object")
    return found
