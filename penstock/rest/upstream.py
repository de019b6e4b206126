"""Calls from ``penstock ui`` to the driver of one running job, for a browser that may not know its token.

The driver is asked for a code through the registry, which only its user can use, and gives a session for it,
as it would to a browser.  So its token crosses no port: whoever has taken the port of a driver that is gone
learns nothing.  For the same reason the certificate of a driver with TLS need not be known here.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import SplitResult, urlsplit

from penstock.coordinator.registry import Entry
from penstock.rest.look import Refused

PATIENCE_S = 25.0
"""Shorter than a browser's request may take here, so that it gets an answer that says why there is none."""
MOST_BYTES = 32 << 20
SILENT = 502
_KINDS = ("application/json", "text/plain")
"""What is passed on: a driver's pages and scripts are not, they come from here."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a driver said."""

    status: int
    kind: str
    body: bytes


class Upstream:
    """One driver. Thread-safe; every call has a connection of its own."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self._lock = threading.Lock()
        self._session: tuple[SplitResult, str] | None = None

    def ask(
        self, method: str, target: str, body: bytes | None = None, patience_s: float = PATIENCE_S
    ) -> Answer:
        """What the driver answers; 502 if it does not. ``target`` is a path with its query."""
        for is_last in (False, True):
            place, cookie = self._entered(patience_s)
            headers = {"Cookie": cookie, "Origin": f"{place.scheme}://{place.netloc}"}
            if body:
                headers["Content-Type"] = "application/json"
            said, _ = self._call(place, method, target, body, headers, patience_s)
            if said.status != http.client.UNAUTHORIZED or is_last:
                return _passed_on(said)
            with self._lock:  # the driver has forgotten us: it keeps the newest sessions
                self._session = None
        raise AssertionError

    def _entered(self, patience_s: float) -> tuple[SplitResult, str]:
        with self._lock:
            if self._session is not None:
                return self._session
        link = self.entry.page_link()
        if link is None:
            raise self._silent()
        place = urlsplit(link)
        _, cookies = self._call(place, "GET", f"/?{place.query}", None, {}, patience_s)
        try:
            found = [f"{name}={one.value}" for name, one in SimpleCookie(cookies).items()]
        except CookieError:
            found = []
        if len(found) != 1:
            raise self._silent()
        with self._lock:
            self._session = place, found[0]
            return self._session

    def _call(
        self,
        place: SplitResult,
        method: str,
        target: str,
        body: bytes | None,
        headers: dict[str, str],
        patience_s: float,
    ) -> tuple[Answer, str]:
        connection = _connection(place, patience_s)
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            text = response.read(MOST_BYTES + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._silent() from error
        finally:
            connection.close()
        if len(text) > MOST_BYTES:
            raise Refused(SILENT, f"the driver's answer has more than {MOST_BYTES} bytes")
        kind = response.headers.get("content-type", "")
        return Answer(response.status, kind, text), response.headers.get("set-cookie", "")

    def _silent(self) -> Refused:
        return Refused(
            SILENT, f"the driver of job {self.entry.name!r} (pid {self.entry.pid}) does not answer"
        )


def _connection(place: SplitResult, patience_s: float) -> http.client.HTTPConnection:
    host, port = place.hostname or "", place.port
    if place.scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=patience_s)
    context: Any = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=patience_s, context=context)


def _passed_on(said: Answer) -> Answer:
    kind = said.kind.partition(";")[0].strip().lower()
    if said.status < 400 and kind not in _KINDS:
        raise Refused(404, "there is nothing of that name at the driver")
    return said if kind in _KINDS else Answer(said.status, "text/plain", said.body)
